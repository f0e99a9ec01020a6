export type Item = Readonly<Record<string, unknown>>;

/** What an expression is evaluated on: an item, and what its `#names` and `:values` stand for. */
export interface Scope {
  readonly item: Item;
  readonly names: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, unknown>>;
}

type Operand = (scope: Scope) => unknown;
type Condition = (scope: Scope) => boolean;
type Path = (scope: Scope) => readonly string[];
type Action = (scope: Scope, changed: Item) => Item;

/** What DynamoDB answers with a ValidationException: a bug of the expression. */
export class InvalidExpression extends Error {
  override readonly name = 'InvalidExpression';
}

/**
 * Whether a condition holds: the part of DynamoDB's condition expressions that the adapters use, and the words TRUE and
 * FALSE for what a planted bug leaves of a clause.
 * https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.OperatorsAndFunctions.html
 */
export function holds(text: string, scope: Scope): boolean {
  return cached(conditions, text, (parser) => parser.condition())(scope);
}

/** The item after an update expression: SET and REMOVE, every operand as it was before. */
export function updated(text: string, scope: Scope): Item {
  const actions = cached(updates, text, (parser) => parser.update());
  return actions.reduce((changed, action) => action(scope, changed), scope.item);
}

const conditions = new Map<string, Condition>();
const updates = new Map<string, readonly Action[]>();

function cached<T>(cache: Map<string, T>, text: string, parse: (parser: Parser) => T): T {
  let known = cache.get(text);
  if (known === undefined) {
    const parser = new Parser(text);
    known = parse(parser);
    parser.end();
    cache.set(text, known);
  }
  return known;
}

class Parser {
  readonly #tokens: string[];
  #at = 0;

  constructor(private readonly text: string) {
    this.#tokens = text.match(/[#:]?\w+|<>|<=|>=|[^\s\w]/g) ?? [];
  }

