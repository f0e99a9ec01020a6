import type { StripeStandIn } from '../../local/stripe-stand-in';
import type { Deployed } from './deployed';
import type { Answer } from './deployed-api';
import { job } from './jobs';
import { chargedOnce, movementsOf, queueIsEmpty, recordOf } from './outcomes';
import { expectEqual, type Report, until } from './report';

const charges = '/tenants/North/charges';
const refunds = '/tenants/North/refunds';
const operations = '/tenants/North/operations';

/** What a service sees that charges through the API, and what the reconciler does for it. */
export async function apiIsSafe(report: Report, deployed: Deployed, stripe: StripeStandIn): Promise<void> {
  const { api } = deployed;
  const { input } = job('O5');

  await report.step(
    'a charge is accepted by the API, and its status found where the answer says',
    async () => {
      const answer = await api.call('PUT', `${charges}/O5`, input);
      expectAnswer(answer, 202, { operationId: 'O5', replay: false });
      expectEqual('its location', answer.location, `${operations}/O5`);
      await succeeded(deployed, 'O5');
      await chargedOnce(deployed, stripe, job('O5'));
    },
  );
  await report.check('the same charge again is answered as a replay, and charges nothing', async () => {
    expectAnswer(await api.call('PUT', `${charges}/O5`, input), 200, { state: 'succeeded', replay: true });
    await chargedOnce(deployed, stripe, job('O5'));
  });
  await report.check('the same id with another amount is a conflict, and changes nothing', async () => {
    const before = await recordOf(deployed, 'O5');
    const answer = await api.call('PUT', `${charges}/O5`, { ...input, amountMinor: 9000 });
    expectProblem(answer, 409, 'inputs-conflict');
    expectEqual('the record', await recordOf(deployed, 'O5'), before);
  });
  await report.check('a charge that has succeeded is not cancelled', async () => {
    expectProblem(await api.call('POST', `${operations}/O5/cancel`), 409, 'cancel-refused');
  });
  await report.check('it is refunded once, as an operation of its own', async () => {
    const refund = { chargeOperationId: 'O5', amountMinor: 2000 };
    expectAnswer(await api.call('PUT', `${refunds}/R5`, refund), 202, { type: 'refund', replay: false });
    await succeeded(deployed, 'R5');
    const moved = movementsOf(stripe, 'R5').map(({ kind, amountMinor }) => ({ kind, amountMinor }));
    expectEqual('the ledger', moved, [{ kind: 'refund', amountMinor: 2000 }]);
    const more = { chargeOperationId: 'O5', amountMinor: 3001 };
    expectProblem(await api.call('PUT', `${refunds}/R6`, more), 409, 'refund-exceeds-charge');
  });
  await report.check('a job that was sent to the queue is the same operation to the API', async () => {
    expectAnswer(await api.call('GET', `${operations}/O2`), 200, { acceptedBy: 'queue', done: true });
    const { input: sent } = job('O2');
    expectAnswer(await api.call('PUT', `${charges}/O2`, sent), 200, { state: 'succeeded', replay: true });
  });
  await wrongRequestsAreRefused(report, deployed);
  await lostMessagesComeBack(report, deployed, stripe);
}

async function wrongRequestsAreRefused(report: Report, { api }: Deployed): Promise<void> {
  const { input } = job('O7');
  await report.check('what is unknown is not found', async () => {
    expectProblem(await api.call('GET', `${operations}/O7`), 404, 'operation-not-found');
    expectProblem(await api.call('POST', `${operations}/O7/cancel`), 404, 'operation-not-found');
    const refund = { chargeOperationId: 'O7', amountMinor: 1 };
    expectProblem(await api.call('PUT', `${refunds}/R7`, refund), 409, 'charge-not-final');
    expectEqual('a path of no route', (await api.call('PUT', '/tenants/North/O7', input)).status, 404);
  });
  await report.check('wrong input is refused with a problem document', async () => {
    const wrong = { ...input, amountMinor: 0.5 };
    expectProblem(await api.call('PUT', `${charges}/O7`, wrong), 400, 'invalid-body');
    expectProblem(await api.call('PUT', `${charges}/O7`), 400, 'invalid-body');
    expectProblem(await api.call('PUT', `${charges}/-O7`, input), 400, 'invalid-id');
    expectProblem(await api.call('PUT', `${charges}/O%2F7`, input), 404, undefined);
    expectProblem(await api.call('PUT', `${charges}/O%252F7`, input), 400, 'invalid-id');
    const large = { ...input, invoiceId: 'x'.repeat(20_000) };
    expectProblem(await api.call('PUT', `${charges}/O7`, large), 413, 'body-too-large');
  });
}

async function lostMessagesComeBack(
  report: Report,
  deployed: Deployed,
  stripe: StripeStandIn,
): Promise<void> {
  await report.check('an operation whose message was lost is sent again by the reconciler', async () => {
    const { UUID } = await deployed.mapping();
    await deployed.lambda.updateMapping(UUID, { Enabled: false });
    try {
      expectAnswer(await deployed.api.call('PUT', `${charges}/O6`, job('O6').input), 202, {
        state: 'queued',
      });
      await deployed.loseMessages();
      await queueIsEmpty(deployed);
      await deployed.makeDue(job('O6'));
      // The emulator's clock may have started it just before: then there is nothing left to send.
      await deployed.lambda.invoke(await deployed.lambda.aliasOf('Reconciler'), {});
      expectEqual('the messages', await deployed.depth(), 1);
    } finally {
      await deployed.lambda.updateMapping(UUID, { Enabled: true });
    }
    await chargedOnce(deployed, stripe, job('O6'));
  });
}

async function succeeded({ api }: Deployed, operationId: string): Promise<void> {
  const answer = await until(
    `end of ${operationId}`,
    () => api.call('GET', `${operations}/${operationId}`),
    ({ body }) => body.done === true,
  );
  expectAnswer(answer, 200, { state: 'succeeded', done: true });
}

function expectAnswer({ status, body }: Answer, expected: number, members: object): void {
  const shown = Object.fromEntries(Object.keys(members).map((name) => [name, body[name]]));
  expectEqual('the answer', { status, ...shown }, { status: expected, ...members });
}

/** @param name the last part of its `type`; undefined for the gateway's own answers */
function expectProblem(
  { status, contentType, body }: Answer,
  expected: number,
  name: string | undefined,
): void {
  const problem = name && {
    contentType: 'application/problem+json',
    type: `urn:charge-once:problem:${name}`,
  };
  const shown = name && { contentType, type: body.type };
  expectEqual('the answer', { status, problem: shown }, { status: expected, problem });
}
