import { existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { startStripeStandIn } from '../../local/stripe-stand-in';
import { type Emulator, findEmulator, NoEmulator } from './emulator';
import { Report, Stopped } from './report';
import { tellStory } from './story';
import { createSurroundings } from './surroundings';

/**
 * `npm run e2e`: what a user does and what then happens, with the real CDK CLI, bundle and handler on a local AWS
 * emulator. Exit 0, 1 when something was not as it must be, 2 when there is no emulator.
 */
main().then(
  (exitCode) => process.exit(exitCode),
  (error: unknown) => {
    console.error(error);
    process.exit(1);
  },
);

async function main(): Promise<number> {
  const surroundings = createSurroundings();
  let emulator: Emulator;
  try {
    emulator = await findEmulator(surroundings);
  } catch (error) {
    surroundings.removeFiles();
    if (!(error instanceof NoEmulator)) throw error;
    console.error(error.message);
    return 2;
  }
  console.log(`AWS emulator: ${emulator.what} at ${emulator.endpoint}\n`);
  const report = new Report();
  const stripe = await startStripeStandIn();
  try {
    await tellStory(report, surroundings, emulator.endpoint, stripe);
  } catch (error) {
    if (!(error instanceof Stopped)) throw error;
    console.log('   the steps after it were not run');
  }
  await report.check('the stand-in saw one key per step and one charge per operation', () => stripe.stop());
  await emulator.stop();
  if (report.hasFailures) showLog(relative(process.cwd(), surroundings.emulatorLog));
  else surroundings.removeFiles();
  report.end();
  return report.hasFailures ? 1 : 0;
}

/** What the emulator complained about at last, such as a function that failed: on another machine its log is gone. */
function showLog(file: string): void {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  const complaints = lines.filter((line) => /WARN|ERROR|"level"/.test(line)).slice(-10);
  console.log(`   ${[`the log of the emulator is ${file}`, ...complaints].join('\n   ')}`);
}
