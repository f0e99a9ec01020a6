import * as z from 'zod/mini';

const mapping = z.looseObject({ UUID: z.string(), FunctionArn: z.string() });

export type Mapping = z.infer<typeof mapping>;

/** The few Lambda calls that are needed here, without a client of their own: emulators read who calls, and check no signature. */
export class LambdaApi {
  readonly #authorization: string;

  constructor(
    private readonly endpoint: string,
    account: string,
    region: string,
  ) {
    const day = new Date().toISOString().slice(0, 10).replaceAll('-', '');
    this.#authorization = `AWS4-HMAC-SHA256 Credential=${account}/${day}/${region}/lambda/aws4_request, SignedHeaders=host, Signature=none`;
  }

  /** The event source mapping of a queue. https://docs.aws.amazon.com/lambda/latest/api/API_ListEventSourceMappings.html */
  async mappingOf(queueArn: string): Promise<Mapping> {
    const path = `/2015-03-31/event-source-mappings/?EventSourceArn=${encodeURIComponent(queueArn)}`;
    const { body } = await this.#call('GET', path);
    const [found, ...others] = z
      .object({ EventSourceMappings: z.array(mapping) })
      .parse(body).EventSourceMappings;
    if (!found || others.length > 0)
      throw new Error(
        `the queue has ${others.length + (found ? 1 : 0)} event source mappings; it must have one`,
      );
    return found;
  }

  async updateMapping(uuid: string, changes: object): Promise<void> {
    await this.#call('PUT', `/2015-03-31/event-source-mappings/${uuid}`, changes);
  }

  /** @throws Error with what the function reported, when it failed */
  async invoke(functionArn: string, event: object): Promise<unknown> {
    const path = `/2015-03-31/functions/${encodeURIComponent(functionArn)}/invocations`;
    const { body, functionError } = await this.#call('POST', path, event);
    if (functionError) throw new Error(`the function failed: ${JSON.stringify(body)}`);
    return body;
  }

  async #call(method: string, path: string, content?: object) {
    const response = await fetch(`${this.endpoint}${path}`, {
      method,
      headers: { authorization: this.#authorization, 'content-type': 'application/json' },
      ...(content && { body: JSON.stringify(content) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`Lambda answered ${response.status} to ${method} ${path}: ${text}`);
    const body: unknown = text === '' ? undefined : JSON.parse(text);
    return { body, functionError: response.headers.get('x-amz-function-error') };
  }
}
