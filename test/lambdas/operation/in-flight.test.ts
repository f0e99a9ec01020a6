import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readOperation } from '../../../lambdas/adapters/operation-item';
import { initial } from '../../../lambdas/adapters/operation-parts';
import { boundOf } from '../../../lambdas/operation/bound';
import { digestOf } from '../../../lambdas/operation/digest';
import {
  currentVersion,
  type Message,
  messageFrom,
  offeredVersion,
  oldestForm,
  parseMessage,
  versions,
} from '../../../lambdas/operation/message';
import { messageOf, type Operation } from '../../../lambdas/operation/operation';
import * as messageOfVersion1 from '../../support/version-1/message';
import * as itemOfVersion1 from '../../support/version-1/operation-item';

/** What may be in a queue, a dead-letter queue or a table: written once, and never changed. */
function fixtures(folder: 'messages' | 'records') {
  const path = join(__dirname, '../../fixtures', folder);
  const names = readdirSync(path).map((file) => file.replace(/\.json$/, ''));
  return new Map(names.map((name) => [name, JSON.parse(readFileSync(join(path, `${name}.json`), 'utf8'))]));
}
const messages = fixtures('messages');
const records = fixtures('records');
const inVersion1 = (name: string) => name.replace(/^v\d+/, 'v1');
const versionNumbers = Object.keys(versions).map(Number);

function parsed(message: unknown): Message {
  const read = parseMessage(JSON.stringify(message), 16_384);
  if (read.kind !== 'message') throw new Error(JSON.stringify(read));
  return read.message;
}

function recorded(item: unknown): Operation {
  const operation = readOperation(item);
  if (!operation) throw new Error('This record cannot be read.');
  return operation;
}

describe('a message that may be in flight', () => {
  test.each([...messages])(
    '%s is read, and digests as it did when it was sent',
    (_, { message, inputDigest }) => {
      expect(digestOf(parsed(message))).toBe(inputDigest);
    },
  );

  test.each([...messages])(
    '%s is the same operation when it is sent again in its oldest form',
    (_, { message }) => {
      const { tenantId, operationId, deadlineAt, ...job } = parsed(message);
      const sentAgain = { tenantId, operationId, deadlineAt, ...oldestForm(job) };
      expect(sentAgain.version).toBeLessThanOrEqual(message.version);
      expect(parsed(sentAgain)).toEqual(parsed(message));
    },
  );

  test.each([...messages].filter(([name]) => !name.startsWith('v1-') && messages.has(inVersion1(name))))(
    '%s says the same as its namesake of version 1: one digest, one oldest form',
    (name, { message, inputDigest }) => {
      const first = messages.get(inVersion1(name));
      expect(inputDigest).toBe(first.inputDigest);
      expect(parsed(message)).toEqual(parsed(first.message));
      expect(oldestForm(parsed(message)).version).toBe(1);
    },
  );

  test('of every version and type there is one; of the newest, one that uses each of its fields', () => {
    const kept = [...messages.values()].map(({ message }) => message);
    for (const [version, { inputs }] of Object.entries(versions)) {
      for (const [type, { shape }] of Object.entries(inputs)) {
        const same = kept.filter((message) => message.version === Number(version) && message.type === type);
        expect(same).not.toEqual([]);
        const used = new Set(same.flatMap(({ input }) => Object.keys(input)));
        if (Number(version) === currentVersion) expect([...used].sort()).toEqual(Object.keys(shape).sort());
      }
    }
    expect([...messages].filter(([name, { message }]) => !name.startsWith(`v${message.version}-`))).toEqual(
      [],
    );
  });

  test('a field that a version does not have is refused in it, and not dropped', () => {
    const { message } = messages.get('v2-charge-with-description');
    const { reference: invoiceId, ...input } = message.input;
    const asVersion1 = messageFrom({ ...message, version: 1, input: { ...input, invoiceId } });
    expect(asVersion1).toMatchObject({
      kind: 'malformed',
      problem: expect.stringMatching(/unknown fields \("description"\)/),
    });
    const named = messageFrom({ ...message, input: { ...input, invoiceId } });
    expect(named).toMatchObject({
      kind: 'malformed',
      problem: expect.stringMatching(/input.reference is missing.*"invoiceId"/),
    });
  });
});

describe('a record that may be in a table', () => {
  test.each([...records])('%s is read, and its digest is still that of its inputs', (_, { item }) => {
    expect(digestOf(recorded(item))).toBe(item.inputDigest);
  });

  test.each([...records])('%s says what its message says', (_, { item, message }) => {
    const { type, input } = parsed(message);
    expect(recorded(item)).toMatchObject({ type });
    expect(recorded(item).input).toEqual(input);
  });

  test.each([...records])('%s is written again as it is', (_, { item }) => {
    const { type, version, input, inputDigest, providerKey, providerParamsVersion } = item;
    expect(initial(boundOf(recorded(item)))).toMatchObject({
      ...{ type, version, input, inputDigest, providerKey, providerParamsVersion },
    });
  });

  test.each([...records])('%s has the message that it had', (_, { item, message }) => {
    expect(messageOf(recorded(item))).toEqual(message);
  });

  test('there is one of every version, and of a version to come it is not understood', () => {
    const kept = [...records.values()].map(({ item }) => item);
    expect([...new Set(kept.map(({ version }) => version))].sort()).toEqual(versionNumbers);
    for (const item of kept) expect(readOperation({ ...item, version: currentVersion + 1 })).toBeUndefined();
  });
});

describe('a build of version 1', () => {
  const readByVersion1 = (message: object) =>
    messageOfVersion1.parseMessage(JSON.stringify(message), 16_384).kind;
  const sentAgain = (message: object) => ({ ...message, ...oldestForm(parsed(message)) });
  const [ofVersion1, ofLater] = [
    [...messages].filter(([, { message }]) => message.version === 1),
    [...messages].filter(([, { message }]) => message.version > 1),
  ];
  const [saysMore, saysNoMore] = [
    ofLater.filter(([, { message }]) => 'description' in message.input),
    ofLater.filter(([, { message }]) => !('description' in message.input)),
  ];

  test.each(ofVersion1)('reads %s', (_, { message }) => {
    expect(readByVersion1(message)).toBe('message');
  });

  test.each(ofLater)('leaves %s to a newer build', (_, { message }) => {
    expect(readByVersion1(message)).toBe('futureVersion');
  });

  test.each(saysNoMore)('reads %s when this build sends it again: it says nothing new', (_, { message }) => {
    expect(readByVersion1(sentAgain(message))).toBe('message');
  });

  test.each(saysMore)('leaves %s to a newer build also when it is sent again', (_, { message }) => {
    expect(readByVersion1(sentAgain(message))).toBe('futureVersion');
  });

  test.each([...records].filter(([, { item }]) => item.version === 1))(
    'reads the record %s',
    (_, { item }) => {
      expect(itemOfVersion1.readOperation(item)).toMatchObject({ version: 1, input: item.input });
    },
  );

  test.each([...records].filter(([, { item }]) => item.version > 1))(
    'does not understand the record %s',
    (_, { item }) => {
      expect(itemOfVersion1.readOperation(item)).toBeUndefined();
    },
  );
});

test('the versions have no gap, and none is offered that is not read', () => {
  expect(versionNumbers).toEqual(Array.from({ length: currentVersion }, (_, index) => index + 1));
  expect(offeredVersion).toBeLessThanOrEqual(currentVersion);
});
