import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { alarms, anchorOf } from '../../lib/alarms';
import { ChargeOnce } from '../../lib/charge-once';
import { Monitoring } from '../../lib/monitoring';
import { alarmsOf } from '../support/alarm-evaluation';
import { operationsStack, testApp } from '../support/stack-factory';

const { template } = operationsStack();
const definitions = alarmsOf(template);
const runbook = readFileSync(join(__dirname, '..', '..', 'docs', 'runbook.md'), 'utf8');
const sections = new Map(
  runbook
    .split(/^## /m)
    .slice(1)
    .map((section) => [section.split('\n', 1).join(), section] as const),
);

describe('alarms', () => {
  test('every row of the table is an alarm of the template, and no other is', () => {
    expect([...definitions.keys()]).toEqual(alarms.map(({ id }) => id));
  });

  test.each(alarms.map(({ id, title }) => [title, id]))(
    '"%s" has a section of the runbook with what it means, where to look, what to do and when it is over',
    (title, id) => {
      const section = sections.get(title);
      for (const part of ['What it means.', 'Look here.', 'Do this.', 'It is over when'])
        expect(section).toContain(`\n**${part}**`);
      const { AlarmDescription: text } = definitions.get(id) ?? {};
      expect(text).toMatch(new RegExp(`^${title}\\. .+ Runbook: docs/runbook\\.md#${anchorOf(title)}$`));
      // CloudWatch's longest. https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
      expect(text?.length).toBeLessThan(1024);
    },
  );

  test('the alarms that roll a deployment back have a section too', () => {
    const { template: gradually } = operationsStack({ gradualDeployment: 'canary10Percent5Minutes' });
    const texts = Object.values(gradually.findResources('AWS::CloudWatch::Alarm')).map(({ Properties }) =>
      String(Properties.AlarmDescription),
    );
    expect(texts.length).toBeGreaterThan(alarms.length);
    const anchors = [...sections.keys()].map(anchorOf);
    for (const text of texts) expect(anchors).toContain(text.split(' Runbook: docs/runbook.md#')[1]);
  });

  test('the runbook has no section of an alarm that is none', () => {
    const procedures = [
      'A dead letter in the console, from finding it to its end',
      'A deployment that was rolled back',
      'Restore the table to a point in time',
    ];
    const others = [...sections.keys()].filter((title) => !alarms.some((alarm) => alarm.title === title));
    expect(others).toEqual(procedures);
  });

  test('every link of the runbook to one of its sections leads there', () => {
    const anchors = [...sections.keys()].map(anchorOf);
    const linked = [...runbook.matchAll(/\]\(#([^)]+)\)/g)].map(([, anchor]) => anchor);
    expect(linked.length).toBeGreaterThan(0);
    for (const anchor of linked) expect(anchors).toContain(anchor);
  });

  test('every alarm tells the topic when it begins and when it is over', () => {
    const [topic] = Object.keys(template.findResources('AWS::SNS::Topic'));
    for (const { AlarmActions, OKActions } of definitions.values())
      expect([AlarmActions, OKActions]).toEqual([[{ Ref: topic }], [{ Ref: topic }]]);
  });

  test('the address of the runbook is a setting', () => {
    const runbookUrl = 'https://wiki.shop.test/charge-once';
    const { AlarmDescription } = alarmsOf(operationsStack({ runbookUrl }).template).get('KeyMissing') ?? {};
    expect(AlarmDescription).toMatch(
      /Runbook: https:\/\/wiki\.shop\.test\/charge-once#the-stripe-key-is-not-set$/,
    );
  });
});

describe('the topic', () => {
  test('is encrypted with a key that CloudWatch may use, which AWS would not let it with its own', () => {
    template.hasResourceProperties('AWS::SNS::Topic', {
      KmsMasterKeyId: { 'Fn::GetAtt': [Match.stringLikeRegexp('^MonitoringAlarmTopicKey'), 'Arn'] },
    });
    template.hasResourceProperties('AWS::KMS::Key', {
      EnableKeyRotation: true,
      KeyPolicy: {
        Statement: Match.arrayWith([
          {
            Effect: 'Allow',
            Principal: { Service: 'cloudwatch.amazonaws.com' },
            Action: ['kms:Decrypt', 'kms:GenerateDataKey*'],
            Resource: '*',
          },
        ]),
      },
    });
  });

  test("takes messages of this account's alarms, over TLS, and of nobody else", () => {
    template.hasResourceProperties('AWS::SNS::TopicPolicy', {
      PolicyDocument: {
        Statement: [
          Match.objectLike({ Effect: 'Deny', Condition: { Bool: { 'aws:SecureTransport': 'false' } } }),
          Match.objectLike({
            Effect: 'Allow',
            Principal: { Service: 'cloudwatch.amazonaws.com' },
            Condition: {
              StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } },
              ArnLike: { 'aws:SourceArn': { 'Fn::Join': ['', Match.arrayWith([':alarm:*'])] } },
            },
          }),
        ],
      },
    });
  });

  test('has no subscriber until a setting names one', () => {
    template.resourceCountIs('AWS::SNS::Subscription', 0);
    template.resourceCountIs('AWS::Chatbot::SlackChannelConfiguration', 0);
  });

  test('alarmEmail has alarms mailed', () => {
    operationsStack({ alarmEmail: 'ops@shop.test' }).template.hasResourceProperties(
      'AWS::SNS::Subscription',
      {
        Protocol: 'email',
        Endpoint: 'ops@shop.test',
      },
    );
  });

  test('alarmSlack has them posted to a channel, from which nothing can be changed', () => {
    const { template: slack } = operationsStack({ alarmSlack: 'T0ABC/C0DEF' });
    slack.hasResourceProperties('AWS::Chatbot::SlackChannelConfiguration', {
      SlackWorkspaceId: 'T0ABC',
      SlackChannelId: 'C0DEF',
      GuardrailPolicies: [
        { 'Fn::Join': ['', Match.arrayWith([':iam::aws:policy/CloudWatchReadOnlyAccess'])] },
      ],
    });
    expect(() => operationsStack({ alarmSlack: '#alarms' })).toThrow(
      /alarmSlack is "#alarms"; it must be a Slack/,
    );
  });
});

describe('what people look at', () => {
  test('the dashboard shows the queue, the work by type, failures, the provider, deferred tenants and costs', () => {
    const [dashboard] = Object.values(template.findResources('AWS::CloudWatch::Dashboard'));
    const titles = [...JSON.stringify(dashboard).matchAll(/\\"title\\":\\"([^\\]+)/g)].map(
      ([, title]) => title,
    );
    for (const part of [
      'Queue: ',
      'Work: ',
      'Failures: ',
      'Provider: ',
      'Open: ',
      'Tenants with most',
      'Cost: ',
    ])
      expect(titles.filter((title) => title?.startsWith(part))).not.toEqual([]);
  });

  test('the saved queries look at the logs of every function', () => {
    const queries = Object.values(template.findResources('AWS::Logs::QueryDefinition'));
    expect(queries.map(({ Properties }) => Properties.Name.split('/').at(-1))).toEqual([
      "One operation's life",
      'Failures by code',
      'Deferrals by tenant',
      'Dead-lettered messages',
    ]);
    const groups = Object.keys(template.findResources('AWS::Logs::LogGroup')).filter(
      (id) => !id.includes('AccessLog'),
    );
    for (const { Properties } of queries)
      expect(Properties.LogGroupNames.map(({ Ref }: { Ref: string }) => Ref).sort()).toEqual(groups.sort());
  });
});

test('the setting monitoring takes all of it out of the stack', () => {
  const { template: bare } = operationsStack({ monitoring: false });
  for (const type of [
    'AWS::CloudWatch::Alarm',
    'AWS::CloudWatch::Dashboard',
    'AWS::SNS::Topic',
    'AWS::Logs::QueryDefinition',
  ])
    bare.resourceCountIs(type, 0);
});

test('a service without the API in a stack of your own is watched too, by a topic of your own', () => {
  const stack = new Stack(testApp(), 'Shop');
  const topic = new Topic(stack, 'OnCall');
  new Monitoring(stack, 'Monitoring', { chargeOnce: new ChargeOnce(stack, 'Payments'), topic });
  const foreign = Template.fromStack(stack);
  foreign.resourceCountIs('AWS::SNS::Topic', 1);
  expect([...alarmsOf(foreign).keys()]).toEqual(
    alarms.map(({ id }) => id).filter((id) => id !== 'ApiErrors'),
  );
});

test('every function writes traces', () => {
  template.allResourcesProperties('AWS::Lambda::Function', { TracingConfig: { Mode: 'Active' } });
});
