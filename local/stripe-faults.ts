import type { WireError } from './stripe-answers';
import type { RecordedRequest } from './stripe-requests';

/** Whether the request's effect (money moved, an object changed) happens, and before the fault shows. */
export type Effect = 'none' | 'done';

/** Something that goes wrong with a request. On a replayed answer there is no effect left to happen. */
export type Fault =
  /**
   * Answers this instead. `effect` is `none` by default. `save` keeps the answer under the key: by default 500, 402 and
   * 2xx are kept, everything else is not (429, 409, 401, 403, 400, and gateway answers such as 503). An answer that is
   * not saved and has no effect comes before the key is looked at; an effect that is done behind an answer that is
   * not saved leaves its real answer under the key.
   */
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly error?: WireError;
      /** The whole body, instead of `error`. */
      readonly body?: string | object;
      readonly headers?: Readonly<Record<string, string>>;
      readonly effect?: Effect;
      readonly save?: boolean;
    }
  /** Destroys the socket; after the effect the answer is under the key. */
  | { readonly kind: 'reset'; readonly effect: Effect }
  /**
   * Waits, or until the client leaves, then answers. With `none` the effect comes after the wait, and never when
   * the client left.
   */
  | { readonly kind: 'stall'; readonly ms: number; readonly effect: Effect }
  /** Destroys the socket at once; the request lands `ms` (of real time) later, as one that outlived its sender. */
  | { readonly kind: 'lateEffect'; readonly ms: number }
  /** The effect is done, half of the body is sent, the socket destroyed. */
  | { readonly kind: 'truncate' }
  /** Calls `run`, and waits for it; `drop` then destroys the socket (before the effect: there is none). */
  | {
      readonly kind: 'hook';
      readonly at: 'beforeEffect' | 'afterEffect';
      readonly run: (request: RecordedRequest) => void | Promise<void>;
      /** @default 'continue' */
      readonly next?: 'continue' | 'drop';
    };

/** Which requests a fault is for; every field given must fit. */
export interface FaultMatch {
  readonly method?: string;
  /** The path without its query: a text must equal it. */
  readonly path?: RegExp | string;
  /** `O7` or `North/O7`: of the request's metadata, or of the object its path names. */
  readonly operationId?: string;
  /** How many requests meet the fault. @default 1 */
  readonly times?: number;
}

/** A fault that waits for its request. */
export interface PlannedFault {
  readonly fault: Fault;
  readonly match: FaultMatch;
  /** How many more requests meet it. */
  readonly timesLeft: number;
}

type Planned = { -readonly [Field in keyof PlannedFault]: PlannedFault[Field] };

/** The faults that wait for their request. Of several that fit, the one planned first is met first. */
export class FaultPlan {
  #planned: Planned[] = [];

  /** Returns a function that takes the fault back. */
  add(fault: Fault, match: FaultMatch = {}): () => void {
    const planned = { fault, match, timesLeft: match.times ?? 1 };
    this.#planned.push(planned);
    return () => this.#remove(planned);
  }

  /** The fault that this request meets, counted as met; undefined for none. */
  take(request: RecordedRequest, canMeet: (fault: Fault) => boolean): Fault | undefined {
    const met = this.#planned.find(({ fault, match }) => fits(match, request) && canMeet(fault));
    if (!met) return undefined;
    met.timesLeft -= 1;
    if (met.timesLeft <= 0) this.#remove(met);
    return met.fault;
  }

  /** In the order in which they were planned. */
  waiting(): PlannedFault[] {
    return this.#planned.map((planned) => ({ ...planned }));
  }

  clear(): void {
    this.#planned = [];
  }

  #remove(planned: Planned): void {
    this.#planned = this.#planned.filter((other) => other !== planned);
  }
}

function fits({ method, path, operationId }: FaultMatch, request: RecordedRequest): boolean {
  if (method !== undefined && method !== request.method) return false;
  if (typeof path === 'string' && path !== request.path) return false;
  if (path instanceof RegExp && request.path.search(path) === -1) return false;
  return (
    operationId === undefined || [request.operation, request.operation?.split('/')[1]].includes(operationId)
  );
}
