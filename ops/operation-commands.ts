import { type Command, Option } from 'commander';
import * as z from 'zod/mini';
import type { OperationId } from '../lambdas/operation/operation';
import { states } from '../lambdas/operation/state';
import { operationName, reference, tenantName, wholeNumber, words } from './arguments';
import { CalledWrongly } from './failure';
import {
  type Established,
  operationCancel,
  operationReconcile,
  operationRetry,
  operationSettle,
} from './operation-change';
import { operationList } from './operation-list';
import { operationShow } from './operation-show';
import type { Act } from './session';

const listOptions = z.object({
  tenant: z.optional(z.string()),
  state: z.optional(z.enum(states)),
  limit: z.number(),
});
const settleOptions = z.object({
  succeeded: z.optional(z.string()),
  absent: z.optional(z.boolean()),
  evidence: z.optional(z.string()),
});

/** Single operations: what they are, and what a person may do about them. */
export function operationCommands(program: Command, act: Act): void {
  const operation = program
    .command('operation')
    .description('operations: their records, and a way on for each');

  operation
    .command('list')
    .description('lists the operations that no message will bring back by itself')
    .option('--tenant <id>', 'of one tenant, with those that hold one of its places', tenantName)
    .addOption(new Option('--state <state>', 'of one state').choices(states))
    .option('--limit <n>', 'the most to show, 1 to 10000', wholeNumber(1, 10_000), 200)
    .addHelpText(
      'after',
      `
These are deferred in the table, accepted and not yet taken, settling, or parked: with a possible effect, or where
perhaps no dead letter tells of it. What has ended, and what a message will bring back, is not among them: show it
by its id. MONEY: whether money moved or may have.`,
    )
    .action((_: unknown, command: Command) => {
      const options = listOptions.parse(command.opts());
      return act((session) => operationList(session, options));
    });

  named(operation, 'show')
    .description('shows the record of an operation, and what may be done next')
    .action((id: OperationId) => act((session) => operationShow(session, id)));

  named(operation, 'reconcile')
    .description('asks Stripe what became of an operation, and settles it if that is known')
    .action((id: OperationId) => act((session) => operationReconcile(session, id)));

  named(operation, 'retry')
    .description('lets a parked operation be tried again, where that is safe; asks first')
    .action((id: OperationId) => act((session) => operationRetry(session, id)));

  named(operation, 'settle')
    .description('records what a person has found out about an operation; asks first')
    .option(
      '--succeeded <reference>',
      'it happened: its PaymentIntent (pi_...) or Refund (re_...)',
      reference,
    )
    .option('--absent', 'it never happened; needs --evidence')
    .option('--evidence <text>', 'how that is known, 10 to 120 characters', words(10, 120))
    .addHelpText(
      'after',
      `
With --absent the operation may be tried again under a new key. If it did happen after all, that moves money a second
time: look in Stripe's dashboard for the metadata tenantId and operationId first, and say in --evidence what you saw.
Who settled it, and why, is kept in the record.`,
    )
    .action((id: OperationId, _: unknown, command: Command) => {
      const established = establishedFrom(settleOptions.parse(command.opts()));
      return act((session) => operationSettle(session, id, established));
    });

  named(operation, 'cancel')
    .description('cancels an operation, if no effect happened and none can; asks first')
    .action((id: OperationId) => act((session) => operationCancel(session, id)));
}

const named = (parent: Command, name: string): Command =>
  parent.command(name).argument('<tenant/operation>', 'the operation, such as North/O7', operationName);

function establishedFrom({ succeeded, absent, evidence }: z.infer<typeof settleOptions>): Established {
  if (succeeded !== undefined && absent === undefined) return { succeeded, ...(evidence && { evidence }) };
  if (absent === undefined || succeeded !== undefined)
    throw new CalledWrongly('say what you found: either --succeeded REFERENCE or --absent --evidence TEXT');
  if (evidence === undefined)
    throw new CalledWrongly('--absent needs --evidence TEXT: how you know that it never happened');
  return { absent: true, evidence };
}
