import type { Command } from 'commander';
import * as z from 'zod/mini';
import { tenantName, utcTime, words } from './arguments';
import { providerAudit } from './provider-audit';
import { providerCheck, providerPause, providerResume } from './provider-change';
import { providerShow } from './provider-show';
import type { Act } from './session';
import { tenantShow } from './tenant-show';

const auditOptions = z.object({ since: z.number(), adopt: z.optional(z.boolean()) });
const pauseOptions = z.object({ reason: z.string() });

/** What operations share: their tenant's places, and the way to Stripe. */
export function serviceCommands(program: Command, act: Act): void {
  program
    .command('tenant')
    .description('tenants: what each has in hand')
    .command('show')
    .argument('<tenant>', 'the id of the tenant', tenantName)
    .description('shows the places that a tenant has taken, and its limits')
    .action((tenantId: string) => act((session) => tenantShow(session, tenantId)));

  const provider = program.command('provider').description('the way to Stripe, for all tenants');
  provider
    .command('show')
    .description('shows whether calls are made, how they went lately, and how many retries are left')
    .action(() => act(providerShow));
  provider
    .command('pause')
    .description('makes no more calls of Stripe until it is resumed; what runs ends, the rest waits')
    .requiredOption(
      '--reason <text>',
      'why, for those who find it paused, 3 to 200 characters',
      words(3, 200),
    )
    .action((_: unknown, command: Command) => {
      const { reason } = pauseOptions.parse(command.opts());
      return act((session) => providerPause(session, reason));
    });
  provider
    .command('resume')
    .description('lets calls be made again after a pause')
    .action(() => act(providerResume));
  provider
    .command('audit')
    .description('compares what moved money at Stripe with the records: after a restore some are missing')
    .requiredOption('--since <time>', 'ISO 8601 in UTC, such as 2030-01-31T12:00:00Z', utcTime)
    .option('--adopt', 'give what has no record one, succeeded, so that it is never charged again')
    .action((_: unknown, command: Command) => {
      const { since, adopt = false } = auditOptions.parse(command.opts());
      return act((session) => providerAudit(session, since, adopt));
    });
  provider
    .command('check')
    .description('checks that Stripe can be reached, takes the key, and allows what the service does')
    .action(() => act(providerCheck));
}
