import { tableClient } from '../../../lambdas/runtime/wiring';

test("a table's client leaves out what only tells of it, and nothing that a call needs", () => {
  const client = tableClient({ region: 'eu-central-1' });
  const steps = client.middlewareStack.identify().join('\n');
  client.destroy();
  for (const gone of ['UserAgent', 'recursionDetection', 'logger']) expect(steps).not.toMatch(gone);
  for (const needed of ['serializer', 'retry', 'contentLength', 'hostHeader', 'httpSigning'])
    expect(steps).toMatch(new RegExp(needed, 'i'));
});
