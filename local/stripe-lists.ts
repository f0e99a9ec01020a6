import { type Answer, found, invalid, missing } from './stripe-answers';
import { type Params, text, textsBelow } from './stripe-params';
import { parseSearch } from './stripe-search';
import { integerProblem, required, unknownParam } from './stripe-validation';

interface Listed {
  readonly id: string;
  readonly created: number;
}

/**
 * A list answer, newest first, https://docs.stripe.com/api/pagination: `limit` 1 to 100 (10), `starting_after`, and
 * `created`. A parameter that this list cannot filter by is refused, never ignored.
 */
export function list<T extends Listed>(
  path: string,
  oldestFirst: readonly T[],
  params: Params,
  filters: Readonly<Record<string, (object: T) => unknown>>,
): Answer {
  const known = new Set(['created', 'expand', 'limit', 'starting_after', ...Object.keys(filters)]);
  const limit = text(params, 'limit') ?? '10';
  const after = text(params, 'starting_after');
  const newestFirst = oldestFirst.toReversed();
  const start = after === undefined ? 0 : newestFirst.findIndex((object) => object.id === after) + 1;
  const problem =
    unknownParam(params, known) ??
    limitProblem(limit) ??
    createdProblem(params) ??
    (after !== undefined && start === 0 ? missing('object', after, 'starting_after') : undefined);
  if (problem) return problem;

  const matching = newestFirst
    .slice(start)
    .filter((object) => isWithin(params, object.created))
    .filter((object) =>
      Object.entries(filters).every(
        ([name, field]) => (text(params, name) ?? field(object)) === field(object),
      ),
    );
  const data = matching.slice(0, Number(limit));
  return found({ object: 'list', url: path, has_more: matching.length > data.length, data });
}

/** A search answer, newest first, https://docs.stripe.com/search; `page` is the `next_page` of the one before. */
export function search<T extends object>(path: string, oldestFirst: readonly T[], params: Params): Answer {
  const query = text(params, 'query');
  const limit = text(params, 'limit') ?? '10';
  const page = text(params, 'page') ?? '0';
  const known = new Set(['expand', 'limit', 'page', 'query']);
  const problem = unknownParam(params, known) ?? limitProblem(limit) ?? integerProblem('page', page, 0);
  if (problem) return problem;
  if (query === undefined) return required('query');
  const matches = parseSearch(query);
  if (!matches) return invalid('The search query cannot be understood.', 'query');

  const matching = oldestFirst.toReversed().filter(matches);
  const end = Number(page) + Number(limit);
  const data = matching.slice(Number(page), end);
  const has_more = matching.length > end;
  return found({
    object: 'search_result',
    url: path,
    has_more,
    next_page: has_more ? String(end) : null,
    data,
  });
}

function limitProblem(limit: string): Answer | undefined {
  const problem = integerProblem('limit', limit, 1);
  if (problem) return problem;
  return Number(limit) > 100
    ? invalid('The limit is at most 100.', 'limit', 'parameter_invalid_integer')
    : undefined;
}

const BOUNDS: Readonly<Record<string, (seconds: number, bound: number) => boolean>> = {
  gt: (seconds, bound) => seconds > bound,
  gte: (seconds, bound) => seconds >= bound,
  lt: (seconds, bound) => seconds < bound,
  lte: (seconds, bound) => seconds <= bound,
};

function createdProblem(params: Params): Answer | undefined {
  const exact = text(params, 'created');
  if (exact !== undefined) return integerProblem('created', exact, 0);
  for (const [name, bound] of Object.entries(textsBelow(params, 'created'))) {
    if (!BOUNDS[name])
      return invalid(`Received unknown parameter: created[${name}]`, 'created', 'parameter_unknown');
    const problem = integerProblem(`created[${name}]`, bound, 0);
    if (problem) return problem;
  }
  return undefined;
}

function isWithin(params: Params, createdSeconds: number): boolean {
  const exact = text(params, 'created');
  if (exact !== undefined) return createdSeconds === Number(exact);
  return Object.entries(textsBelow(params, 'created')).every(
    ([name, bound]) => BOUNDS[name]?.(createdSeconds, Number(bound)) ?? false,
  );
}
