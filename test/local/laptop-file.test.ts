import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readLaptopFile, writeLaptopFile } from '../../local/laptop-file';
import { type LocalStack, startLocalStack } from '../../local/stack';

let stack: LocalStack;
let projectRoot: string;
beforeAll(async () => {
  stack = await startLocalStack({ startEventSource: false, functions: true, api: true });
  projectRoot = mkdtempSync(join(tmpdir(), 'laptop-'));
});
afterAll(async () => {
  rmSync(projectRoot, { recursive: true });
  await stack.stop();
});
const path = () => join(projectRoot, '.laptop.json');

describe('the laptop file', () => {
  test('tells where the stack is, follows its clock, and goes with it', async () => {
    const forget = writeLaptopFile(projectRoot, stack);
    expect(readLaptopFile(projectRoot)).toMatchObject({
      pid: process.pid,
      queueUrl: stack.queueUrl,
      deadLetterQueueUrl: stack.deadLetterQueueUrl,
      tableName: stack.tableName,
      endpoints: { lambda: stack.endpoints.lambda, api: stack.endpoints.api },
      clockOffsetMs: 0,
    });
    await stack.clock.advance(5000);
    expect(readLaptopFile(projectRoot)?.clockOffsetMs).toBe(5000);
    forget();
    expect(existsSync(path())).toBe(false);
    await stack.clock.advance(1);
    expect(existsSync(path())).toBe(false);
  });

  test('of another stack that has written over it is left to that', () => {
    const forget = writeLaptopFile(projectRoot, stack);
    const other = { ...JSON.parse(readFileSync(path(), 'utf8')), pid: process.pid + 1 };
    writeFileSync(path(), JSON.stringify(other));
    forget();
    expect(readLaptopFile(projectRoot)?.pid).toBe(other.pid);
  });

  test('that is not there, or not to be read, is none', () => {
    writeFileSync(path(), '{"pid": "one"');
    expect(readLaptopFile(projectRoot)).toBeUndefined();
    rmSync(path());
    expect(readLaptopFile(projectRoot)).toBeUndefined();
  });
});

test('a stack without functions is not told of: nothing could be done with it', async () => {
  const plain = await startLocalStack({ startEventSource: false });
  expect(() => writeLaptopFile(projectRoot, plain)).toThrow('serves no functions');
  await plain.stop();
});
