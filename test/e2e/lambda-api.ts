import * as z from 'zod/mini';
import { type Surroundings, unverifiedSignature } from './surroundings';

const mapping = z.looseObject({ UUID: z.string(), FunctionArn: z.string() });

export type Mapping = z.infer<typeof mapping>;

const functions = z.object({ Functions: z.array(z.object({ FunctionArn: z.string() })) });

/** The few Lambda calls that are needed here, without a client of their own. */
export class LambdaApi {
  constructor(
    private readonly endpoint: string,
    private readonly surroundings: Surroundings,
  ) {}

  /** The alias `live` of the one function whose name contains `namePart`. https://docs.aws.amazon.com/lambda/latest/api/API_ListFunctions.html */
  async aliasOf(namePart: string): Promise<string> {
    const { body } = await this.#call('GET', '/2015-03-31/functions/?MaxItems=50');
    const arns = functions.parse(body).Functions.map(({ FunctionArn }) => FunctionArn);
    const [found, ...others] = arns.filter((arn) => arn.includes(namePart));
    if (!found || others.length > 0)
      throw new Error(`one function must be called ${namePart}; the functions are ${arns.join(', ')}`);
    return `${found}:live`;
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
      headers: {
        authorization: unverifiedSignature(this.surroundings, 'lambda'),
        'content-type': 'application/json',
      },
      ...(content && { body: JSON.stringify(content) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`Lambda answered ${response.status} to ${method} ${path}: ${text}`);
    const body: unknown = text === '' ? undefined : JSON.parse(text);
    return { body, functionError: response.headers.get('x-amz-function-error') };
  }
}
