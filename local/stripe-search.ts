const CLAUSE =
  /^\s*(?<not>-?)(?:metadata\[(?<name>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|(?<field>[a-z_]+))\s*(?<operator>:|>=|<=|>|<)\s*(?<value>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?\d+|null)/;
const JOINT = /^\s+(?:(AND|OR)\s+)?/;
const FIELDS = new Set(['amount', 'created', 'currency', 'customer', 'status']);

type Match = (object: object) => boolean;

/**
 * The part of Stripe's search language that finds payments: `metadata['operationId']:'O7' AND status:'succeeded'`,
 * `amount>500`, `-` for not, `null` for absent; AND and OR cannot be mixed. Returns undefined for any other text.
 */
export function parseSearch(query: string): Match | undefined {
  const clauses: Match[] = [];
  const joints = new Set<string>();
  for (let rest = query.trimEnd(); ; ) {
    const groups = CLAUSE.exec(rest);
    const clause = groups?.groups && clauseOf(groups.groups);
    if (!clause) return undefined;
    clauses.push(clause);
    rest = rest.slice(groups[0].length);
    if (rest === '') break;
    const joint = JOINT.exec(rest);
    if (!joint) return undefined;
    joints.add(joint[1] ?? 'AND');
    rest = rest.slice(joint[0].length);
  }
  if (joints.size > 1) return undefined;
  if (joints.has('OR')) return (object) => clauses.some((clause) => clause(object));
  return (object) => clauses.every((clause) => clause(object));
}

function clauseOf(groups: Record<string, string | undefined>): Match | undefined {
  const { not, name, field, operator = ':', value = '' } = groups;
  if (field !== undefined && !FIELDS.has(field)) return undefined;
  const read = name === undefined ? reader([field ?? '']) : reader(['metadata', unquoted(name)]);
  const matches: Match =
    value === 'null'
      ? (object) => read(object) === undefined
      : (object) => compare(read(object), operator, unquoted(value));
  return not === '-' ? (object) => !matches(object) : matches;
}

function compare(actual: string | undefined, operator: string, expected: string): boolean {
  if (actual === undefined) return false;
  switch (operator) {
    case '>':
      return Number(actual) > Number(expected);
    case '>=':
      return Number(actual) >= Number(expected);
    case '<':
      return Number(actual) < Number(expected);
    case '<=':
      return Number(actual) <= Number(expected);
    default:
      return actual === expected;
  }
}

function reader(path: readonly string[]): (object: object) => string | undefined {
  return (object) => {
    let value: unknown = object;
    for (const name of path) {
      if (typeof value !== 'object' || value === null) return undefined;
      value = new Map<string, unknown>(Object.entries(value)).get(name);
    }
    return value === null || value === undefined ? undefined : String(value);
  };
}

function unquoted(value: string): string {
  return /^['"]/.test(value) ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value;
}
