import { readBatchResponse } from '../../local/batch-response';

const batch = ['m1', 'm2', 'm3'];
const read = (payload: string | undefined) => [...readBatchResponse(payload, batch).failedIds];
const listing = (...items: unknown[]) => JSON.stringify({ batchItemFailures: items });

describe('Lambda reads a batch response', () => {
  test.each([
    ['no response', undefined],
    ['an empty response', ''],
    ['null', 'null'],
    ['an empty object', '{}'],
    ['a null list', '{"batchItemFailures":null}'],
    ['an empty list', '{"batchItemFailures":[]}'],
    ['an object of other fields', '{"statusCode":200}'],
  ])('%s is success of the whole batch', (_, payload) => {
    expect(readBatchResponse(payload, batch)).toEqual({ failedIds: new Set() });
  });

  test.each([
    ['one of the batch', listing({ itemIdentifier: 'm2' }), ['m2']],
    ['two of the batch', listing({ itemIdentifier: 'm1' }, { itemIdentifier: 'm3' }), ['m1', 'm3']],
    ['one named twice', listing({ itemIdentifier: 'm2' }, { itemIdentifier: 'm2' }), ['m2']],
    ['one with other fields beside', listing({ itemIdentifier: 'm2', why: 'x' }), ['m2']],
  ])('%s fails alone', (_, payload, failed) => {
    expect(read(payload)).toEqual(failed);
  });

  test.each([
    ['text that is not JSON', '{"batchItemFailures":'],
    ['a string', '"ok"'],
    ['a number', '0'],
    ['a boolean', 'true'],
    ['an array', '[{"itemIdentifier":"m2"}]'],
    ['a list that is no list', '{"batchItemFailures":{"itemIdentifier":"m2"}}'],
    ['a list of ids', listing('m2')],
    ['an empty id', listing({ itemIdentifier: '' })],
    ['a null id', listing({ itemIdentifier: null })],
    ['a number as id', listing({ itemIdentifier: 2 })],
    ['an item with another key', listing({ messageId: 'm2' })],
    ['an item with the key in another case', listing({ ItemIdentifier: 'm2' })],
    ['an unknown id', listing({ itemIdentifier: 'O7' })],
    ['a good id beside an unknown one', listing({ itemIdentifier: 'm1' }, { itemIdentifier: 'O7' })],
    ['a good id beside an empty one', listing({ itemIdentifier: 'm1' }, { itemIdentifier: '' })],
  ])('%s is failure of the whole batch', (_, payload) => {
    const verdict = readBatchResponse(payload, batch);
    expect([...verdict.failedIds]).toEqual(batch);
    expect(verdict.wholeBatchBecause).toEqual(expect.any(String));
  });
});
