import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import * as z from 'zod/mini';
import { describe } from '../operation/describe';
import { type Message, type OperationType, offeredVersion, versions } from '../operation/message';
import { deadlineAt } from '../operation/message-fields';
import type { OperationId } from '../operation/operation';
import { cardNumberIn } from './card-number';
import type { Problem } from './problem';

/** What a body that names no version is: callers of before there were versions go on. */
const defaultVersion = 1;

/** What a PUT's body may be, by the versions that are offered: the message's input, its version and the deadline. */
export const bodySchemas = (type: OperationType) =>
  Object.entries(versions)
    .filter(([version]) => Number(version) <= offeredVersion)
    .map(([name, { inputs }]) => {
      const literal = z.literal(Number(name));
      const version = Number(name) === defaultVersion ? z.optional(literal) : literal;
      return [name, z.safeExtend(inputs[type], { version, deadlineAt })] as const;
    });

/**
 * The message that a PUT asks for. The size limit, in bytes, comes before everything else; nothing of a body that
 * holds a card number is shown.
 */
export function readBody(
  event: APIGatewayProxyEventV2,
  type: OperationType,
  id: OperationId,
  maxBytes: number,
): Message | Problem {
  const bytes = Buffer.byteLength(event.body ?? '', event.isBase64Encoded ? 'base64' : 'utf8');
  if (bytes > maxBytes) {
    return {
      problem: 'body-too-large',
      detail: `The body has ${bytes} bytes; at most ${maxBytes} are allowed.`,
    };
  }
  const headers = headerProblem(event);
  if (headers) return headers;
  const json = parseJson(event);
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    const got = bytes === 0 ? 'missing' : json === undefined ? 'not JSON in UTF-8' : describe(json);
    if (cardNumberIn(json) !== undefined) return cardProblem('');
    return { problem: 'invalid-body', detail: `The body is ${got}; it must be a JSON object.` };
  }
  const field = cardNumberIn(json);
  return field === undefined ? messageFrom(json, type, id) : cardProblem(field);
}

function headerProblem({ headers }: APIGatewayProxyEventV2): Problem | undefined {
  const { 'content-type': contentType, 'content-encoding': encoding } = headers;
  const isJson = /^application\/(?:[\w.+-]+\+)?json\s*(?:;\s*charset="?utf-8"?\s*)?$/i;
  if (contentType !== undefined && !isJson.test(contentType.trim())) {
    return unsupported(`Content-Type is ${describe(contentType)}; it must be application/json, in UTF-8.`);
  }
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    return unsupported(`Content-Encoding is ${describe(encoding)}; the body must not be compressed.`);
  }
  return undefined;
}

const unsupported = (detail: string): Problem => ({ problem: 'unsupported-media-type', detail });

const cardProblem = (field: string): Problem => ({
  problem: 'card-number',
  detail: `${field || 'The body'} holds what looks like a card number (not shown). Send the id of a Stripe payment method; card numbers must not come here.`,
});

/** @returns undefined when it is not JSON, or not UTF-8 */
function parseJson({ body = '', isBase64Encoded }: APIGatewayProxyEventV2): unknown {
  try {
    const text = isBase64Encoded
      ? new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(body, 'base64'))
      : body;
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A body is read as the message that it stands for, so that both say the same. */
function messageFrom(json: object, type: OperationType, id: OperationId): Message | Problem {
  const { version = defaultVersion, deadlineAt, ...input }: Record<string, unknown> = { ...json };
  const isOffered = typeof version === 'number' && version <= offeredVersion;
  const known = isOffered ? versions[version] : undefined;
  if (!known) {
    const detail = `is ${describe(version)}; it must be a whole number from 1 to ${offeredVersion}`;
    return invalid([{ field: 'version', detail }]);
  }
  const deadline = deadlineAt === undefined ? {} : { deadlineAt };
  const read = known.read({ version, ...id, type, input, ...deadline });
  if (!('issues' in read)) return read;
  const fields = [...Object.keys(known.inputs[type].shape), 'version', 'deadlineAt'];
  const rule = `is no field of a ${type} of version ${version}; its fields are ${fields.join(', ')}`;
  return invalid(read.issues.flatMap((issue) => errorsOf(issue, rule)));
}

interface FieldError {
  readonly field: string;
  readonly detail: string;
}

/** How many wrong fields an answer names. */
const maxErrors = 10;

function invalid(all: readonly FieldError[]): Problem {
  const more = all.length > maxErrors ? `; and ${all.length - maxErrors} more` : '';
  const errors = all.slice(0, maxErrors);
  return {
    problem: 'invalid-body',
    detail: `${errors.map(({ field, detail }) => `${field} ${detail}`).join('; ')}${more}.`,
    members: { errors },
  };
}

/** The fields that are wrong, each with what was got and what is allowed. */
function errorsOf(issue: z.core.$ZodIssue, unknownField: string): FieldError[] {
  // In a body the fields of the input stand at the top.
  const [first, ...rest] = issue.path;
  const field = (first === 'input' ? rest : issue.path).join('.');
  if (issue.code !== 'unrecognized_keys') return [{ field, detail: issue.message }];
  return issue.keys.map((key) => ({ field: describe(key), detail: unknownField }));
}
