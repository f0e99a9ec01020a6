// The entry of the emulators' process. It is a process of its own because a client that resets in mid-body
// can crash dynalite, and because the stack's clock must move fauxqs's. ES module, because fauxqs is one.
import { once } from 'node:events';
import dynalite from 'dynalite';
import { buildApp } from 'fauxqs';
import { shiftDateNow } from './clock';
import { isSqsStore, layerSqs } from './sqs-layer';

type Stores = NonNullable<NonNullable<Parameters<typeof buildApp>[0]>['stores']>;

const host = '127.0.0.1';
const tell = (message: object) => void process.send?.(message);

process.on('disconnect', () => process.exit());
process.on('message', (message: unknown) => {
  if (typeof message !== 'object' || message === null || !('offsetMs' in message)) return;
  if (typeof message.offsetMs !== 'number') return;
  shiftDateNow(message.offsetMs);
  tell({ kind: 'clockMoved', offsetMs: message.offsetMs });
});

tell({ kind: 'ready', dynamodbPort: await startDynamodb(), sqsPort: await startSqs() });

async function startDynamodb(): Promise<number> {
  const server = dynalite({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 });
  server.listen(0, host);
  await once(server, 'listening');
  return portOf(server.address());
}

async function startSqs(): Promise<number> {
  const sqsStore = await create('./sqs/sqsStore.js', 'SqsStore', isSqsStore);
  // No host of its own: a queue's URL then begins with the host that its creator called, which is the proxy.
  sqsStore.host = '';
  const app = buildApp({ logger: false, stores: { sqsStore, ...(await unusedStores()) } });
  layerSqs(app, sqsStore, (message) => tell({ kind: 'deadLettered', message }));
  await app.listen({ port: 0, host });
  return portOf(app.server.address());
}

/** `buildApp` is typed to want all three stores when it is given one. */
async function unusedStores(): Promise<Omit<Stores, 'sqsStore'>> {
  const isSnsStore = (value: object): value is Stores['snsStore'] => 'createTopic' in value;
  const isS3Store = (value: object): value is Stores['s3Store'] => 'createBucket' in value;
  return {
    snsStore: await create('./sns/snsStore.js', 'SnsStore', isSnsStore),
    s3Store: await create('./s3/s3Store.js', 'S3Store', isS3Store),
  };
}

/**
 * fauxqs takes a store but does not export its class, so that is loaded by its place beside the exported
 * module.
 */
async function create<Store extends object>(
  file: string,
  name: string,
  isStore: (value: object) => value is Store,
): Promise<Store> {
  const loaded: unknown = await import(new URL(file, import.meta.resolve('fauxqs')).href);
  const Class = typeof loaded === 'object' && loaded !== null ? Reflect.get(loaded, name) : undefined;
  const store: unknown = typeof Class === 'function' ? Reflect.construct(Class, []) : undefined;
  if (typeof store === 'object' && store !== null && isStore(store)) return store;
  throw new Error(`fauxqs has no ${name} in ${file} as version 2.4.1 has.`);
}

function portOf(address: ReturnType<import('node:net').Server['address']>): number {
  if (typeof address === 'object' && address !== null) return address.port;
  throw new Error('The server has no port.');
}
