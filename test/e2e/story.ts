import { GetQueueUrlCommand } from '@aws-sdk/client-sqs';
import type { Operation } from '../../lambdas/operation/operation';
import type { StripeStandIn } from '../../local/stripe-stand-in';
import { apiIsSafe } from './api-story';
import { Cdk, stage } from './cdk';
import { Deployed } from './deployed';
import { job, malformedBody, wrappedBody } from './jobs';
import { Operator } from './operator';
import { chargedOnce, queueIsEmpty, recordOf } from './outcomes';
import { expectEqual, type Report, until } from './report';
import type { Surroundings } from './surroundings';
import { closeTemplateGaps } from './template-gaps';

/** A stage's life: bootstrap, deploy, the key, jobs, the API, another setting, one more job, destroy. */
export async function tellStory(
  report: Report,
  surroundings: Surroundings,
  endpoint: string,
  stripe: StripeStandIn,
): Promise<void> {
  const cdk = new Cdk(surroundings, endpoint);
  // A test's seconds where a real stage waits minutes.
  const settings = {
    workerTimeoutSeconds: 6,
    providerTimeoutSeconds: 3,
    leaseMarginSeconds: 6,
    retryBaseSeconds: 2,
    retryCapSeconds: 4,
    maxConcurrency: 2,
    maxAttempts: 3,
    stripeApiBase: stripe.url,
    // The emulator's CloudFormation does not know saved queries, and refuses the whole template.
    monitoring: false,
  };

  await report.step('cdk bootstrap', () => cdk.bootstrap());
  const outputs = await report.step(`cdk deploy of stage ${stage}`, () => cdk.deploy(settings));
  const deployed = new Deployed(outputs, endpoint, surroundings);
  await report.step('the deployed resources are what the template says', () =>
    closeTemplateGaps(deployed, cdk.template()),
  );
  await jobsAreSafe(report, deployed, stripe);
  await operatorSees(report, deployed, new Operator(surroundings, endpoint), stripe);
  await apiIsSafe(report, deployed, stripe);

  const changed = { ...settings, maxAttempts: 4 };
  await report.step(
    'cdk deploy with another maxAttempts keeps the queues, the table and the secret',
    async () => {
      expectEqual('the outputs', await cdk.deploy(changed), outputs);
      await closeTemplateGaps(deployed, cdk.template());
    },
  );
  await report.check('a job after it is charged once, under the new setting', async () => {
    await deployed.send(job('O4'));
    const { attemptLimit } = await chargedOnce(deployed, stripe, job('O4'));
    expectEqual('its attemptLimit', attemptLimit, changed.maxAttempts);
    expectEqual(
      'the attemptLimit of a job before',
      (await recordOf(deployed, 'O2')).attemptLimit,
      settings.maxAttempts,
    );
  });

  const records = await report.step('cdk destroy', async () => {
    const before = await deployed.records();
    await cdk.destroy(changed);
    return before;
  });
  await report.check('the queue is gone', async () => {
    const QueueName = outputs.QueueUrl.split('/').at(-1);
    const answer = await deployed.sqs
      .send(new GetQueueUrlCommand({ QueueName }))
      .catch((error: unknown) => error);
    expectEqual('the answer', answer instanceof Error ? answer.name : answer, 'QueueDoesNotExist');
  });
  await report.check('the table is still there with all its records', async () => {
    expectEqual('their number', records.length, 7);
    expectEqual('the table', await deployed.records(), records);
  });
}

