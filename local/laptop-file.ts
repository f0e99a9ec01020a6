import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod/mini';
import type { LocalStack } from './stack';

const content = z.object({
  /** Of `npm start`. A file whose process has ended is stale: it was killed. */
  pid: z.int().check(z.gte(1)),
  region: z.string(),
  queueUrl: z.string(),
  deadLetterQueueUrl: z.string(),
  tableName: z.string(),
  functions: z.object({ operate: z.string(), reconcile: z.string() }),
  endpoints: z.object({
    dynamodb: z.string(),
    sqs: z.string(),
    lambda: z.string(),
    api: z.optional(z.string()),
  }),
  /** Overrides of the limits, as the handlers get them. */
  settings: z.record(z.string(), z.unknown()),
  /** How far the stack's clock is ahead of the real one, in milliseconds. */
  clockOffsetMs: z.number(),
});

/** What other programs on this machine need to know of a running laptop stack. */
export type LaptopFile = Readonly<z.infer<typeof content>>;

const pathIn = (projectRoot: string): string => join(projectRoot, '.laptop.json');

/** What lies in `.laptop.json`; undefined when there is none, or none that this build wrote. */
export function readLaptopFile(projectRoot: string): LaptopFile | undefined {
  try {
    const parsed = content.safeParse(JSON.parse(readFileSync(pathIn(projectRoot), 'utf8')));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Tells where the stack is, in `.laptop.json` of the project, and keeps that true while its clock moves.
 * @throws when the stack does not serve Lambda's `Invoke`
 * @returns a function that removes the file, unless another stack has written its own over it
 */
export function writeLaptopFile(projectRoot: string, stack: LocalStack): () => void {
  const { queueUrl, deadLetterQueueUrl, tableName, functions, environment } = stack;
  const { dynamodb, sqs, lambda, api } = stack.endpoints;
  if (lambda === undefined) throw new Error('The laptop stack serves no functions.');
  const write = (clockOffsetMs: number) => {
    const file: LaptopFile = {
      pid: process.pid,
      region: environment.AWS_REGION ?? '',
      queueUrl,
      deadLetterQueueUrl,
      tableName,
      functions,
      endpoints: { dynamodb, sqs, lambda, ...(api === undefined ? {} : { api }) },
      settings: JSON.parse(environment.SETTINGS ?? '{}'),
      clockOffsetMs,
    };
    writeFileSync(pathIn(projectRoot), `${JSON.stringify(file, undefined, 2)}\n`);
  };
  write(stack.clock.offsetMs());
  const unfollow = stack.onEvent((event) => {
    if (event.type === 'clockMoved') write(event.offsetMs);
  });
  return () => {
    unfollow();
    const now = readLaptopFile(projectRoot);
    if (now?.pid === process.pid && now.queueUrl === queueUrl) rmSync(pathIn(projectRoot), { force: true });
  };
}
