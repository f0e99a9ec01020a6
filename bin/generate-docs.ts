import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { bodySchemas } from '../lambdas/http/body';
import { type ProblemType, problemTypes, problemUrn } from '../lambdas/http/problem';
import { type Route, routes } from '../lambdas/http/routes';
import { viewSchema } from '../lambdas/http/view';
import { limitsFrom } from '../lambdas/operation/limits';
import { type OperationType, versions } from '../lambdas/operation/message';
import { idPattern } from '../lambdas/operation/message-fields';

/** The documents that are made from the schemas the handlers parse with, by file name in `docs/`. */
export const documents = (): Readonly<Record<string, object>> => ({
  'openapi.json': openApi(),
  'message.schema.json': messageJsonSchema(),
});

function messageJsonSchema(): object {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'A job of charge-once: the body of an SQS message',
    description:
      'Unknown fields are refused in input and ignored elsewhere. Also refused: an amount that is not a multiple of what the currency needs, and ids that look like card numbers. Send the tenant as MessageGroupId, and the attributes tenantId and type.',
    oneOf: Object.entries(versions).map(([version, { schema }]) => ({
      title: `Version ${version}`,
      ...schemaOf(schema),
    })),
  };
}

function openApi(): object {
  return {
    openapi: '3.1.0',
    info: { title: 'charge-once', version: '1', description: about },
    security: [{ iam: [] }, { jwt: [] }],
    paths: Object.fromEntries(routeNames.map((route) => [routes[route].path, pathOf(route)])),
    components: {
      schemas: {
        Id: {
          type: 'string',
          pattern: idPattern.source,
          description: 'Percent-encode only ":". Never a card number.',
        },
        Charge: bodyOfType('charge'),
        Refund: bodyOfType('refund'),
        Operation: schemaOf(viewSchema),
        AcceptedOperation: {
          allOf: [
            { $ref: '#/components/schemas/Operation' },
            {
              type: 'object',
              properties: {
                replay: { type: 'boolean', description: 'Whether an earlier request took it on.' },
              },
              required: ['replay'],
            },
          ],
        },
        Problem: problemSchema,
      },
      securitySchemes: {
        iam: {
          type: 'apiKey',
          name: 'Authorization',
          in: 'header',
          'x-amazon-apigateway-authtype': 'awsSigv4',
          description: "AWS Signature Version 4, service execute-api. The caller's policy names the paths.",
        },
        jwt: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'JWT',
          description:
            'Only where the deployment sets it up. One claim of the token must equal tenantId of the path.',
        },
      },
    },
  };
}

const about = `Takes charges and refunds on, each under the caller's own id, and makes each at most once. Every request may be repeated. Amounts are in the currency's smallest unit, times in ISO 8601 UTC. An invoice is not an identity: two operations that pay the same invoice are two charges. Problems are RFC 9457 documents, described in problems.md; API Gateway itself answers a request that is not signed, has no route or comes too often with {"message": ...}.`;

const schemaOf = (schema: z.core.$ZodType): object => {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return rest;
};

const bodyOfType = (type: OperationType): object => ({
  oneOf: bodySchemas(type).map(([version, schema]) => ({ title: `Version ${version}`, ...schemaOf(schema) })),
});

const routeNames: readonly Route[] = ['charge', 'refund', 'getOperation', 'cancel'];

const everywhere: readonly ProblemType[] = ['invalid-id', 'card-number', 'tenant-forbidden', 'unavailable'];
const accepting: readonly ProblemType[] = [
  ...everywhere,
  'invalid-body',
  'inputs-conflict',
  'body-too-large',
  'unsupported-media-type',
  'tenant-places-used',
  'tenant-daily-calls-used',
  'service-full',
  'service-paused',
];

/** What each route may answer with. */
const problemsOf: Readonly<Record<Route, readonly ProblemType[]>> = {
  charge: accepting,
  refund: [...accepting, 'charge-not-final', 'charge-not-succeeded', 'refund-exceeds-charge'],
  getOperation: [...everywhere, 'operation-not-found'],
  cancel: [...everywhere, 'operation-not-found', 'cancel-refused'],
};

