import { CfnOutput, Stack } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { ChargeOnce } from './charge-once';
import { Monitoring } from './monitoring';
import { OperationsApi } from './operations-api';
import { handlerSettings, type Settings } from './settings';

export interface OperationsStackProps {
  readonly settings: Settings;
}

/** One stage of the service. It names neither account nor region, so it is synthesized without credentials. */
export class OperationsStack extends Stack {
  constructor(scope: Construct, id: string, { settings }: OperationsStackProps) {
    super(scope, id, {
      description: `charge-once ${settings.stage}: safe retries for paid background jobs`,
      terminationProtection: settings.production,
    });
    const chargeOnce = new ChargeOnce(this, 'ChargeOnce', { settings });
    const { queues, table, access, setStripeKeyCommand } = chargeOnce;
    const operationsApi = new OperationsApi(this, 'OperationsApi', { chargeOnce });
    const { api, policies } = operationsApi;
    if (settings.monitoring) this.watch(chargeOnce, operationsApi);

    new CfnOutput(this, 'ApiUrl', {
      value: api.apiEndpoint,
      description: 'Where charges and refunds are accepted, and operations shown and cancelled',
    });
    new CfnOutput(this, 'QueueUrl', { value: queues.queue.queueUrl, description: 'Where jobs are sent' });
    new CfnOutput(this, 'DeadLetterQueueUrl', {
      value: queues.deadLetterQueue.queueUrl,
      description: 'Where given-up messages wait for a person: inspect, then redrive to source',
    });
    new CfnOutput(this, 'TableName', {
      value: table.tableName,
      description: 'The records of every operation',
    });
    new CfnOutput(this, 'OperateFunctionName', {
      value: chargeOnce.operator.service.alias.functionArn,
      description: "Behind the operator's commands that change something: npm run ops -- --stack NAME",
    });
    new CfnOutput(this, 'ReconcileFunctionName', {
      value: chargeOnce.reconciler.service.alias.functionArn,
      description: 'Runs each minute; asked with the ids of one operation, it asks Stripe about that one',
    });
    new CfnOutput(this, 'Settings', {
      value: handlerSettings(chargeOnce.settings),
      description: 'The limits that differ from their defaults, for the same commands',
    });
    new CfnOutput(this, 'ProducerPolicyArn', {
      value: access.producer.managedPolicyArn,
      description: 'Attach to services that send jobs: whoever has it may charge for every tenant',
    });
    new CfnOutput(this, 'OperatorPolicyArn', {
      value: (policies ?? access).operator.managedPolicyArn,
      description: 'Attach to people who inspect queues and operations, redrive dead letters and cancel',
    });
    if (policies) {
      new CfnOutput(this, 'ChargePolicyArn', {
        value: policies.charge.managedPolicyArn,
        description: 'Attach to services that charge through the API: for every tenant, but no refunds',
      });
      new CfnOutput(this, 'RefundPolicyArn', {
        value: policies.refund.managedPolicyArn,
        description: 'Attach to services that refund through the API: for every tenant, but no charges',
      });
    }
    new CfnOutput(this, 'SetStripeKeyCommand', {
      value: setStripeKeyCommand,
      description: 'Sets the Stripe key from the shell variable STRIPE_API_KEY; jobs are deferred until then',
    });
  }

  private watch(chargeOnce: ChargeOnce, operationsApi: OperationsApi): void {
    const { topic, dashboard } = new Monitoring(this, 'Monitoring', { chargeOnce, operationsApi });
    new CfnOutput(this, 'AlarmTopicArn', {
      value: topic.topicArn,
      description: 'Where alarms go: subscribe whoever must act on them',
    });
    new CfnOutput(this, 'DashboardName', {
      value: dashboard.dashboard.dashboardName,
      description: 'The CloudWatch dashboard of this stage',
    });
  }
}
