import { ArnFormat, Aws, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { SlackChannelConfiguration } from 'aws-cdk-lib/aws-chatbot';
import { ManagedPolicy, PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import { Construct } from 'constructs';
import type { Settings } from './settings';
import { stackNameOf } from './stack-name';

export interface AlarmTopicProps {
  readonly settings: Settings;
}

/** Where alarms go: a topic that only this account's alarms publish to, with e-mail and Slack as the settings say. */
export class AlarmTopic extends Construct {
  readonly topic: Topic;

  constructor(scope: Construct, id: string, { settings }: AlarmTopicProps) {
    super(scope, id);
    const cloudWatch = new ServicePrincipal('cloudwatch.amazonaws.com');
    // AWS's own key for SNS lets no alarm use it. https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
    const key = new Key(this, 'Key', {
      description: 'Encrypts what charge-once alarms say',
      enableKeyRotation: true,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    key.addToResourcePolicy(
      new PolicyStatement({
        principals: [cloudWatch],
        actions: ['kms:Decrypt', 'kms:GenerateDataKey*'],
        resources: ['*'],
      }),
    );
    this.topic = new Topic(this, 'Topic', {
      displayName: `charge-once ${settings.stage}`,
      masterKey: key,
      enforceSSL: true,
    });
    const alarms = Stack.of(this).formatArn({
      service: 'cloudwatch',
      resource: 'alarm',
      resourceName: '*',
      arnFormat: ArnFormat.COLON_RESOURCE_NAME,
    });
    this.topic.grantPublish(
      cloudWatch.withConditions({
        StringEquals: { 'aws:SourceAccount': Aws.ACCOUNT_ID },
        ArnLike: { 'aws:SourceArn': alarms },
      }),
    );
    if (settings.alarmEmail !== undefined)
      this.topic.addSubscription(new EmailSubscription(settings.alarmEmail));
    if (settings.alarmSlack !== undefined) this.postTo(settings.alarmSlack);
  }

  private postTo(slack: string): void {
    const [slackWorkspaceId = '', slackChannelId = ''] = slack.split('/');
    new SlackChannelConfiguration(this, 'Slack', {
      slackChannelConfigurationName: `${stackNameOf(this, 100)}-${this.node.addr.slice(-8)}`,
      slackWorkspaceId,
      slackChannelId,
      notificationTopics: [this.topic],
      // What people may do from the channel: without it, everything that an administrator may.
      guardrailPolicies: [ManagedPolicy.fromAwsManagedPolicyName('CloudWatchReadOnlyAccess')],
    });
  }
}
