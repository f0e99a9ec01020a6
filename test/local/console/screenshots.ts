// Writes docs/console-*.png: the console page after the story of O7 and a few more operations.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BrowserContextOptions } from 'playwright-core';
import { recordHistory } from '../../../local/console/history';
import { startConsole } from '../../../local/console/server';
import { crashAt } from '../../../local/crash-points';
import { type LocalStack, startLocalStack } from '../../../local/stack';
import { tellStory } from '../../../local/story';
import { launchChromium } from '../../support/chromium';
import { smallPng } from '../../support/small-png';

const docs = join(__dirname, '../../../docs');

const shots: Readonly<Record<string, BrowserContextOptions>> = {
  light: { viewport: { width: 1440, height: 900 }, colorScheme: 'light' },
  dark: { viewport: { width: 1440, height: 900 }, colorScheme: 'dark' },
  phone: {
    viewport: { width: 390, height: 1270 },
    colorScheme: 'light',
    isMobile: true,
    hasTouch: true,
    deviceScaleFactor: 2,
  },
};

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});

async function main(): Promise<void> {
  const stack = await startLocalStack({ api: true, functions: true, reconcileEveryMs: 1000 });
  const page = await startConsole(stack, recordHistory(stack), { port: 0 });
  const browser = await launchChromium();
  try {
    await prepare(stack);
    for (const [name, options] of Object.entries(shots)) {
      const tab = await browser.newPage(options);
      await tab.goto(`${page.url}/#North/O7`);
      await tab.locator('#timeline li').first().waitFor();
      await writeFile(join(docs, `console-${name}.png`), smallPng(await tab.screenshot()));
      await tab.close();
    }
  } finally {
    await browser.close();
    await page.stop();
    await stack.stop();
  }
}

/** One operation of each kind of end, and one whose worker has just died. */
async function prepare(stack: LocalStack): Promise<void> {
  const { stripe } = stack;
  if (!stripe) throw new Error('The screenshots need the Stripe stand-in.');
  await tellStory(stack, stripe, () => {});
  const hasState = (tenantId: string, operationId: string, state: string) =>
    stack.waitFor(async () => (await stack.operation(tenantId, operationId))?.state === state, {
      timeoutMs: 30_000,
    });

  await stack.send(charge('South', 'O20', 125_000, 'jpy', 'pm_card_visa'));
  await hasState('South', 'O20', 'succeeded');
  await stack.send(charge('South', 'O21', 125_000, 'usd', 'pm_card_chargeDeclinedInsufficientFunds'));
  await hasState('South', 'O21', 'failed');
  await stack.send(charge('South', 'O22', 9900, 'eur', 'pm_usBankAccount_success'));
  await hasState('South', 'O22', 'settling');
  stripe.fault({ kind: 'answer', status: 500, save: true }, { method: 'POST', operationId: 'South/O23' });
  await stack.send(charge('South', 'O23', 4200, 'usd', 'pm_card_visa'));
  await hasState('South', 'O23', 'queued');
  await stack.clock.advance(13_000);
  await hasState('South', 'O23', 'parked');
  await stack.waitFor(async () => (await stack.deadLetters()).length === 2, { timeoutMs: 30_000 });
  const { killed } = crashAt(stack, 'afterEffect');
  await stack.send(charge('East', 'O40', 18_900, 'eur', 'pm_card_visa'));
  await killed;
  stripe.fault({ kind: 'answer', status: 503 }, { method: 'POST', times: 3 });
}

const charge = (
  tenantId: string,
  operationId: string,
  amountMinor: number,
  currency: string,
  paymentMethodId: string,
) => ({
  version: 1,
  tenantId,
  operationId,
  type: 'charge',
  input: {
    invoiceId: operationId.slice(1),
    amountMinor,
    currency,
    customerId: `cus_${tenantId}`,
    paymentMethodId,
  },
});
