import type * as z from 'zod/mini';
import { describe, looksLikeCardNumber } from './describe';
import { idPattern, must } from './message-fields';
import { inputsV1, type MessageV1, messageV1 } from './message-v1';
import {
  type ChargeInputV2,
  chargeAsV1,
  inputsV2,
  type MessageV2,
  messageV2,
  type RefundInputV2,
  upcastV1,
} from './message-v2';

/** A message in the current version, whichever it was sent in. Unknown fields outside `input` were ignored. */
export type Message = MessageV2;
export type OperationType = Message['type'];
export type ChargeInput = ChargeInputV2;
export type RefundInput = RefundInputV2;

/** A message as it is sent, in any version. */
export type SentMessage = MessageV1 | MessageV2;
type JobOf<Sent> = Sent extends SentMessage ? Pick<Sent, 'type' | 'input'> : never;
type FormOf<Sent> = Sent extends SentMessage ? Pick<Sent, 'version' | 'type' | 'input'> : never;

interface Version {
  readonly schema: z.core.$ZodType;
  readonly inputs: Readonly<Record<OperationType, z.ZodMiniObject>>;
  /** The current form of a parsed JSON object that names this version, or what is wrong with it. */
  readonly read: (json: object) => Message | { readonly issues: readonly z.core.$ZodIssue[] };
}

/** What can be in flight: every version that was ever sent, each with its way to the current one. */
export const versions: Readonly<Record<number, Version>> = {
  1: { schema: messageV1, inputs: inputsV1, read: readerOf(messageV1, upcastV1) },
  2: { schema: messageV2, inputs: inputsV2, read: readerOf(messageV2, (message) => message) },
};

/** The newest version that this build reads. */
export const currentVersion = 2;

/**
 * The newest version that the API takes. Consumers first: it follows `currentVersion` one release later, when no worker
 * runs, or can come back by a roll-back, that does not read that version.
 */
export const offeredVersion = 2;

/**
 * How an operation is recorded, sent again and digested: in the oldest version that can say it. So what uses nothing new
 * is read by every build, and has one digest whatever version it came in.
 */
export function oldestForm(job: JobOf<Message>): FormOf<SentMessage> {
  if (job.type === 'refund') return { version: 1, type: job.type, input: job.input };
  const asV1 = chargeAsV1(job.input);
  return asV1
    ? { version: 1, type: job.type, input: asV1 }
    : { version: 2, type: job.type, input: job.input };
}

export type Parsed =
  | { readonly kind: 'message'; readonly message: Message }
  /** Never to be run. `problem` says what was got and what is allowed, and shows no body. */
  | { readonly kind: 'malformed'; readonly problem: string; readonly ids: Ids }
  /** Written by a newer producer: a newer worker will read it. */
  | { readonly kind: 'futureVersion'; readonly version: number; readonly ids: Ids };

/** The ids of a message that could not be read, as far as they are valid: for the log line only. */
export interface Ids {
  readonly tenantId?: string;
  readonly operationId?: string;
  readonly type?: string;
}

/** Parses the body of a queue message. The size limit, in UTF-8 bytes, comes before everything else. */
export function parseMessage(body: string, maxBytes: number): Parsed {
  const bytes = Buffer.byteLength(body, 'utf8');
  if (bytes > maxBytes) return malformed(`the body has ${bytes} bytes; at most ${maxBytes} are allowed`);
  const json = parseJson(body);
  if (!isObject(json))
    return malformed(
      `the body is ${json === undefined ? 'not JSON' : describe(json)}; it must be a JSON object`,
    );
  const wrapper = wrapperOf(json);
  return wrapper ? malformed(wrapper, idsOf(json)) : messageFrom(json);
}

/** The message that a parsed JSON object is. */
export function messageFrom(json: Record<string, unknown>): Parsed {
  const { version } = json;
  if (typeof version !== 'number' || !Number.isInteger(version) || version < 1) {
    return malformed(
      `version ${must(`a whole number from 1 to ${currentVersion}`)({ input: version })}`,
      idsOf(json),
    );
  }
  const known = versions[version];
  if (!known) return { kind: 'futureVersion', version, ids: idsOf(json) };
  const read = known.read(json);
  if (!('issues' in read)) return { kind: 'message', message: read };
  const problems = read.issues.map((issue) => problemOf(issue, json, known));
  return malformed([...new Set(problems)].join('; '), idsOf(json));
}

function readerOf<Sent>(schema: z.ZodMiniType<Sent>, upcast: (sent: Sent) => Message): Version['read'] {
  return (json) => {
    const parsed = schema.safeParse(json);
    return parsed.success ? upcast(parsed.data) : { issues: parsed.error.issues };
  };
}

const malformed = (problem: string, ids: Ids = {}): Parsed => ({ kind: 'malformed', problem, ids });

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function idsOf({ tenantId, operationId, type }: Record<string, unknown>): Ids {
  const valid = (value: unknown) =>
    typeof value === 'string' && idPattern.test(value) && !looksLikeCardNumber(value) ? value : undefined;
  return {
    ...(valid(tenantId) === undefined ? {} : { tenantId: valid(tenantId) }),
    ...(valid(operationId) === undefined ? {} : { operationId: valid(operationId) }),
    ...(type === 'charge' || type === 'refund' ? { type } : {}),
  };
}

/** Senders that put the job inside an envelope of their own: the remedy is theirs, so say it. */
function wrapperOf(json: Record<string, unknown>): string | undefined {
  if (json.Type === 'Notification' && 'Message' in json) {
    return 'the body is an SNS notification around the job; turn on raw message delivery for the subscription';
  }
  if ('detail-type' in json && 'detail' in json) {
    return 'the body is an EventBridge event around the job; set the input path of the rule to $.detail';
  }
  return undefined;
}

function problemOf(
  issue: z.core.$ZodIssue,
  { type, input }: Record<string, unknown>,
  { inputs }: Version,
): string {
  const path = issue.path.join('.');
  if (path === 'input' && issue.code === 'invalid_type') return `input ${must('an object')({ input })}`;
  if (issue.code === 'invalid_union') return `type ${must('"charge" or "refund"')({ input: type })}`;
  if (issue.code !== 'unrecognized_keys') return `${path} ${issue.message}`;
  const { shape } = type === 'refund' ? inputs.refund : inputs.charge;
  const allowed = Object.keys(shape).join(', ');
  return `${path} has unknown fields (${issue.keys.map(describe).join(', ')}); allowed are ${allowed}`;
}
