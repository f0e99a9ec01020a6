import * as plain from '../../support/expression';

/** An attribute value as DynamoDB's JSON has it: `{"S":"text"}`, `{"N":"1"}`, `{"M":{...}}`. */
export type Value = Readonly<Record<string, unknown>>;
export type Item = Readonly<Record<string, Value>>;

/** What an expression is evaluated on. */
export interface Scope {
  readonly item: Item | undefined;
  readonly names: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, Value>>;
}

/** Whether a condition holds. Only what the two consumers use is understood; anything else throws. */
export const holds = (text: string, scope: Scope): boolean => plain.holds(text, plainScope(scope));

/** The item after an update expression. */
export const updated = (text: string, scope: Scope): Item =>
  marshalledMap(plain.updated(text, plainScope(scope)));

const plainScope = ({ item, names, values }: Scope): plain.Scope => ({
  item: plainMap(item ?? {}),
  names,
  values: plainMap(values),
});

const plainMap = (map: object): plain.Item =>
  Object.fromEntries(Object.entries(map).map(([name, value]) => [name, plainOf(value)]));

const marshalledMap = (map: object): Item =>
  Object.fromEntries(Object.entries(map).map(([name, value]) => [name, marshalledOf(value)]));

function plainOf(value: unknown): unknown {
  const [[type, content] = []] = Object.entries(Object(value));
  switch (type) {
    case 'S':
    case 'BOOL':
      return content;
    case 'N':
      return Number(content);
    case 'M':
      return plainMap(Object(content));
    default:
      throw new Error(`Values of type ${type} are not known here`);
  }
}

function marshalledOf(value: unknown): Value {
  switch (typeof value) {
    case 'string':
      return { S: value };
    case 'number':
      return { N: String(value) };
    case 'boolean':
      return { BOOL: value };
    default:
      return { M: marshalledMap(Object(value)) };
  }
}
