import type { Context } from 'aws-lambda';
import * as z from 'zod/mini';
import { withinTime } from './adapters/deadline';
import { type BroughtOn, bringOn } from './operation/bring-on';
import { asksForCensus, type CensusPorts, takeCensus } from './operation/census';
import { type Limits, providerTimeoutMs, settleReserveMs } from './operation/limits';
import { idPattern } from './operation/message-fields';
import { type OperatorAnswer, reconcileOne } from './operation/operate';
import { createReconciler } from './runtime/reconciler-wiring';
import type { Telemetry } from './runtime/telemetry';

let reconciler: ReturnType<typeof createReconciler> | undefined;

/** Runs each minute: brings on the operations that no message will bring back by itself. With the ids of one, asks Stripe about that one now. */
export const handler = async (event: unknown, context: Context): Promise<BroughtOn | OperatorAnswer> => {
  reconciler ??= createReconciler(process.env);
  const ports = reconciler.ports(context.awsRequestId);
  const leftMs = context.getRemainingTimeInMillis();
  const one = oneOperation.safeParse(event);
  const untilMs = ports.clock() + leftMs - spareMs(ports.limits);
  const { census, telemetry } = reconciler;
  try {
    if (one.success) return await withinTime(leftMs, () => reconcileOne(ports, one.data));
    if (asksForCensus(event)) await withinTime(leftMs, () => count(census, telemetry, untilMs));
    const done = await withinTime(leftMs, () => bringOn(ports, untilMs));
    telemetry.ran(done);
    return done;
  } finally {
    telemetry.flush();
  }
};

/** What is open, for the dashboard and the alarms: a count that fails stops nothing. */
async function count(census: CensusPorts, telemetry: Telemetry, untilMs: number): Promise<void> {
  try {
    telemetry.census(await takeCensus(census, untilMs));
  } catch (error) {
    telemetry.failed('what is open could not be counted', error);
  }
}

const id = z.string().check(z.regex(idPattern));
const oneOperation = z.object({ tenantId: id, operationId: id });

/** What is kept of the function's time for the operations under way: a call of the provider, and what is written around it. */
const spareMs = (limits: Limits): number => providerTimeoutMs(limits) + 2 * settleReserveMs(limits);