async function jobsAreSafe(report: Report, deployed: Deployed, stripe: StripeStandIn): Promise<void> {
  await report.step('the function starts, with all that it was bundled and configured with', async () => {
    const { FunctionArn } = await deployed.mapping();
    const answer = await deployed.lambda.invoke(FunctionArn, { Records: [] });
    expectEqual('its answer to an empty batch', answer, { batchItemFailures: [] });
  });

  await report.step(
    'a job that comes before the Stripe key is deferred again and again, and not parked',
    async () => {
      await deployed.send(job('O1'));
      const first = await deferred(deployed, 'O1', 0);
      const { state, attemptCount, parkedReason } = await deferred(deployed, 'O1', first.updatedAtMs);
      expectEqual(
        'it',
        { state, attemptCount, parkedReason },
        { state: 'queued', attemptCount: 0, parkedReason: undefined },
      );
      expectEqual('what Stripe was asked', stripe.requests(), []);
      expectEqual('the dead letters', await deployed.deadLetters(), []);
    },
  );

  await report.step(
    'the command of the output SetStripeKeyCommand sets the key, and the job is charged',
    async () => {
      await deployed.setStripeKey('sk_test_e2e');
      await chargedOnce(deployed, stripe, job('O1'));
    },
  );

  await report.check('a good job is charged once', async () => {
    await deployed.send(job('O2'));
    await chargedOnce(deployed, stripe, job('O2'));
  });

  await report.check('two more messages of the same job do nothing', async () => {
    const [record, calls] = [await recordOf(deployed, 'O2'), stripe.requests().length];
    await Promise.all([deployed.send(job('O2')), deployed.send(job('O2'))]);
    await queueIsEmpty(deployed);
    expectEqual('the record', await recordOf(deployed, 'O2'), record);
    expectEqual('the calls of Stripe', stripe.requests().length, calls);
  });

  await unusableMessagesAreDeadLetters(report, deployed, stripe);
}

async function unusableMessagesAreDeadLetters(
  report: Report,
  deployed: Deployed,
  stripe: StripeStandIn,
): Promise<void> {
  const conflicting = JSON.stringify(job('O2', 9000));
  const bodies = { conflicting, malformed: malformedBody, 'wrapped by SNS': wrappedBody };
  const before = await report.step('three unusable messages are sent', async () => {
    const found = { records: await deployed.records(), calls: stripe.requests().length };
    for (const body of Object.values(bodies)) await deployed.send(body);
    return found;
  });
  for (const [kind, body] of Object.entries(bodies)) {
    await report.check(`the message that is ${kind} ends in the dead-letter queue`, () =>
      until(
        'such dead letter',
        () => deployed.deadLetters(),
        (found) => found.includes(body),
      ),
    );
  }
  await report.check(
    'they changed no record, called Stripe never, and are the only dead letters',
    async () => {
      await queueIsEmpty(deployed);
      expectEqual(
        'the dead letters',
        [...(await deployed.deadLetters())].sort(),
        Object.values(bodies).sort(),
      );
      expectEqual('their number', await deployed.depth(deployed.outputs.DeadLetterQueueUrl), 3);
      expectEqual('the records', await deployed.records(), before.records);
      expectEqual('the calls of Stripe', stripe.requests().length, before.calls);
    },
  );
}

async function operatorSees(
  report: Report,
  deployed: Deployed,
  operator: Operator,
  stripe: StripeStandIn,
): Promise<void> {
  await report.check(
    "the operator's command lists the dead letters of the stack, and why they are there",
    async () => {
      const listed = await operator.ops('dlq', 'list');
      const kinds = Array.isArray(listed.messages) ? listed.messages.map(({ kind }) => kind) : listed;
      expectEqual('the kinds', [kinds].flat().sort(), ['INPUT_CONFLICT', 'MALFORMED', 'MALFORMED']);
    },
  );
  await report.check(
    'while a person has paused the service the API takes nothing on, and after the resume it does',
    async () => {
      const put = () => deployed.api.call('PUT', '/tenants/North/charges/O8', job('O8').input);
      await operator.ops('provider', 'pause', '--reason', 'e2e');
      const { status, body } = await put();
      expectEqual('the answer', [status, body.type], [503, 'urn:charge-once:problem:service-paused']);
      await operator.ops('provider', 'resume');
      expectEqual('the answer', (await put()).status, 202);
      await chargedOnce(deployed, stripe, job('O8'));
    },
  );
}

/** The operation once it is queued again, later than `afterMs`. */
async function deferred(deployed: Deployed, operationId: string, afterMs: number): Promise<Operation> {
  return until(
    `deferral of ${operationId}`,
    () => recordOf(deployed, operationId),
    ({ state, updatedAtMs }) => state !== 'running' && updatedAtMs > afterMs,
  );
}
