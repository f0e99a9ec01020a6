import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { json } from 'node:stream/consumers';
import * as z from 'zod/mini';
import { type Surroundings, unverifiedSignature } from './surroundings';

export interface Answer {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly location: string | undefined;
  readonly body: Readonly<Record<string, unknown>>;
}

/**
 * The API as a service calls it. The name of its host resolves nowhere: the emulator is told it in the Host header,
 * which `fetch` would not send.
 */
export class DeployedApi {
  readonly #host: string;

  constructor(
    apiUrl: string,
    private readonly endpoint: string,
    private readonly surroundings: Surroundings,
  ) {
    // Not by URL, which takes `<id>.execute-api.127.0.0.1` for a broken address.
    this.#host = apiUrl.replace(/^https?:\/\//, '');
  }

  async call(method: string, path: string, content?: object): Promise<Answer> {
    const sent = request(new URL(path, this.endpoint), {
      method,
      headers: {
        host: this.#host,
        authorization: unverifiedSignature(this.surroundings, 'execute-api'),
        ...(content && { 'content-type': 'application/json' }),
      },
    });
    sent.end(content && JSON.stringify(content));
    const [response]: IncomingMessage[] = await once(sent, 'response');
    if (!response) throw new Error(`${method} ${path} had no answer`);
    return {
      status: response.statusCode ?? 0,
      contentType: response.headers['content-type'],
      location: response.headers.location,
      body: z.record(z.string(), z.unknown()).parse(await json(response)),
    };
  }
}
