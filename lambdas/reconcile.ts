import type { Context } from 'aws-lambda';
import { withinTime } from './adapters/deadline';
import { type SentDue, sendDue } from './operation/send-due';
import { createReconciler } from './runtime/wiring';

let reconciler: ReturnType<typeof createReconciler> | undefined;

/** Runs each minute: brings back the operations that no message will bring back by itself. */
export const handler = async (_event: unknown, context: Context): Promise<SentDue> => {
  reconciler ??= createReconciler(process.env);
  const { ports, telemetry } = reconciler;
  const leftMs = context.getRemainingTimeInMillis();
  const done = await withinTime(leftMs, () => sendDue(ports, ports.clock() + leftMs - spareMs));
  if (done.failed > 0) telemetry.warn('due operations could not be sent', { ...done });
  else if (done.sent + done.left > 0) telemetry.info('due operations', { ...done });
  return done;
};

/** What is kept of the function's time for the page under way. */
const spareMs = 5_000;
