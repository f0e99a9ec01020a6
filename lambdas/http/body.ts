import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import * as z from 'zod/mini';
import { describe } from '../operation/describe';
import { inputSchemas, type Message, messageSchema } from '../operation/message';
import type { OperationId } from '../operation/operation';
import { cardNumberIn } from './card-number';
import type { Problem } from './problem';

const [{ shape }] = messageSchema.def.options;
const { deadlineAt } = shape;

/** The body of a PUT: the message's input, and the deadline beside it. */
export const bodySchemas = {
  charge: z.safeExtend(inputSchemas.charge, { deadlineAt }),
  refund: z.safeExtend(inputSchemas.refund, { deadlineAt }),
} as const;

/**
 * The message that a PUT asks for. The size limit, in bytes, comes before everything else; nothing of a body that
 * holds a card number is shown.
 */
export function readBody(
  event: APIGatewayProxyEventV2,
  type: Message['type'],
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

function messageFrom(json: object, type: Message['type'], id: OperationId): Message | Problem {
  switch (type) {
    case 'charge': {
      const parsed = bodySchemas.charge.safeParse(json);
      if (!parsed.success) return invalid(type, parsed.error.issues);
      const { deadlineAt, ...input } = parsed.data;
      return { version: 1, ...id, type, input, ...(deadlineAt === undefined ? {} : { deadlineAt }) };
    }
    case 'refund': {
      const parsed = bodySchemas.refund.safeParse(json);
      if (!parsed.success) return invalid(type, parsed.error.issues);
      const { deadlineAt, ...input } = parsed.data;
      return { version: 1, ...id, type, input, ...(deadlineAt === undefined ? {} : { deadlineAt }) };
    }
  }
}

/** How many wrong fields an answer names. */
const maxErrors = 10;

function invalid(type: Message['type'], issues: readonly z.core.$ZodIssue[]): Problem {
  const all = issues.flatMap((issue) => errorsOf(type, issue));
  const more = all.length > maxErrors ? `; and ${all.length - maxErrors} more` : '';
  const errors = all.slice(0, maxErrors);
  return {
    problem: 'invalid-body',
    detail: `${errors.map(({ field, detail }) => `${field} ${detail}`).join('; ')}${more}.`,
    members: { errors },
  };
}

/** The fields that are wrong, each with what was got and what is allowed. */
function errorsOf(type: Message['type'], issue: z.core.$ZodIssue): { field: string; detail: string }[] {
  if (issue.code !== 'unrecognized_keys') return [{ field: issue.path.join('.'), detail: issue.message }];
  const fields = Object.keys(bodySchemas[type].shape).join(', ');
  const detail = `is no field of a ${type}; its fields are ${fields}`;
  return issue.keys.map((key) => ({ field: describe(key), detail }));
}