  end(): void {
    if (this.#at < this.#tokens.length) this.#fail();
  }

  condition(): Condition {
    const parts = [this.#conjunction()];
    while (this.#takes('OR')) parts.push(this.#conjunction());
    return (scope) => parts.some((part) => part(scope));
  }

  #conjunction(): Condition {
    const parts = [this.#negation()];
    while (this.#takes('AND')) parts.push(this.#negation());
    return (scope) => parts.every((part) => part(scope));
  }

  #negation(): Condition {
    if (!this.#takes('NOT')) return this.#primary();
    const negated = this.#negation();
    return (scope) => !negated(scope);
  }

  #primary(): Condition {
    if (this.#takes('TRUE')) return () => true;
    if (this.#takes('FALSE')) return () => false;
    if (this.#takes('(')) {
      const inner = this.condition();
      this.#expect(')');
      return inner;
    }
    if (this.#takes('attribute_exists')) {
      const path = this.#argument();
      return (scope) => read(scope, path(scope)) !== undefined;
    }
    if (this.#takes('attribute_not_exists')) {
      const path = this.#argument();
      return (scope) => read(scope, path(scope)) === undefined;
    }
    return this.#comparison();
  }

  #comparison(): Condition {
    const left = this.#operand();
    if (this.#takes('IN')) {
      this.#expect('(');
      const choices = [this.#operand()];
      while (this.#takes(',')) choices.push(this.#operand());
      this.#expect(')');
      return (scope) => choices.some((choice) => isEqual(left(scope), choice(scope)));
    }
    const compare = comparators[this.#next()] ?? this.#fail();
    const right = this.#operand();
    return (scope) => compare(left(scope), right(scope));
  }

  update(): readonly Action[] {
    const actions: Action[] = [];
    if (this.#takes('SET')) {
      do {
        const path = this.#path();
        this.#expect('=');
        const value = this.#sum();
        actions.push((scope, changed) => withValue(changed, path(scope), value(scope)));
      } while (this.#takes(','));
    }
    if (this.#takes('REMOVE')) {
      do {
        const path = this.#path();
        actions.push((scope, changed) => withValue(changed, path(scope), undefined));
      } while (this.#takes(','));
    }
    return actions;
  }

  #sum(): Operand {
    const left = this.#operand();
    const sign = this.#takes('+') ? 1 : this.#takes('-') ? -1 : 0;
    if (sign === 0) return left;
    const right = this.#operand();
    return (scope) => {
      const [a, b] = [left(scope), right(scope)];
      if (typeof a !== 'number' || typeof b !== 'number')
        throw new InvalidExpression(`no numbers to add in: ${this.text}`);
      return a + sign * b;
    };
  }

  #operand(): Operand {
    if (this.#takes('size')) {
      const path = this.#argument();
      return (scope) => sizeOf(read(scope, path(scope)));
    }
    if (this.#takes('if_not_exists')) {
      this.#expect('(');
      const path = this.#path();
      this.#expect(',');
      const other = this.#operand();
      this.#expect(')');
      return (scope) => read(scope, path(scope)) ?? other(scope);
    }
    if (!this.#tokens[this.#at]?.startsWith(':')) {
      const path = this.#path();
      return (scope) => read(scope, path(scope));
    }
    const name = this.#next();
    return ({ values }) => {
      const value = values[name];
      if (value === undefined) throw new InvalidExpression(`${name} has no value in: ${this.text}`);
      return value;
    };
  }

  #argument(): Path {
    this.#expect('(');
    const path = this.#path();
    this.#expect(')');
    return path;
  }

  #path(): Path {
    const segments = [this.#next()];
    while (this.#takes('.')) segments.push(this.#next());
    if (!segments.every((segment) => /^#?\w+$/.test(segment))) this.#fail();
    return ({ names }) =>
      segments.map((segment) => {
        const name = segment.startsWith('#') ? names[segment] : segment;
        if (name === undefined) throw new InvalidExpression(`${segment} has no name in: ${this.text}`);
        return name;
      });
  }

  #takes(token: string): boolean {
    if (this.#tokens[this.#at] !== token) return false;
    this.#at += 1;
    return true;
  }

  #next(): string {
    const token = this.#tokens[this.#at] ?? this.#fail();
    this.#at += 1;
    return token;
  }

  #expect(token: string): void {
    if (!this.#takes(token)) this.#fail();
  }

  #fail(): never {
    throw new InvalidExpression(`not understood at token ${this.#at}: ${this.text}`);
  }
}

const isComparable = (a: unknown, b: unknown): a is string | number =>
  typeof a === typeof b && (typeof a === 'number' || typeof a === 'string');

/** Comparisons with an attribute that is not there do not hold. */
const comparators: Readonly<Record<string, (a: unknown, b: unknown) => boolean>> = {
  '=': (a, b) => isEqual(a, b),
  '<>': (a, b) => !isEqual(a, b),
  '<': (a, b) => isComparable(a, b) && isComparable(b, a) && a < b,
  '<=': (a, b) => isComparable(a, b) && isComparable(b, a) && a <= b,
  '>': (a, b) => isComparable(a, b) && isComparable(b, a) && a > b,
  '>=': (a, b) => isComparable(a, b) && isComparable(b, a) && a >= b,
};

const isEqual = (a: unknown, b: unknown): boolean => a !== undefined && a === b;

function sizeOf(value: unknown): number | undefined {
  if (typeof value === 'string') return Buffer.byteLength(value);
  return isMap(value) ? Object.keys(value).length : undefined;
}

function read({ item }: Scope, path: readonly string[]): unknown {
  let value: unknown = item;
  for (const segment of path) value = isMap(value) ? value[segment] : undefined;
  return value;
}

/** A copy with one value set, or removed where it is undefined. */
function withValue(item: Item, [first = '', ...rest]: readonly string[], value: unknown): Item {
  if (rest.length > 0) {
    const inner = item[first];
    if (!isMap(inner)) throw new InvalidExpression(`there is no map ${first} to change`);
    return { ...item, [first]: withValue(inner, rest, value) };
  }
  if (value !== undefined) return { ...item, [first]: value };
  const { [first]: _, ...others } = item;
  return others;
}

const isMap = (value: unknown): value is Item =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
