import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { Sha256 } from '@smithy/core/checksum';
import { SignatureV4 } from '@smithy/signature-v4';

type Credentials = ConstructorParameters<typeof SignatureV4>[0]['credentials'];

/**
 * A `fetch` that signs each request for API Gateway's IAM authorizer.
 * @param credentials of a role that the stack's charge, refund or operate policy is attached to
 */
export function signedFetch(region: string, credentials: Credentials = defaultProvider()): typeof fetch {
  const signer = new SignatureV4({ service: 'execute-api', region, credentials, sha256: Sha256 });
  return async (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const signed = await signer.sign({
      method: init.method ?? 'GET',
      protocol: url.protocol,
      hostname: url.hostname,
      ...(url.port === '' ? {} : { port: Number(url.port) }),
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: { host: url.host, ...Object.fromEntries(new Headers(init.headers)) },
      body: init.body,
    });
    const { host: _, ...headers } = signed.headers;
    return fetch(url, { ...init, headers });
  };
}
