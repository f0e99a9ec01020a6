import type { Context } from 'aws-lambda';
import { withinTime } from './adapters/deadline';
import { asksForCensus, type CensusPorts, takeCensus } from './operation/census';
import { type SentDue, sendDue } from './operation/send-due';
import type { Telemetry } from './runtime/telemetry';
import { createReconciler } from './runtime/wiring';

let reconciler: ReturnType<typeof createReconciler> | undefined;

/** Runs each minute: brings back the operations that no message will bring back by itself. */
export const handler = async (event: unknown, context: Context): Promise<SentDue> => {
  reconciler ??= createReconciler(process.env);
  const { ports, census, telemetry } = reconciler;
  const leftMs = context.getRemainingTimeInMillis();
  const untilMs = ports.clock() + leftMs - spareMs;
  return withinTime(leftMs, async () => {
    try {
      if (asksForCensus(event)) await count(census, telemetry, untilMs);
      const done = await sendDue(ports, untilMs);
      telemetry.ran({ ...done, settled: 0, escalated: 0, oldestDueAgeMs: 0 });
      return done;
    } finally {
      telemetry.flush();
    }
  });
};

/** What is open, for the dashboard and the alarms: a count that fails stops nothing. */
async function count(census: CensusPorts, telemetry: Telemetry, untilMs: number): Promise<void> {
  try {
    telemetry.census(await takeCensus(census, untilMs));
  } catch (error) {
    telemetry.failed('what is open could not be counted', error);
  }
}

/** What is kept of the function's time for the page under way. */
const spareMs = 5_000;
