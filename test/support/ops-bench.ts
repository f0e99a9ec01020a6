import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { DynamoDBDocumentClient, PutCommand } from '@aws-sdk/lib-dynamodb';
import { initial } from '../../lambdas/adapters/operation-parts';
import { boundTo } from '../../lambdas/operation/bound';
import { visibilityTimeoutSeconds } from '../../lambdas/operation/limits';
import { parseMessage } from '../../lambdas/operation/message';
import { sendJob } from '../../local/jobs';
import { writeLaptopFile } from '../../local/laptop-file';
import { type LocalStack, type LocalStackOptions, startLocalStack } from '../../local/stack';
import type { Io } from '../../ops/io';
import { runOps } from '../../ops/program';

export type Answer = string | (() => Promise<string>);

/** What a command said, and how it ended. */
export interface Ran {
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
  /** Of `--json`: what stdout holds, which must be one document. */
  readonly json: Record<string, unknown>;
  /** What was asked. */
  readonly questions: readonly string[];
}

export interface OpsBench {
  readonly stack: LocalStack;
  /** Where the laptop file lies. */
  readonly projectRoot: string;
  /** Runs a command in this process. @param answer what the person types when asked; nobody is there when undefined */
  ops(args: string, answer?: Answer): Promise<Ran>;
  /** Lets the worker run until the queue is empty; time passes where it must. */
  work(): Promise<void>;
  /** Runs it with `--json`. @returns the document @throws unless the exit code is as expected */
  json(args: string, exitCode?: number): Promise<Record<string, unknown>>;
  /** Puts a message into the dead-letter queue. @returns its id */
  deadLetter(body: string | object): Promise<string>;
  /** Puts the record of a job into the table, with more or other attributes. */
  record(body: object, attributes?: Readonly<Record<string, unknown>>): Promise<void>;
  put(item: Readonly<Record<string, unknown>>): Promise<void>;
  stop(): Promise<void>;
}

export async function startOpsBench(options: LocalStackOptions = {}): Promise<OpsBench> {
  // Longer than the laptop's, so that a busy machine fails no call.
  const limits = { workerTimeoutSeconds: 10, providerTimeoutSeconds: 5, ...options.limits };
  const stack = await startLocalStack({ startEventSource: false, functions: true, ...options, limits });
  const projectRoot = mkdtempSync(join(tmpdir(), 'ops-'));
  const forget = writeLaptopFile(projectRoot, stack);
  const config = { region: 'us-east-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' } };
  const sqs = new SQSClient({ ...config, endpoint: stack.endpoints.sqs });
  const dynamodb = new DynamoDBClient({ ...config, endpoint: stack.endpoints.dynamodb });
  const documents = DynamoDBDocumentClient.from(dynamodb, {
    marshallOptions: { removeUndefinedValues: true },
  });
  const put = async (item: Readonly<Record<string, unknown>>) => {
    await documents.send(new PutCommand({ TableName: stack.tableName, Item: { ...item } }));
  };
  const bench: OpsBench = {
    stack,
    projectRoot,
    ops: (args, answer) => run(args, projectRoot, answer),
    async work() {
      while ((await stack.queueDepth()).total > 0) {
        const records = await stack.eventSource.receive(10);
        if (records.length > 0) await stack.eventSource.invokeOnce(records);
        // What was deferred, or was in hand when a slow machine's worker timed out, comes back later.
        else await stack.clock.advance(visibilityTimeoutSeconds(stack.limits) * 1000);
      }
    },
    async json(args, exitCode = 0) {
      const ran = await bench.ops(`${args} --json`);
      if (ran.exitCode !== exitCode) throw new Error(`exit code ${ran.exitCode}: ${ran.out}${ran.err}`);
      return ran.json;
    },
    deadLetter: (body) => sendJob(sqs, stack.deadLetterQueueUrl, body),
    async record(body, attributes = {}) {
      const read = parseMessage(JSON.stringify(body), 16_384);
      if (read.kind !== 'message') throw new Error(`This is no job: ${JSON.stringify(read)}`);
      const { message } = read;
      const nowMs = stack.clock.now();
      const bound = boundTo({
        message,
        limits: stack.limits,
        deadlineAtMs: nowMs + 12 * 3_600_000,
        nowMs,
        acceptedBy: 'queue',
        providerKeyPrefix: 'local',
        providerParamsVersion: 1,
      });
      const pk = `op#${message.tenantId}#${message.operationId}`;
      const counts = { attemptCount: 0, updatedAtMs: nowMs };
      await put({ pk, ...initial(bound), ...counts, state: 'queued', ...attributes });
    },
    put,
    async stop() {
      forget();
      sqs.destroy();
      dynamodb.destroy();
      rmSync(projectRoot, { recursive: true });
      await stack.stop();
    },
  };
  return bench;
}

/** Runs a command in this process, as if the project lay in `projectRoot`. Words in double quotes are one argument. */
export async function run(args: string, projectRoot: string, answer?: Answer): Promise<Ran> {
  const out: string[] = [];
  const err: string[] = [];
  const questions: string[] = [];
  const io: Io = {
    out: (text) => out.push(text),
    err: (text) => err.push(text),
    ...(answer === undefined
      ? {}
      : {
          ask: async (question: string) => {
            questions.push(question);
            return typeof answer === 'string' ? answer : answer();
          },
        }),
    progress: () => ({ update: () => {}, stop: () => {} }),
    userName: 'mia',
    projectRoot,
  };
  const typed = [...args.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
  const exitCode = await runOps(typed, io);
  return {
    exitCode,
    out: out.join('\n'),
    err: err.join('\n'),
    get json() {
      const [document = '', ...more] = out;
      if (more.length > 0) throw new Error('There is more than one document on stdout.');
      return JSON.parse(document);
    },
    questions,
  };
}
