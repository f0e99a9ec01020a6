/** How to put a job on this stack's queue from elsewhere on this machine. The same jobs are in the README, with these variables. */
export function howToSend(queueUrl: string, endpoint: string, apiUrl: string): string {
  const body = JSON.stringify({
    version: 1,
    tenantId: 'North',
    operationId: 'O9',
    type: 'charge',
    input: {
      invoiceId: '9',
      amountMinor: 1250,
      currency: 'usd',
      customerId: 'cus_A',
      paymentMethodId: 'pm_A',
    },
  });
  const input =
    '{"invoiceId":"11","amountMinor":1250,"currency":"usd","customerId":"cus_A","paymentMethodId":"pm_A"}';
  return `API:   ${apiUrl}
Queue: ${queueUrl}

For the examples of the README:

  export API_URL=${apiUrl} QUEUE_URL=${queueUrl} ENDPOINT=${endpoint} AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local

Through the API: accept, ask, cancel.

  curl -i -X PUT ${apiUrl}/tenants/North/charges/O11 -H 'content-type: application/json' -d '${input}'
  curl -s ${apiUrl}/tenants/North/operations/O11
  curl -s -X POST ${apiUrl}/tenants/North/operations/O11/cancel

Straight to the queue, from another terminal and twice if you like: it is charged once.

  # AWS CLI
  AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local aws sqs send-message --region us-east-1 \\
    --endpoint-url ${endpoint} --queue-url ${queueUrl} --message-group-id North \\
    --message-body '${body}'

  // TypeScript, @aws-sdk/client-sqs
  const sqs = new SQSClient({ region: 'us-east-1', endpoint: '${endpoint}', credentials: { accessKeyId: 'local', secretAccessKey: 'local' } });
  await sqs.send(new SendMessageCommand({ QueueUrl: '${queueUrl}', MessageGroupId: 'North', MessageBody: '${body}' }));

  # Python, boto3
  sqs = boto3.client('sqs', region_name='us-east-1', endpoint_url='${endpoint}', aws_access_key_id='local', aws_secret_access_key='local')
  sqs.send_message(QueueUrl='${queueUrl}', MessageGroupId='North', MessageBody='${body}')
`;
}