const summaries: Readonly<Record<Route, string>> = {
  charge: 'Take a charge on',
  refund: 'Take a refund on, of a charge that has succeeded or of a part of it',
  getOperation: 'Ask how an operation stands',
  cancel: 'Cancel an operation that has no effect and can have none',
};

function pathOf(route: Route): object {
  const parameter = (name: string) => ({
    name,
    in: 'path',
    required: true,
    schema: { $ref: '#/components/schemas/Id' },
  });
  const operation = {
    operationId: route,
    summary: summaries[route],
    ...bodyOf(route),
    responses: { ...successesOf(route), ...problemResponses(problemsOf[route]) },
  };
  return {
    parameters: [parameter('tenantId'), parameter('operationId')],
    [routes[route].method.toLowerCase()]: operation,
  };
}

function bodyOf(route: Route): object {
  if (route !== 'charge' && route !== 'refund') return {};
  const schema = { $ref: `#/components/schemas/${route === 'charge' ? 'Charge' : 'Refund'}` };
  const description = `At most ${limitsFrom().maxMessageBytes} bytes (a setting).`;
  return { requestBody: { required: true, description, content: { 'application/json': { schema } } } };
}

function successesOf(route: Route): object {
  const answer = (description: string, schema: string, headers: object) => ({
    description,
    headers,
    content: { 'application/json': { schema: { $ref: `#/components/schemas/${schema}` } } },
  });
  const location = { Location: { description: 'Where to ask.', schema: { type: 'string' } } };
  switch (route) {
    case 'charge':
    case 'refund':
      return {
        200: answer(
          'Known already, with the same inputs: replay is true, and the state is as of now.',
          'AcceptedOperation',
          { ...location, ...retryAfter },
        ),
        202: answer('Taken on: durable, and on the queue.', 'AcceptedOperation', {
          ...location,
          ...retryAfter,
        }),
      };
    case 'getOperation':
      return { 200: answer('The operation as it is.', 'Operation', retryAfter) };
    case 'cancel':
      return {
        200: answer('It is cancelled: no effect happened and none will.', 'Operation', {}),
      };
  }
}

const retryAfter = { 'Retry-After': { description: 'In seconds.', schema: { type: 'integer' } } };

function problemResponses(types: readonly ProblemType[]): object {
  const byStatus = Map.groupBy(types, (type) => problemTypes[type].status);
  return Object.fromEntries([...byStatus].map(([status, those]) => [status, problemResponse(status, those)]));
}

function problemResponse(status: number, types: readonly ProblemType[]): object {
  return {
    description: types.map((type) => `${problemTypes[type].title} (\`${type}\`).`).join(' '),
    ...([409, 429, 503].includes(status) ? { headers: retryAfter } : {}),
    content: {
      'application/problem+json': {
        schema: {
          allOf: [
            { $ref: '#/components/schemas/Problem' },
            { type: 'object', properties: { type: { enum: types.map(problemUrn) } } },
          ],
        },
      },
    },
  };
}

const problemSchema = {
  type: 'object',
  description: 'https://www.rfc-editor.org/rfc/rfc9457. Each type has a section in problems.md.',
  properties: {
    type: { type: 'string', description: 'Stable, made to be compared.' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string', description: 'What was got and what is allowed, for people.' },
    instance: {
      type: 'string',
      description: "urn:charge-once:request: and the request's id, as in the logs.",
    },
    errors: {
      type: 'array',
      description: 'Of invalid-body: what is wrong with each field.',
      items: {
        type: 'object',
        properties: { field: { type: 'string' }, detail: { type: 'string' } },
        required: ['field', 'detail'],
      },
    },
    operation: {
      description: 'Of inputs-conflict and cancel-refused: the operation as it is.',
      $ref: '#/components/schemas/Operation',
    },
    code: { type: 'string', description: 'Why a charge cannot be refunded.' },
  },
  required: ['type', 'title', 'status', 'detail', 'instance'],
};

if (require.main === module) {
  for (const [name, document] of Object.entries(documents())) {
    writeFileSync(join(__dirname, '..', 'docs', name), `${JSON.stringify(document, undefined, 2)}\n`);
  }
}
