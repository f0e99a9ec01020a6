import { Readable } from 'node:stream';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { HttpResponse } from '@smithy/core/protocols';
import { indexWrites, itemBytes, readUnits } from '../scale/table-meter';
import { holds, type Item, updated, type Value } from './expressions';
import type { OwnTime } from './own-time';

/** What DynamoDB would bill, and calls. */
export interface TableUse {
  calls: number;
  readUnits: number;
  /** Of everything but the provider's item, which is written once a batch. */
  writeUnits: number;
  providerWriteUnits: number;
  indexWriteUnits: number;
}

interface Request {
  readonly TableName: string;
  readonly Key: Item;
  readonly Item?: Item;
  readonly UpdateExpression?: string;
  readonly ConditionExpression?: string;
  readonly ExpressionAttributeNames?: Readonly<Record<string, string>>;
  readonly ExpressionAttributeValues?: Readonly<Record<string, Value>>;
  readonly ReturnValues?: string;
  readonly ReturnValuesOnConditionCheckFailure?: string;
  readonly RequestItems: Readonly<Record<string, { readonly Keys: readonly Item[] }>>;
}

const decoder = new TextDecoder();
const refused = 'com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException';

/** DynamoDB in memory, as far as the two consumers use it: it gets the SDK's requests and gives the bytes of an answer. */
export class MemoryTable {
  /** Writes that bring one of these texts are never answered: what a process that dies there leaves behind. */
  readonly diesAt = new Set<string>();
  /** Those writes: each gives up when it is called. */
  readonly deaths: (() => void)[] = [];
  /** Whether units are worked out, which takes more time than the rest. */
  isMetered = false;
  /** As text: ten thousand items as objects would slow down every collection of garbage, which is the consumers' time. */
  #items = new Map<string, string>();
  #use = nothing();

  constructor(private readonly ownTime: OwnTime) {}

  /** The requests of every client of the AWS SDK in this process go here instead of to the network. */
  install(): void {
    const client = new DynamoDBClient({ region: 'us-east-1' });
    const handler = Object.getPrototypeOf(client.config.requestHandler);
    handler.handle = async (request: { headers: Record<string, string>; body: Uint8Array }) => {
      const answer = this.ownTime.of(() =>
        this.#answer(
          request.headers['x-amz-target']?.split('.')[1] ?? '',
          JSON.parse(decoder.decode(request.body)),
        ),
      );
      await new Promise<void>((resolve, reject) => {
        if (answer) setImmediate(resolve);
        else this.deaths.push(() => reject(new Error('the process died')));
      });
      return this.ownTime.of(() => ({
        response: new HttpResponse({
          statusCode: answer?.statusCode ?? 500,
          headers: { 'content-type': 'application/x-amz-json-1.0' },
          body: Readable.from([Buffer.from(JSON.stringify(answer?.content))], { objectMode: false }),
        }),
      }));
    };
  }

  /** What was used since the last time. */
  take(): TableUse {
    const use = this.#use;
    this.#use = nothing();
    return use;
  }

  /** What it holds, to come back to. */
  snapshot(): ReadonlyMap<string, string> {
    return new Map(this.#items);
  }

  restore(snapshot: ReadonlyMap<string, string> = new Map()): void {
    this.#items = new Map(snapshot);
  }

  #answer(action: string, request: Request): { statusCode: number; content: object } | undefined {
    // The delay of a message, which is SQS's.
    if (action === 'ChangeMessageVisibility') return { statusCode: 200, content: {} };
    if (Object.values(request.ExpressionAttributeValues ?? {}).some(({ S }) => this.diesAt.has(String(S))))
      return undefined;
    this.#use.calls += 1;
    switch (action) {
      case 'BatchGetItem':
        return { statusCode: 200, content: this.#batch(request) };
      case 'PutItem':
        return this.#write(request, keyIn(request.Item ?? {}), () => request.Item ?? {});
      case 'UpdateItem':
        return this.#write(request, keyIn(request.Key), (scope) => ({
          ...request.Key,
          ...updated(request.UpdateExpression ?? '', scope),
        }));
      default:
        throw new Error(`The table in memory does not know ${action}`);
    }
  }

  #batch({ RequestItems }: Request) {
    const [[name = '', request] = []] = Object.entries(RequestItems);
    const found = (request?.Keys ?? []).map((key) => this.#get(`${name} ${keyIn(key)}`));
    if (this.isMetered) for (const item of found) this.#use.readUnits += readUnits(item);
    return { Responses: { [name]: found.filter((item) => item !== undefined) }, UnprocessedKeys: {} };
  }

  #write(request: Request, key: string, change: (scope: Parameters<typeof holds>[1]) => Item) {
    const place = `${request.TableName} ${key}`;
    const before = this.#get(place);
    const { ExpressionAttributeNames: names = {}, ExpressionAttributeValues: values = {} } = request;
    const scope = { item: before, names, values };
    const { ConditionExpression } = request;
    const applies = ConditionExpression === undefined || holds(ConditionExpression, scope);
    const after = applies ? change(scope) : before;
    if (this.isMetered) this.#countWrite(key, before, after);
    if (!applies) {
      const message = 'The conditional request failed';
      const Item = request.ReturnValuesOnConditionCheckFailure === 'ALL_OLD' ? before : undefined;
      return { statusCode: 400, content: { __type: refused, message, Item } };
    }
    if (after) this.#items.set(place, JSON.stringify(after));
    return { statusCode: 200, content: request.ReturnValues === 'ALL_NEW' ? { Attributes: after } : {} };
  }

  #get(place: string): Item | undefined {
    const text = this.#items.get(place);
    return text === undefined ? undefined : JSON.parse(text);
  }

  #countWrite(key: string, before: Item | undefined, after: Item | undefined): void {
    const bytes = Math.max(itemBytes(before ?? {}), itemBytes(after ?? {}));
    const units = Math.max(1, Math.ceil(bytes / 1024));
    if (key.startsWith('provider#')) this.#use.providerWriteUnits += units;
    else this.#use.writeUnits += units;
    this.#use.indexWriteUnits += indexWrites(before, after);
  }
}

const nothing = (): TableUse => ({
  calls: 0,
  readUnits: 0,
  writeUnits: 0,
  providerWriteUnits: 0,
  indexWriteUnits: 0,
});

/** Our table's key is `pk`, the stock layer's `id`. */
const keyIn = ({ pk, id }: Item): string => String(pk?.S ?? id?.S);
