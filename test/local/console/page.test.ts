import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, PutCommand } from '@aws-sdk/lib-dynamodb';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { recordHistory } from '../../../local/console/history';
import { type Console, startConsole } from '../../../local/console/server';
import { type LocalStack, startLocalStack } from '../../../local/stack';
import { chromiumPath, launchChromium, whatToInstall } from '../../support/chromium';

// Without a browser these tests fail where machines test (CI), and are skipped, with a word, on a person's laptop.
const isSkipped = chromiumPath() === undefined && !process.env.CI;
if (isSkipped) console.warn(`The tests of the console page are skipped. ${whatToInstall}`);

// A browser and a whole stack on a busy machine.
jest.setTimeout(120_000);

const wide: BrowserContextOptions = { viewport: { width: 1440, height: 900 } };
const phone: BrowserContextOptions = {
  viewport: { width: 390, height: 844 },
  isMobile: true,
  hasTouch: true,
};

(isSkipped ? describe.skip : describe)('the console page in a browser', () => {
  let stack: LocalStack;
  let page: Console;
  let browser: Browser;
  beforeAll(async () => {
    // Times that a busy machine keeps: on the laptop's own, a slow answer would be one more call.
    const limits = { workerTimeoutSeconds: 6, providerTimeoutSeconds: 3 };
    stack = await startLocalStack({ api: true, functions: true, reconcileEveryMs: 500, limits });
    page = await startConsole(stack, recordHistory(stack), { port: 0 });
    await stack.send(charge('Known', 'O1'));
    await stack.waitFor(async () => (await stack.operation('Known', 'O1'))?.state === 'succeeded', {
      timeoutMs: 30_000,
    });
    browser = await launchChromium();
  });
  // Throws when an operation used two keys for one step, or moved money twice.
  afterAll(async () => {
    await browser?.close();
    await page?.stop();
    await stack?.stop();
  });

  // Some tests hold deliveries back.
  afterEach(() => stack.eventSource.start());

  const opened: { tab: Page; complaints: string[] }[] = [];
  /** A tab that shows the stack, live. What its console complains of fails the test. */
  const open = async (options: BrowserContextOptions = wide, hash = ''): Promise<Page> => {
    const tab = await browser.newPage(options);
    const complaints: string[] = [];
    opened.push({ tab, complaints });
    tab.setDefaultTimeout(30_000);
    tab.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    tab.on('pageerror', (error) => complaints.push(String(error)));
    await tab.addInitScript({ path: join(__dirname, '../../support/page-checks.js') });
    await tab.goto(`${page.url}/${hash}`);
    await tab.locator('#link[data-live=yes]').waitFor();
    await tab.locator('#clock', { hasText: /^\d\d:\d\d:\d\d$/ }).waitFor();
    return tab;
  };
  afterEach(async () => {
    const complaints = opened.flatMap((one) => one.complaints);
    await Promise.all(opened.splice(0).map(({ tab }) => tab.close()));
    expect(complaints).toEqual([]);
  });

  const rowOf = (tab: Page, key: string) =>
    tab.locator('#operation-rows tr').filter({ has: tab.getByRole('button', { name: key, exact: true }) });
  /** Waits until the row of an operation says this. */
  const isShown = async (
    tab: Page,
    key: string,
    { state, calls, moved }: { state: string; calls: number; moved: number },
  ) => {
    const row = rowOf(tab, key);
    await row.locator('.c-state', { hasText: state }).waitFor();
    expect(await row.locator('.c-calls').textContent()).toBe(String(calls));
    expect(await row.locator('.c-moved').textContent()).toBe(String(moved));
  };
  const select = async (tab: Page, key: string) => {
    await tab.getByRole('button', { name: key, exact: true }).click();
    await tab.locator('#detail-title', { hasText: key }).waitFor();
  };
  const enqueue = async (tab: Page, tenantId: string, operationId: string) => {
    await tab.locator('[name=tenantId]').fill(tenantId);
    await tab.locator('[name=operationId]').fill(operationId);
    await tab.getByRole('button', { name: 'Enqueue' }).click();
  };
  const press = (tab: Page, name: string) => tab.getByRole('button', { name, exact: true }).click();
  const said = (tab: Page, text: string | RegExp) => tab.locator('#said', { hasText: text }).waitFor();

  test('enqueues, kills the worker at the crash point, and shows two calls and one charge', async () => {
    const tab = await open();
    await tab.getByLabel('Kill the worker of the next delivery').selectOption('afterEffect');
    await press(tab, 'Arm');
    await tab.locator('#arm[aria-pressed=true]').waitFor();
    await enqueue(tab, 'Crash', 'O1');
    await said(tab, 'O1: accepted (202)');
    await tab.locator('#arm[aria-pressed=false]').waitFor();
    await isShown(tab, 'Crash/O1', { state: 'running', calls: 1, moved: 1 });

    await select(tab, 'Crash/O1');
    await tab.locator('#timeline', { hasText: 'was killed (SIGKILL)' }).waitFor();
    await press(tab, '+1 min');
    await said(tab, 'moved by 60 s');
    await isShown(tab, 'Crash/O1', { state: 'succeeded', calls: 2, moved: 1 });
    const timeline = await tab.locator('#timeline li .what').allInnerTexts();
    expect(timeline.filter((line) => line.startsWith('charge of 50.00 USD'))).toHaveLength(1);
    expect(timeline.join('\n')).toContain("POST /v1/payment_intents: 200, replayed from the key's memory");
    expect(timeline.filter((line) => line.includes('→ running'))).toEqual([
      'queued → running attempt 1',
      'running → running attempt 2',
    ]);
    expect(await tab.locator('#record').textContent()).toContain('provider keylocal/Crash/O1/charge/0');
  });

  test('redrives a conflict, which is refused again and moves nothing', async () => {
    const tab = await open();
    await enqueue(tab, 'Conflict', 'O1');
    await isShown(tab, 'Conflict/O1', { state: 'succeeded', calls: 1, moved: 1 });
    await select(tab, 'Conflict/O1');
    await press(tab, 'Conflict');
    const dead = tab.locator('#dead-rows li', { hasText: 'Conflict/O1' });
    await dead.filter({ hasText: '60.00 USD' }).filter({ hasText: 'bound to other inputs' }).waitFor();
    const [before] = (await stack.queueContents()).deadLetters.messages;

    await press(tab, 'Redrive all');
    await said(tab, 'A redrive of 1 message has started');
    await stack.waitFor(async () => {
      const [after] = (await stack.queueContents()).deadLetters.messages;
      return after && after.messageId !== before?.messageId;
    });
    await dead.filter({ hasText: 'bound to other inputs' }).waitFor();
    await isShown(tab, 'Conflict/O1', { state: 'succeeded', calls: 1, moved: 1 });
    expect(await tab.locator('#stat-dead').textContent()).toBe('1');
  });

  test('cancels what no worker has taken, and shows why another cancel is refused', async () => {
    const tab = await open();
    await press(tab, 'Hold queue');
    await tab.locator('#hold[aria-pressed=true]').waitFor();
    await enqueue(tab, 'Cancel', 'O1');
    await tab.locator('#queue-rows li', { hasText: 'Cancel/O1' }).waitFor();
    await select(tab, 'Cancel/O1');
    await press(tab, 'Cancel');
    await said(tab, 'O1 is cancelled.');
    await press(tab, 'Hold queue');
    await tab.locator('#hold[aria-pressed=false]').waitFor();
    await tab.locator('#queue-empty').waitFor();
    await isShown(tab, 'Cancel/O1', { state: 'cancelled', calls: 0, moved: 0 });

    await enqueue(tab, 'Cancel', 'O2');
    await isShown(tab, 'Cancel/O2', { state: 'succeeded', calls: 1, moved: 1 });
    await select(tab, 'Cancel/O2');
    await press(tab, 'Cancel');
    await tab.locator('#said[data-ok=no]', { hasText: /^409: / }).waitFor();
  });

  test('refunds a part and then the rest, and both are in the ledger', async () => {
    const tab = await open();
    await enqueue(tab, 'Refund', 'O1');
    await isShown(tab, 'Refund/O1', { state: 'succeeded', calls: 1, moved: 1 });
    await select(tab, 'Refund/O1');
    const amount = tab.getByLabel('Amount to refund, in minor units');
    expect(await amount.inputValue()).toBe('5000');
    await amount.fill('1250');
    await press(tab, 'Refund');
    await isShown(tab, 'Refund/R-O1', { state: 'succeeded', calls: 1, moved: 1 });
    await stack.waitFor(async () => (await amount.inputValue()) === '3750');
    await press(tab, 'Refund');
    await isShown(tab, 'Refund/R-O1-2', { state: 'succeeded', calls: 1, moved: 1 });
    const ledger = tab.locator('#ledger-rows tr[data-kind=refund]');
    expect(await ledger.filter({ hasText: 'Refund/R-O1' }).count()).toBe(2);
    await rowOf(tab, 'Refund/O1').locator('.c-note', { hasText: '50.00 USD refunded' }).waitFor();
  });

  test('a decline, a stall and a failure are planned at the provider, met once, and told', async () => {
    const tab = await open();
    await press(tab, 'Decline');
    await tab.locator('#planned', { hasText: '1× answers 402' }).waitFor();
    await enqueue(tab, 'Fault', 'O1');
    await isShown(tab, 'Fault/O1', { state: 'failed', calls: 1, moved: 0 });
    await rowOf(tab, 'Fault/O1').locator('.c-note', { hasText: 'card_declined' }).waitFor();

    for (const [fault, operationId] of [
      ['Stall', 'O2'],
      ['Fail 503', 'O3'],
    ] as const) {
      await press(tab, fault);
      await tab.locator('#planned', { hasText: '1×' }).waitFor();
      await enqueue(tab, 'Fault', operationId);
      await tab.locator('#planned', { hasText: 'Nothing planned.' }).waitFor();
      await rowOf(tab, `Fault/${operationId}`).locator('.c-attempts', { hasText: '1 of 5' }).waitFor();
      // It is retried after its back-off.
      await press(tab, '+15 s');
      await isShown(tab, `Fault/${operationId}`, { state: 'succeeded', calls: 2, moved: 1 });
    }
    await press(tab, 'Fail 401');
    await press(tab, 'Clear');
    await said(tab, 'The provider is well again.');
    await tab.locator('#planned', { hasText: 'Nothing planned.' }).waitFor();
  });

  test('duplicates are one operation, and a malformed message ends where a person sees it', async () => {
    const tab = await open();
    await tab.getByLabel('Through').selectOption('queue');
    await tab.getByLabel('How often').selectOption('20 same');
    await enqueue(tab, 'Twins', 'O1');
    await said(tab, 'O1: 20 messages on the queue.');
    await stack.waitFor(async () => (await stack.queueDepth()).total === 0, { timeoutMs: 60_000 });
    await isShown(tab, 'Twins/O1', { state: 'succeeded', calls: 1, moved: 1 });
    await press(tab, 'Malformed message');
    await tab.locator('#dead-rows li', { hasText: 'unreadable' }).filter({ hasText: 'not JSON' }).waitFor();
  });

  test('an open breaker shows why it is open and when it is probed, and a person closes it', async () => {
    const tab = await open();
    // Nobody acts on what the test says that the record is.
    await stack.eventSource.stop();
    const { environment, endpoints, tableName: TableName } = stack;
    const dynamodb = new DynamoDBClient({
      region: environment.AWS_REGION ?? '',
      endpoint: endpoints.dynamodb,
      credentials: { accessKeyId: 'x', secretAccessKey: 'x' },
    });
    const nowMs = stack.clock.now();
    // A worker's clock that is ahead: the window does not end while the test runs.
    const counts = { windowStartMs: nowMs + 60_000, windowCalls: 20, windowFailures: 11, retryTokens: 250 };
    const breaker = {
      breakerReason: 'failures',
      breakerOpenedAtMs: nowMs,
      breakerProbeAtMs: nowMs + 3_600_000,
    };
    await DynamoDBDocumentClient.from(dynamodb).send(
      new PutCommand({ TableName, Item: { pk: 'provider#stripe', ...counts, ...breaker } }),
    );
    dynamodb.destroy();
    await tab.locator('#stat-breaker', { hasText: 'open' }).waitFor();
    await tab.locator('#breaker', { hasText: 'failures, probe in 60 min' }).waitFor();
    expect(await tab.locator('#window').textContent()).toBe('20 calls, 11 failed');
    expect(await tab.locator('#budget').textContent()).toBe('2 retries left in 60 s');
    await press(tab, 'Resume calls');
    await said(tab, 'Calls are made again.');
    await tab.locator('#stat-breaker', { hasText: 'closed' }).waitFor();
  });

  test('a pause stops what comes in until somebody resumes', async () => {
    const tab = await open();
    await press(tab, 'Pause calls');
    await said(tab, 'No more calls are made');
    await tab.locator('#stat-breaker', { hasText: 'paused' }).waitFor();
    await tab.locator('#stat-breaker-note', { hasText: 'on the console page' }).waitFor();
    await enqueue(tab, 'Pause', 'O1');
    await tab.locator('#said[data-ok=no]', { hasText: '503: ' }).waitFor();
    await press(tab, 'Resume calls');
    await tab.locator('#stat-breaker', { hasText: 'closed' }).waitFor();
    await enqueue(tab, 'Pause', 'O1');
    await isShown(tab, 'Pause/O1', { state: 'succeeded', calls: 1, moved: 1 });
  });

  test('nothing on the page moves while operations come from elsewhere, and when it loads', async () => {
    const tab = await open();
    await select(tab, 'Known/O1');
    await press(tab, 'Show all activity');
    for (let index = 0; index < 12; index++) await stack.send(charge(`Elsewhere-${index}`, 'O1'));
    await rowOf(tab, 'Elsewhere-11/O1').locator('.c-state', { hasText: 'succeeded' }).waitFor();
    expect(await tab.evaluate('pageChecks.shifts()')).toBeLessThan(0.01);
    const narrow = await open(phone, '#Known/O1');
    for (let index = 0; index < 12; index++) await stack.send(charge(`Elsewhere-${index}`, 'O2'));
    await rowOf(narrow, 'Elsewhere-11/O2').locator('.c-state', { hasText: 'succeeded' }).waitFor();
    expect(await narrow.evaluate('pageChecks.shifts()')).toBeLessThan(0.01);
  });

  test.each([390, 320])('%i pixels wide, nothing is wider than the page', async (width) => {
    const tab = await open({ ...phone, viewport: { width, height: 844 } }, '#Known/O1');
    await tab.locator('#timeline li').first().waitFor();
    expect(await tab.evaluate('document.documentElement.scrollWidth')).toBe(width);
    expect(await tab.evaluate('pageChecks.cutControls()')).toEqual([]);
  });

  test.each(['light', 'dark'] as const)(
    '%s: every text has a contrast of 4.5 to 1 or more',
    async (theme) => {
      const tab = await open({ ...wide, colorScheme: theme }, '#Known/O1');
      await tab.locator('#timeline li').first().waitFor();
      expect(await tab.evaluate('pageChecks.paleTexts()')).toEqual([]);
    },
  );

  test('the keyboard alone enqueues, goes through the operations and comes back', async () => {
    const tab = await open();
    await tab.locator('[name=tenantId]').fill('Keys');
    await tab.locator('[name=operationId]').focus();
    await tab.keyboard.press('ControlOrMeta+A');
    await tab.keyboard.type('O1');
    await tab.keyboard.press('Enter');
    await isShown(tab, 'Keys/O1', { state: 'succeeded', calls: 1, moved: 1 });

    await tab.locator('#operations section').focus();
    await tab.keyboard.press('Tab');
    const focused = tab.locator('#operation-rows button:focus');
    expect(await focused.textContent()).toBe('Keys/O1');
    expect(await tab.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe('solid');
    await tab.keyboard.press('ArrowDown');
    const second = await focused.textContent();
    expect(second).not.toBe('Keys/O1');
    await tab.locator('#detail-title', { hasText: second ?? '' }).waitFor();
    // The focus stays with its operation when another one comes above it.
    await stack.send(charge('Keys', 'O2'));
    await rowOf(tab, 'Keys/O2').waitFor();
    expect(await focused.textContent()).toBe(second);
    await tab.keyboard.press('Escape');
    await tab.locator('#detail-title', { hasText: 'All activity' }).waitFor();
  });

  test('a theme that was chosen is there again after a reload', async () => {
    const tab = await open({ ...wide, colorScheme: 'light' });
    const ground = () => tab.evaluate('getComputedStyle(document.body).backgroundColor');
    const light = await ground();
    await tab.getByLabel('Theme').selectOption('dark');
    const dark = await ground();
    expect(dark).not.toBe(light);
    await tab.reload();
    expect(await ground()).toBe(dark);
    await tab.getByLabel('Theme').selectOption('system');
    expect(await ground()).toBe(light);
  });

  test('a page whose stack is gone says so, and is live again with the next one', async () => {
    const { port } = new URL(page.url);
    const tab = await open();
    await page.stop();
    await tab.locator('#link', { hasText: 'Not connected' }).waitFor();
    await press(tab, '+15 s');
    await said(tab, 'is npm start still running?');
    page = await startConsole(stack, recordHistory(stack), { port: Number(port) });
    await tab.locator('#link[data-live=yes]').waitFor();
    await enqueue(tab, 'Again', 'O1');
    await isShown(tab, 'Again/O1', { state: 'succeeded', calls: 1, moved: 1 });
    // That nobody answered is what the browser's console has to say.
    for (const { complaints } of opened) {
      expect(complaints.every((text) => /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE/.test(text))).toBe(true);
      complaints.splice(0);
    }
  });
});

const charge = (tenantId: string, operationId: string) => ({
  version: 1,
  tenantId,
  operationId,
  type: 'charge',
  input: { invoiceId: '1', amountMinor: 700, currency: 'eur', customerId: 'cus_A', paymentMethodId: 'pm_A' },
});
