import * as z from 'zod/mini';
import { nameOf } from '../lambdas/operation/operation';
import { Failure } from './failure';
import { invoke } from './functions';
import type { Report } from './io';
import type { Session } from './session';
import { counted, table } from './text';

const discrepancy = z.object({
  tenantId: z.string(),
  operationId: z.string(),
  providerRef: z.string(),
  kind: z.enum(['unknown', 'adopted', 'open', 'contradicted']),
});
type Discrepancy = z.infer<typeof discrepancy>;

const page = z.object({
  read: z.number(),
  agreed: z.number(),
  discrepancies: z.array(discrepancy),
  after: z.optional(z.string()),
});

/** Pages of 100 that one command reads at most, of charges and of refunds each. */
const maxPages = 1000;

/** `provider audit`: what moved money at Stripe since a time, against the records. Exit code 1 while they do not agree. */
export async function providerAudit(session: Session, sinceMs: number, adopts: boolean): Promise<Report> {
  const charges = await auditOf(session, { type: 'charge', sinceMs, adopts });
  const refunds = await auditOf(session, { type: 'refund', sinceMs, adopts });
  const found = [...charges.found, ...refunds.found];
  const left = found.filter(({ kind }) => kind !== 'adopted');
  const agreed = charges.agreed + refunds.agreed;
  const read = charges.read + refunds.read;
  const lines = found.map((each) => [nameOf(each), each.providerRef, each.kind, meanings[each.kind]]);
  return {
    ok: left.length === 0,
    text: [
      `${counted(read, 'payment or refund', 'payments and refunds')} read at Stripe; ${agreed} of this service agree with their records, ${left.length} do not, ${found.length - left.length} were given a record.`,
      ...(lines.length > 0 ? ['', table(['OPERATION', 'AT STRIPE', 'KIND', 'MEANING'], lines)] : []),
    ].join('\n'),
    document: { target: session.target.name, read, agreed, discrepancies: found, left: left.length },
  };
}

const meanings: Readonly<Record<Discrepancy['kind'], string>> = {
  unknown: 'it has no record: --adopt gives it one, where Stripe tells all of its inputs',
  adopted: 'it had no record, and has one now',
  open: 'its record has not ended: operation reconcile',
  contradicted: 'its record says something else: look at both',
};

async function auditOf(
  { target, by }: Session,
  request: { readonly type: 'charge' | 'refund'; readonly sinceMs: number; readonly adopts: boolean },
) {
  const found: Discrepancy[] = [];
  let [read, agreed] = [0, 0];
  let after: string | undefined;
  for (let pages = 0; pages < maxPages; pages++) {
    const asked = { action: 'audit', by, ...request, ...(after === undefined ? {} : { after }) };
    const answer = await invoke(target, 'operate', asked);
    const parsed = page.safeParse(answer.audit);
    if (!answer.done || !parsed.success) throw new Failure(answer.said);
    read += parsed.data.read;
    agreed += parsed.data.agreed;
    found.push(...parsed.data.discrepancies);
    after = parsed.data.after;
    if (after === undefined) return { read, agreed, found };
  }
  throw new Failure(
    `There are more than ${maxPages * 100} ${request.type}s since then: choose a later --since.`,
  );
}
