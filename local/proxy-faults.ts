import type { OutgoingHttpHeaders } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Call {
  /** The AWS action, such as `UpdateItem` or `SendMessage`. */
  readonly action: string;
  /** The parsed JSON body; undefined when it is not JSON. */
  readonly body: unknown;
}

export interface Answer {
  readonly statusCode: number;
  readonly headers: OutgoingHttpHeaders;
  readonly content: Buffer;
}

/** What happens to a call instead of its being forwarded and answered. */
export type Fault =
  /** The client's connection is reset and nothing is forwarded. */
  | { readonly kind: 'loseRequest' }
  /** Forwarded; then the client's connection is reset instead of the answer. */
  | { readonly kind: 'loseAnswer' }
  /** Not forwarded; an AWS JSON error such as 400 `ThrottlingException` or 500 `InternalServerError`. */
  | {
      readonly kind: 'answer';
      readonly statusCode: number;
      readonly error: string;
      readonly message?: string;
    }
  /** Forwarded after `ms`, if the client is still there. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** Neither forwarded nor answered until the client leaves. */
  | { readonly kind: 'stall' }
  /** The client's connection is reset at once and the call is forwarded `ms` later all the same. */
  | { readonly kind: 'lateRequest'; readonly ms: number }
  /**
   * Runs code before the call is forwarded, after it was answered, or both; the call waits for it. What
   * returns `drop` resets the client's connection: before means that nothing is forwarded.
   */
  | {
      readonly kind: 'hook';
      readonly before?: (call: Call) => Promise<Verdict> | Verdict;
      readonly after?: (call: Call, answer: Answer) => Promise<Verdict> | Verdict;
    };

export type Verdict = 'continue' | 'drop';

/** One call as a fault sees it. */
export interface Exchange {
  readonly call: Call;
  /** Aborted when the client has left or was answered. */
  readonly gone: AbortSignal;
  /** Sends the call on. With a signal it is given up when that aborts. */
  forward(signal?: AbortSignal): Promise<Answer>;
  answer(answer: Answer): void;
  reset(): void;
}

/** Forwards and answers a call, or does what the fault says. Rejects when the emulator cannot be reached. */
export async function applyFault(exchange: Exchange, fault: Fault | undefined): Promise<void> {
  const { gone } = exchange;
  switch (fault?.kind) {
    case undefined:
      return exchange.answer(await exchange.forward(gone));
    case 'loseRequest':
      return exchange.reset();
    case 'loseAnswer':
      await exchange.forward();
      return exchange.reset();
    case 'answer':
      return exchange.answer(awsError(exchange.call, fault));
    case 'delay':
      await sleep(fault.ms, undefined, { signal: gone, ref: false });
      return exchange.answer(await exchange.forward(gone));
    case 'stall':
      return;
    case 'lateRequest':
      exchange.reset();
      await sleep(fault.ms, undefined, { ref: false });
      await exchange.forward();
      return;
    case 'hook': {
      if ((await fault.before?.(exchange.call)) === 'drop') return exchange.reset();
      const answer = await exchange.forward();
      if ((await fault.after?.(exchange.call, answer)) === 'drop') return exchange.reset();
      return exchange.answer(answer);
    }
  }
}

function awsError(call: Call, fault: Extract<Fault, { kind: 'answer' }>): Answer {
  const message = fault.message ?? `${call.action} was answered so by a test.`;
  const content = Buffer.from(JSON.stringify({ __type: fault.error, message }));
  const headers = { 'content-type': 'application/x-amz-json-1.0', 'content-length': content.length };
  return { statusCode: fault.statusCode, headers, content };
}
