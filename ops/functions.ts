import { InvokeCommand } from '@aws-sdk/client-lambda';
import * as z from 'zod/mini';
import { Failure } from './failure';
import type { Target } from './target';

const answer = z.object({
  /** Whether it was done; where not, `said` says why. */
  done: z.boolean(),
  said: z.string(),
  /** The record as it is now. */
  operation: z.optional(z.record(z.string(), z.unknown())),
  /** A page of an audit, for its command to read. */
  audit: z.optional(z.unknown()),
  checks: z.optional(z.array(z.object({ name: z.string(), ok: z.boolean(), said: z.string() }))),
});

export type Answer = Readonly<z.infer<typeof answer>>;

const functionError = z.object({ errorMessage: z.string() });

/**
 * Has a function of the service do something: all that changes an operation or the provider's switch goes this way, so
 * that the record, the log and the metrics agree, and a person needs no more than the right to invoke it.
 * @throws Failure when the service has no such function, or it failed
 */
export async function invoke(
  target: Target,
  name: keyof Target['functions'],
  request: object,
): Promise<Answer> {
  const functionName = target.functions[name];
  if (functionName === undefined)
    throw new Failure(`${target.name} has no function ${name}: deploy this version of the service first.`);
  const { FunctionError, Payload } = await target.lambda.send(
    new InvokeCommand({ FunctionName: functionName, Payload: JSON.stringify(request) }),
  );
  const said = jsonFrom(Payload === undefined ? '' : Buffer.from(Payload).toString());
  if (FunctionError !== undefined) {
    const error = functionError.safeParse(said);
    const why = error.success ? error.data.errorMessage : FunctionError;
    throw new Failure(`The function ${name} failed: ${why}. What became of it, its log and the record say.`);
  }
  const parsed = answer.safeParse(said);
  if (!parsed.success)
    throw new Failure(`The function ${name} gave an answer that this version cannot read.`);
  return parsed.data;
}

function jsonFrom(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
