/** An attribute value as DynamoDB's JSON has it: `{"S":"text"}`, `{"N":"1"}`, `{"M":{...}}`. */
export type Value = Readonly<Record<string, unknown>>;
export type Item = Readonly<Record<string, Value>>;

/** What an expression is evaluated on. */
export interface Scope {
  readonly item: Item | undefined;
  readonly names: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, Value>>;
}

type Operand = (scope: Scope) => Value | undefined;
type Condition = (scope: Scope) => boolean;
type Change = (scope: Scope, changed: Record<string, Value>) => void;

const conditions = new Map<string, Condition>();
const updates = new Map<string, readonly Change[]>();

/** Whether a condition holds. Only what the two consumers use is understood; anything else throws. */
export function holds(text: string, scope: Scope): boolean {
  const condition = conditions.get(text) ?? new Parser(text).condition();
  conditions.set(text, condition);
  return condition(scope);
}

/** The item after an update expression. */
export function updated(text: string, scope: Scope): Item {
  const changes = updates.get(text) ?? new Parser(text).update();
  updates.set(text, changes);
  const changed = { ...scope.item };
  // Every operand is of the item as it was: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.UpdateExpressions.html
  for (const change of changes) change(scope, changed);
  return changed;
}

const comparisons: Readonly<Record<string, (order: number) => boolean>> = {
  '=': (order) => order === 0,
  '<>': (order) => order !== 0,
  '<': (order) => order < 0,
  '<=': (order) => order <= 0,
  '>': (order) => order > 0,
  '>=': (order) => order >= 0,
};

class Parser {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = text.match(/[#:]?[A-Za-z_]\w*|<=|>=|<>|\S/g) ?? [];
  }

  condition(): Condition {
    const condition = this.#either();
    if (this.#at < this.#tokens.length) throw this.#unexpected();
    return condition;
  }

  update(): Change[] {
    const changes: Change[] = [];
    while (this.#at < this.#tokens.length) {
      const parse = this.#skip('SET') ? () => this.#assignment() : this.#removal();
      do changes.push(parse());
      while (this.#skip(','));
    }
    return changes;
  }

  #removal() {
    this.#expect('REMOVE');
    return (): Change => {
      const path = this.#path();
      return ({ names }, changed) => put(changed, named(path, names), undefined);
    };
  }

  #assignment(): Change {
    const path = this.#path();
    this.#expect('=');
    const first = this.#operand();
    const sign = this.#skip('+') ? 1 : this.#skip('-') ? -1 : 0;
    const second = sign === 0 ? undefined : this.#operand();
    return (scope, changed) => {
      const value = second
        ? { N: String(numberOf(first(scope)) + sign * numberOf(second(scope))) }
        : first(scope);
      if (value === undefined) throw new Error(`Nothing to set ${path.join('.')} to`);
      put(changed, named(path, scope.names), value);
    };
  }

  #either(): Condition {
    const all = [this.#both()];
    while (this.#skip('OR')) all.push(this.#both());
    return (scope) => all.some((one) => one(scope));
  }

  #both(): Condition {
    const all = [this.#single()];
    while (this.#skip('AND')) all.push(this.#single());
    return (scope) => all.every((one) => one(scope));
  }

  #single(): Condition {
    if (this.#skip('(')) {
      const inner = this.#either();
      this.#expect(')');
      return inner;
    }
    for (const [name, exists] of [
      ['attribute_exists', true],
      ['attribute_not_exists', false],
    ] as const) {
      if (!this.#skip(name)) continue;
      const [path] = this.#arguments(() => this.#path());
      return ({ item, names }) => (get(item, named(path ?? [], names)) !== undefined) === exists;
    }
    const left = this.#operand();
    if (this.#skip('IN')) {
      const among = this.#arguments(() => this.#operand());
      return (scope) => among.some((one) => compared(left(scope), one(scope)) === 0);
    }
    const comparison = comparisons[this.#next()];
    if (!comparison) throw this.#unexpected();
    const right = this.#operand();
    return (scope) => {
      const order = compared(left(scope), right(scope));
      return order !== undefined && comparison(order);
    };
  }

  #operand(): Operand {
    if (this.#skip('size')) {
      const [path] = this.#arguments(() => this.#path());
      return ({ item, names }) => {
        const map = get(item, named(path ?? [], names))?.M;
        return map === undefined ? undefined : { N: String(Object.keys(Object(map)).length) };
      };
    }
    if (this.#skip('if_not_exists')) {
      const [first, other] = this.#arguments(() => this.#operand());
      return (scope) => first?.(scope) ?? other?.(scope);
    }
    if (this.#tokens[this.#at]?.startsWith(':')) {
      const name = this.#next();
      return ({ values }) => values[name];
    }
    const path = this.#path();
    return ({ item, names }) => get(item, named(path, names));
  }

  #arguments<T>(parse: () => T): T[] {
    this.#expect('(');
    const all = [parse()];
    while (this.#skip(',')) all.push(parse());
    this.#expect(')');
    return all;
  }

  #path(): string[] {
    const path = [this.#next()];
    while (this.#skip('.')) path.push(this.#next());
    return path;
  }

  #next(): string {
    const token = this.#tokens[this.#at++];
    if (token === undefined) throw this.#unexpected();
    return token;
  }

  #skip(token: string): boolean {
    if (this.#tokens[this.#at] !== token) return false;
    this.#at += 1;
    return true;
  }

  #expect(token: string): void {
    if (!this.#skip(token)) throw this.#unexpected();
  }

  #unexpected(): Error {
    return new Error(`Not understood here: ${this.#tokens.slice(this.#at - 1).join(' ')}`);
  }
}

const named = (path: readonly string[], names: Scope['names']): string[] =>
  path.map((name) => (name.startsWith('#') ? (names[name] ?? name) : name));

function get(item: Item | undefined, [name = '', ...inner]: readonly string[]): Value | undefined {
  const value = item?.[name];
  return inner.length === 0 ? value : get(mapOf(value), inner);
}

/** Sets or removes what is at a path; maps on the way are copied, since the item before is kept. */
function put(
  item: Record<string, Value>,
  [name = '', ...inner]: readonly string[],
  value: Value | undefined,
): void {
  if (inner.length > 0) {
    const map = { ...mapOf(item[name]) };
    put(map, inner, value);
    item[name] = { M: map };
  } else if (value === undefined) delete item[name];
  else item[name] = value;
}

const mapOf = (value: Value | undefined): Item | undefined => value?.M as Item | undefined;

const numberOf = (value: Value | undefined): number => {
  if (value?.N === undefined) throw new Error('Only numbers are added');
  return Number(value.N);
};

/** Undefined where there is nothing to compare, or values of two types. */
function compared(left: Value | undefined, right: Value | undefined): number | undefined {
  if (left?.N !== undefined && right?.N !== undefined) return Number(left.N) - Number(right.N);
  if (typeof left?.S !== 'string' || typeof right?.S !== 'string') return undefined;
  return left.S === right.S ? 0 : left.S < right.S ? -1 : 1;
}
