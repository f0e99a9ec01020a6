import { once } from 'node:events';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { howToSend } from '../local/how-to-send';
import { writeLaptopFile } from '../local/laptop-file';
import { showLive } from '../local/live-view';
import { type LocalStack, startLocalStack } from '../local/stack';
import { type Story, tellStory } from '../local/story';

const usage = `npm start                       the laptop stack: tells the story of O7, then stays up until Ctrl-C
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
    ...(stripeKey ? { stripe: { apiKey: stripeKey } } : {}),
  });
  const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  const forget = options.once ? () => {} : writeLaptopFile(dirname(__dirname), stack);
  const story = await storyOf(stack, say);
  let isOk = story?.ok ?? true;
  if (!options.once) {
    say(
      `\n${howToSend(stack.queueUrl, stack.endpoints.sqs, stack.endpoints.api ?? '')}\nLook after it from another terminal: npm run ops -- --help\n\nWatching. Ctrl-C ends it.\n`,
    );
    showLive(stack, say);
    await interrupted;
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

function optionsFrom(args: string[]): { readonly once: boolean; readonly json: boolean } | string {
  try {
    const { values } = parseArgs({ args, options: { once: { type: 'boolean' }, json: { type: 'boolean' } } });
    return { once: values.once ?? false, json: values.json ?? false };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function refuse(problem: string): number {
  console.error(`${problem}\n\n${usage}`);
  return 2;
}
