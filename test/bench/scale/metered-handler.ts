import { join } from 'node:path';
import type { Context } from 'aws-lambda';

/** Starts a line of the handler's output that says how much processor time an invocation took, in microseconds. */
export const cpuMark = 'cpu-us ';

/** The handler of the module that METERED_HANDLER names, from the project's root, with a line about each invocation. */
export async function handler(event: unknown, context: Context): Promise<unknown> {
  const { handler: metered } = await import(
    join(__dirname, '..', '..', '..', process.env.METERED_HANDLER ?? '')
  );
  const before = process.cpuUsage();
  try {
    return await metered(event, context);
  } finally {
    const { user, system } = process.cpuUsage(before);
    console.log(`${cpuMark}${user + system}`);
  }
}
