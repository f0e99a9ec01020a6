import { createHash, createHmac, randomBytes } from 'node:crypto';
import { Sha256 as SdkSha256 } from '@smithy/core/checksum';
import { HttpRequest } from '@smithy/core/protocols';
import { SignatureV4 } from '@smithy/signature-v4';
import { Sha256 } from '../../../lambdas/adapters/sha256';

const text = (length: number) => Buffer.from('ä'.repeat(length));

test.each([0, 1, 63, 64, 1000])('the digest of %i letters is SHA-256', async (length) => {
  const sha256 = new Sha256();
  sha256.update(text(length));
  expect(Buffer.from(await sha256.digest())).toEqual(createHash('sha256').update(text(length)).digest());
});

test('parts are digested as their whole, and after a reset only what comes then', async () => {
  const sha256 = new Sha256();
  for (const part of ['a', 'bc', 'def']) sha256.update(Buffer.from(part));
  expect(Buffer.from(await sha256.digest())).toEqual(createHash('sha256').update('abcdef').digest());
  sha256.reset();
  sha256.update(Buffer.from('g'));
  expect(Buffer.from(await sha256.digest())).toEqual(createHash('sha256').update('g').digest());
});

test.each([
  ['a text', 'AWS4secret', 'AWS4secret'],
  ['bytes', Uint8Array.from([0, 255, 1]), Buffer.from([0, 255, 1])],
  ['a part of a buffer', Buffer.from('..key..').subarray(2, 5), Buffer.from('key')],
  ['a buffer', Uint8Array.from([7, 8, 9]).buffer, Buffer.from([7, 8, 9])],
])('with a key of %s it is its HMAC, each time', async (_kind, secret, key) => {
  for (const data of ['one', 'two']) {
    const sha256 = new Sha256(secret);
    sha256.update(Buffer.from(data));
    expect(Buffer.from(await sha256.digest())).toEqual(createHmac('sha256', key).update(data).digest());
  }
});

test("a request's signature is the one that the SDK makes by itself", async () => {
  const signatureWith = async (sha256: typeof Sha256 | typeof SdkSha256, secretAccessKey: string) => {
    const credentials = { accessKeyId: 'AKID', secretAccessKey, sessionToken: 'token' };
    const signer = new SignatureV4({ service: 'dynamodb', region: 'eu-central-1', credentials, sha256 });
    const request = new HttpRequest({
      method: 'POST',
      hostname: 'dynamodb.eu-central-1.amazonaws.com',
      headers: {
        host: 'dynamodb.eu-central-1.amazonaws.com',
        'x-amz-target': 'DynamoDB_20120810.UpdateItem',
      },
      body: '{"TableName":"operations","Key":{"pk":{"S":"op#ä#1"}}}',
    });
    const { headers } = await signer.sign(request, { signingDate: new Date(Date.UTC(2030, 0, 31, 12)) });
    return headers.authorization;
  };
  for (let request = 0; request < 3; request++) {
    const secret = randomBytes(30).toString('base64');
    const ours = await signatureWith(Sha256, secret);
    expect(ours).toMatch(/Signature=[0-9a-f]{64}$/);
    expect(ours).toBe(await signatureWith(SdkSha256, secret));
  }
});
