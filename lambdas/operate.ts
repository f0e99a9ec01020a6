import type { Context } from 'aws-lambda';
import { withinTime } from './adapters/deadline';
import { type OperatorAnswer, operate } from './operation/operate';
import { operatorRequestSchema } from './operation/operator-request';
import { createOperator } from './runtime/reconciler-wiring';

let operator: ReturnType<typeof createOperator> | undefined;

/** What a person does to one operation, or to the whole service. Whoever may invoke it may settle and pause. */
export const handler = async (event: unknown, context: Context): Promise<OperatorAnswer> => {
  operator ??= createOperator(process.env);
  const request = operatorRequestSchema.safeParse(event);
  if (!request.success) {
    const problems = request.error.issues.map(({ message, path }) => `${path.join('.')} ${message}`.trim());
    return { done: false, said: `This cannot be asked for: ${problems.join('; ')}.` };
  }
  const ports = operator.ports(context.awsRequestId);
  try {
    const leftMs = context.getRemainingTimeInMillis() - spareMs;
    return await withinTime(leftMs, () => operate(ports, request.data));
  } finally {
    operator.telemetry.flush();
  }
};

/** What is kept of the function's time for the answer. */
const spareMs = 500;
