import { Duration } from 'aws-cdk-lib';
import { Rule, RuleTargetInput, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import { Construct } from 'constructs';
import { censusEvent } from '../lambdas/operation/census';
import { type SecretReference, ServiceFunction, type ServiceParts } from './service-function';

export interface ReconcilerProps {
  readonly parts: ServiceParts;
  /** Holds the Stripe key and nothing else. */
  readonly secret: SecretReference;
}

/**
 * The function that brings on, each minute, the operations that no message will bring back by itself: sends those
 * that wait in the table, and asks Stripe about those whose outcome is not known. It ends before it starts again; two at once would only share the work,
 * because each step is a conditional write.
 */
export class Reconciler extends Construct {
  readonly service: ServiceFunction;

  constructor(scope: Construct, id: string, { parts, secret }: ReconcilerProps) {
    super(scope, id);
    this.service = new ServiceFunction(this, 'Service', {
      entry: 'reconcile',
      description: 'Sends due operations again, and asks Stripe what happened, each minute',
      parts,
      secret,
      timeout: Duration.seconds(55),
    });
    this.service.allowRecords({ writes: true });
    this.service.allowDueOperations();
    this.service.allowSending();

    // A run that failed or came late is made up for by the next minute's, not by a run more.
    // https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
    const minute = Duration.minutes(1);
    this.service.alias.configureAsyncInvoke({ retryAttempts: 0, maxEventAge: minute });
    const target = { retryAttempts: 0, maxEventAge: minute };
    new Rule(this, 'EveryMinute', {
      description: 'Starts the charge-once reconciler',
      schedule: Schedule.rate(minute),
      targets: [new LambdaFunction(this.service.alias, target)],
    });
    // Apart from the minute's run, which then reads no more than what is due.
    const event = RuleTargetInput.fromObject(censusEvent);
    new Rule(this, 'Census', {
      description: 'Has the charge-once reconciler count what is open',
      schedule: Schedule.rate(Duration.minutes(10)),
      targets: [new LambdaFunction(this.service.alias, { ...target, event })],
    });
  }
}
