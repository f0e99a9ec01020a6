import * as z from 'zod/mini';
import { type OperationType, offeredVersion, oldestForm, versions } from '../lambdas/operation/message';
import type { HeldMessage } from './dead-letter-queue';
import type { Target } from './target';
import type { Verdict } from './verdict';

/** A job in place of one that can never run: its command, and what the person has to fill in first. */
export interface CorrectedJob {
  /** The new id: what is corrected is another operation. */
  readonly operationId: string;
  readonly command: string;
  /** Fields that the body did not give, or gave wrongly; `<name>` in the command. */
  readonly toFillIn: readonly string[];
  readonly warning: string | undefined;
}

interface Draft {
  readonly version: number;
  readonly type: OperationType;
  readonly tenantId: string;
  readonly operationId: string;
  readonly input: object;
}

/**
 * The command that enqueues a corrected job under a new id; undefined where that is not the remedy: what may have moved
 * money is reconciled, and what can still run is redriven.
 */
export function correctedJob(
  message: HeldMessage,
  verdict: Verdict,
  target: Target,
): CorrectedJob | undefined {
  const { kind, operation } = verdict;
  const isWithoutEffect = operation?.state === 'failed' || operation?.state === 'cancelled';
  const isRemedy =
    kind === 'MALFORMED' ||
    kind === 'INPUT_CONFLICT' ||
    kind === 'DIRECT_REFUND' ||
    (kind === 'ENDED' && isWithoutEffect);
  if (!isRemedy) return undefined;
  const { draft, toFillIn } = draftOf(message.body, verdict);
  const isRefundByApi = draft.type === 'refund' && !target.limits.allowDirectRefunds;
  return {
    operationId: draft.operationId,
    command: isRefundByApi ? throughApi(draft, target) : toQueue(draft, target),
    toFillIn,
    warning:
      operation && !isWithoutEffect
        ? `Operation ${operation.operationId} stays as it is, with all that it moved or may move: a job under a new id moves money of its own.`
        : undefined,
  };
}

/** The job as far as the body gives it; a place to fill in for each field that is missing or wrong. */
function draftOf(body: string, { parsed, id }: Verdict): { draft: Draft; toFillIn: string[] } {
  if (parsed.kind === 'message') {
    const { tenantId, operationId } = parsed.message;
    // As it is sent again everywhere: in the oldest version that can say it.
    return {
      draft: { tenantId, operationId: newId(operationId), ...oldestForm(parsed.message) },
      toFillIn: [],
    };
  }
  const toFillIn: string[] = [];
  const place = (name: string) => {
    toFillIn.push(name);
    return `<${name}>`;
  };
  const given = objectIn(body);
  const type = given.type === 'refund' ? 'refund' : 'charge';
  const tenantId = parsed.ids.tenantId ?? place('tenantId');
  const operationId = id ? newId(id.operationId) : place('operationId');
  const input = objectFrom(given.input);
  const version =
    typeof given.version === 'number' && versions[given.version] ? given.version : offeredVersion;
  const wanted = Object.entries(versions[version]?.inputs[type].shape ?? {}).map(([name, schema]) => {
    const value = z.safeParse(schema, input[name]);
    return [name, value.success ? value.data : place(name)] as const;
  });
  return { draft: { version, type, tenantId, operationId, input: Object.fromEntries(wanted) }, toFillIn };
}

/** Within the 64 characters of an id. */
const newId = (operationId: string): string => `${operationId.slice(0, 54)}-corrected`;

function toQueue({ version, type, tenantId, operationId, input }: Draft, target: Target): string {
  const text = (value: string) => ({ DataType: 'String', StringValue: value });
  const attributes = { tenantId: text(tenantId), type: text(type) };
  const laptop =
    target.sqsEndpoint === undefined ? '' : 'AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local ';
  const endpoint = target.sqsEndpoint === undefined ? '' : ` --endpoint-url ${target.sqsEndpoint}`;
  const body = { version, tenantId, operationId, type, input };
  return [
    `${laptop}aws sqs send-message --region ${target.region}${endpoint}`,
    `--queue-url ${target.queueUrl}`,
    `--message-group-id ${quoted(tenantId)}`,
    `--message-attributes ${quoted(JSON.stringify(attributes))}`,
    `--message-body ${quoted(JSON.stringify(body))}`,
  ].join(' \\\n  ');
}

function throughApi(
  { tenantId, operationId, input }: Draft,
  { apiUrl, region, sqsEndpoint }: Target,
): string {
  const signing =
    sqsEndpoint === undefined
      ? [
          `--aws-sigv4 "aws:amz:${region}:execute-api"`,
          '--user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"',
          '-H "x-amz-security-token: $AWS_SESSION_TOKEN"',
        ]
      : [];
  return [
    `curl -i -X PUT ${quoted(`${apiUrl ?? '<apiUrl>'}/tenants/${tenantId}/refunds/${operationId}`)}`,
    ...signing,
    "-H 'content-type: application/json'",
    `-d ${quoted(JSON.stringify(input))}`,
  ].join(' \\\n  ');
}

/** For a POSIX shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function objectIn(body: string): Readonly<Record<string, unknown>> {
  try {
    return objectFrom(JSON.parse(body));
  } catch {
    return {};
  }
}

function objectFrom(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
