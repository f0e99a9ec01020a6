import type { Context } from 'aws-lambda';
import * as z from 'zod/mini';
import { withinTime } from './adapters/deadline';
import { type BroughtOn, bringOn } from './operation/bring-on';
import { type Limits, providerTimeoutMs, settleReserveMs } from './operation/limits';
import { idPattern } from './operation/message-fields';
import { type OperatorAnswer, reconcileOne } from './operation/operate';
import { createReconciler } from './runtime/reconciler-wiring';

let reconciler: ReturnType<typeof createReconciler> | undefined;

/** Runs each minute: brings on the operations that no message will bring back by itself. With the ids of one, asks Stripe about that one now. */
export const handler = async (event: unknown, context: Context): Promise<BroughtOn | OperatorAnswer> => {
  reconciler ??= createReconciler(process.env);
  const ports = reconciler.ports(context.awsRequestId);
  const leftMs = context.getRemainingTimeInMillis();
  const one = oneOperation.safeParse(event);
  if (one.success) return withinTime(leftMs, () => reconcileOne(ports, one.data));
  const untilMs = ports.clock() + leftMs - spareMs(ports.limits);
  const done = await withinTime(leftMs, () => bringOn(ports, untilMs));
  reconciler.telemetry.ran(done);
  return done;
};

const id = z.string().check(z.regex(idPattern));
const oneOperation = z.object({ tenantId: id, operationId: id });

/** What is kept of the function's time for the operations under way: a call of the provider, and what is written around it. */
const spareMs = (limits: Limits): number => providerTimeoutMs(limits) + 2 * settleReserveMs(limits);
