import { readTenant, tenantPartition } from '../lambdas/adapters/tenant-item';
import { dayOf, lapsedSlots, maxAcceptedOf, maxRunningOf } from '../lambdas/operation/tenant';
import { Failure } from './failure';
import type { Report } from './io';
import type { Session } from './session';
import { duration, fields, iso, moment, table } from './text';

/** `tenant show` @throws Failure when there is no record of the tenant */
export async function tenantShow({ target }: Session, tenantId: string): Promise<Report> {
  const [item] = await target.table.read([tenantPartition(tenantId)]);
  if (!item)
    throw new Failure(`There is no record of tenant ${tenantId} in ${target.name}: it has nothing in hand.`);
  const tenant = readTenant(item);
  if (!tenant)
    throw new Failure(`The record of tenant ${tenantId} was written by a newer build than this one.`);
  const { limits } = target;
  const nowMs = target.now();
  const lapsed = lapsedSlots(tenant, nowMs);
  const running = Object.entries(tenant.running).map(([operationId, { leaseExpiresAtMs }]) => ({
    operationId,
    leaseExpiresAt: iso(leaseExpiresAtMs),
    hasLapsed: lapsed.includes(operationId),
  }));
  const accepted = Object.entries(tenant.accepted).map(([operationId, acceptedAtMs]) => ({
    operationId,
    acceptedAt: iso(acceptedAtMs),
    ageSeconds: Math.max(0, Math.round((nowMs - acceptedAtMs) / 1000)),
  }));
  const maxRunning = maxRunningOf(tenant, limits);
  const isBounded = Number.isFinite(maxRunning);
  const maxAccepted = maxAcceptedOf(tenant, limits);
  const callsToday = tenant.calls[dayOf(nowMs)] ?? 0;
  const own = (limit: number | undefined) => (limit === undefined ? '' : ', its own limit');
  const text = [
    fields([
      ['tenant', tenantId],
      [
        'calls in flight',
        isBounded
          ? `${running.length - lapsed.length} of ${maxRunning}${own(tenant.maxRunning)}`
          : `${running.length - lapsed.length}, without a limit`,
      ],
      [
        'accepted and not ended',
        isBounded
          ? `${accepted.length} of ${maxAccepted}${own(tenant.maxAccepted)}`
          : `${accepted.length}, without a limit`,
      ],
      [
        'calls today (UTC)',
        limits.tenantDailyCalls === undefined ? undefined : `${callsToday} of ${limits.tenantDailyCalls}`,
      ],
    ]),
    ...(running.length > 0
      ? [
          `\n${table(
            ['RUNNING', 'LEASE ENDS'],
            Object.entries(tenant.running).map(([operationId, { leaseExpiresAtMs }]) => [
              operationId,
              moment(leaseExpiresAtMs, nowMs) ?? '',
            ]),
          )}`,
        ]
      : []),
    ...(accepted.length > 0
      ? [
          `\n${table(
            ['ACCEPTED', 'FOR'],
            accepted.map(({ operationId, ageSeconds }) => [operationId, duration(ageSeconds * 1000)]),
          )}`,
        ]
      : []),
  ].join('\n');
  return {
    ok: true,
    text,
    document: {
      target: target.name,
      tenantId,
      running,
      accepted,
      ...(isBounded ? { maxRunning, maxAccepted } : {}),
      callsToday,
    },
  };
}
