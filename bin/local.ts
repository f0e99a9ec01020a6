import { once } from 'node:events';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { recordHistory } from '../local/console/history';
import { startConsole } from '../local/console/server';
import { howToSend } from '../local/how-to-send';
import { writeLaptopFile } from '../local/laptop-file';
import { showLive } from '../local/live-view';
import { type LocalStack, startLocalStack } from '../local/stack';
import { type Story, tellStory } from '../local/story';

const usage = `npm start                       the laptop stack: tells the story of O7, then stays up until Ctrl-C
npm start -- --port N           serves its console page on port N (4242, or any free one, unless you say)
npm start -- --once             tells the story and ends: exit 0, or 1 when a guarantee broke
npm start -- --once --json      the same as one JSON document on stdout
STRIPE_API_KEY=sk_test_... npm start   charges through Stripe's test mode instead of the stand-in, without the story`;

main().then(
  (exitCode) => {
    process.exitCode = exitCode;
  },
  (error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  },
);

/** @returns the exit code: 0, 1 when a guarantee broke, 2 when it was called wrongly */
async function main(): Promise<number> {
  const options = optionsFrom(process.argv.slice(2));
  const stripeKey = process.env.STRIPE_API_KEY;
  if (typeof options === 'string') return refuse(options);
  if (stripeKey && !/^(sk|rk)_test_/.test(stripeKey)) {
    return refuse(
      'STRIPE_API_KEY must be a test key (sk_test_... or rk_test_...): the laptop stack never moves real money.',
    );
  }
  if (stripeKey && options.once)
    return refuse("The story is counted from the stand-in's ledger: unset STRIPE_API_KEY for --once.");

  const say = options.json ? console.error : console.log;
  const stack = await startLocalStack({
    api: true,
    functions: true,
    reconcileEveryMs: 1000,
    // Whoever looks after it may prove that an operation had no effect.
    allowKeyChange: !options.once,
    ...(stripeKey ? { stripe: { apiKey: stripeKey } } : {}),
  });
  const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  let isTelling = stack.stripe !== undefined;
  const page = options.once
    ? undefined
    : await startConsole(stack, recordHistory(stack), {
        ...(options.port !== undefined && { port: options.port }),
        // A click would change how the story goes.
        busyWith: () => (isTelling ? 'the story of O7' : undefined),
      }).catch(async (error: unknown) => {
        await stack.stop();
        throw error;
      });
  if (page) say(`Console page: ${page.url}\n`);
  const forget = options.once ? () => {} : writeLaptopFile(dirname(__dirname), stack);
  const story = await storyOf(stack, say);
  isTelling = false;
  let isOk = story?.ok ?? true;
  if (page) {
    say(
      `\n${howToSend(stack.queueUrl, stack.endpoints.sqs, stack.endpoints.api ?? '')}\nLook after it on its console page, ${page.url}, or from another terminal: npm run ops -- --help\n\nWatching. Ctrl-C ends it.\n`,
    );
    showLive(stack, say);
    await interrupted;
    await page.stop();
  }
  forget();
  // The stand-in's last word: no operation used two keys for one step, and no money moved twice.
  await stack.stop().catch((error: unknown) => {
    isOk = false;
    console.error(error instanceof Error ? error.message : error);
  });
  if (options.json) console.log(JSON.stringify({ ...story, ok: isOk }, undefined, 2));
  else if (story) say(isOk ? '\nEvery guarantee of the story held.' : '\nA guarantee broke: see above.');
  return isOk ? 0 : 1;
}

async function storyOf(stack: LocalStack, say: (line: string) => void): Promise<Story | undefined> {
  if (!stack.stripe) return undefined;
  say('The story of O7\n');
  return tellStory(stack, stack.stripe, ({ name, ok, said, figures }) => {
    say(`${ok ? 'ok ' : 'NOT OK'} ${name}: ${said}`);
    if (!ok) say(`       what happened instead: ${JSON.stringify(figures)}`);
  });
}

interface Options {
  readonly once: boolean;
  readonly json: boolean;
  readonly port: number | undefined;
}

function optionsFrom(args: string[]): Options | string {
  try {
    const { values } = parseArgs({
      args,
      options: { once: { type: 'boolean' }, json: { type: 'boolean' }, port: { type: 'string' } },
    });
    const { once = false, json = false, port } = values;
    if (port !== undefined && once)
      return '--once ends after the story and serves no page: leave --port out.';
    if (port !== undefined && !(/^\d+$/.test(port) && Number(port) <= 65_535))
      return `--port is ${port}; it must be a whole number from 0 (any free port) to 65535.`;
    return { once, json, port: port === undefined ? undefined : Number(port) };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function refuse(problem: string): number {
  console.error(`${problem}\n\n${usage}`);
  return 2;
}
