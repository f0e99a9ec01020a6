import type { Command } from 'commander';
import * as z from 'zod/mini';
import { operationName, wholeNumber, words } from './arguments';
import { holdSeconds } from './dead-letter-queue';
import { dlqDiscard } from './dlq-discard';
import { dlqList } from './dlq-list';
import { choiceFrom } from './dlq-look';
import { redriveAll } from './dlq-redrive-all';
import { redriveChosen } from './dlq-redrive-chosen';
import { dlqShow } from './dlq-show';
import { CalledWrongly } from './failure';
import type { Act } from './session';

const id = z.object({ tenantId: z.string(), operationId: z.string() });
const choice = { operation: z.optional(id), messageId: z.optional(z.string()) };
const listOptions = z.object({ limit: z.number() });
const showOptions = z.object(choice);
const redriveOptions = z.object({
  ...choice,
  maxRate: z.optional(z.number()),
  dryRun: z.optional(z.boolean()),
});
const discardOptions = z.object({ ...choice, force: z.optional(z.boolean()) });

/** The dead-letter queue: what is in it and why, and back or away with it. */
export function dlqCommands(program: Command, act: Act): void {
  const dlq = program
    .command('dlq')
    .description('the dead-letter queue: messages that were given up, and why')
    .addHelpText('after', hiding);

  dlq
    .command('list')
    .description('lists its messages with what their records say, and what a redrive would do')
    .option('--limit <n>', 'the most messages to read, 1 to 10000', wholeNumber(1, 10_000), 1000)
    .addHelpText('after', `\n${kinds}\n${hiding}`)
    .action((_: unknown, command: Command) => {
      const { limit } = listOptions.parse(command.opts());
      return act((session) => dlqList(session, limit));
    });

  choosable(dlq.command('show'))
    .description('shows a message, its record, what to do next, and where it helps a ready corrected job')
    .addHelpText('after', `\n${kinds}\n${hiding}`)
    .action((_: unknown, command: Command) => {
      const chosen = choiceFrom(showOptions.parse(command.opts()));
      return act((session) => dlqShow(session, chosen));
    });

  choosable(dlq.command('redrive'))
    .description('sends messages back to the queue: all of them, or those that are named')
    .option('--max-rate <n>', 'with all: messages a second, 1 to 500', wholeNumber(1, 500))
    .option('--dry-run', 'says what is there and what would become of it, and redrives nothing')
    .addHelpText(
      'after',
      `
All of them go by SQS's own move task, as from its console; it goes on when this program is ended. Named ones are sent
again and then deleted, one by one: after a crash in between a message is in both queues. Both are safe at any time: no
redrive moves money twice, and a message that would only be refused again is refused again, and comes back.
${hiding}`,
    )
    .action((_: unknown, command: Command) => {
      const { maxRate, dryRun: isDryRun = false, ...named } = redriveOptions.parse(command.opts());
      if (named.operation === undefined && named.messageId === undefined)
        return act((session) => redriveAll(session, { maxRate, isDryRun }));
      if (maxRate !== undefined)
        throw new CalledWrongly('--max-rate is for a redrive of all; named messages are sent one by one');
      const chosen = choiceFrom(named);
      return act((session) => redriveChosen(session, chosen, isDryRun));
    });

  choosable(dlq.command('discard'))
    .description('deletes one message for good, and records it on its operation; asks first')
    .option('--force', 'also where money may have moved and the operation has not ended')
    .addHelpText(
      'after',
      `
The operation's record stays, and says that its dead letter was discarded. Where money may have moved, reconcile or
settle the operation first: that is refused without --force.
${hiding}`,
    )
    .action((_: unknown, command: Command) => {
      const { force: isForced = false, ...named } = discardOptions.parse(command.opts());
      const chosen = choiceFrom(named);
      return act((session) => dlqDiscard(session, chosen, isForced));
    });
}

const choosable = (command: Command): Command =>
  command
    .option('--operation <tenant/id>', "the operation's messages", operationName)
    .option('--message-id <id>', 'the message of this id, as `dlq list` shows it', words(1, 100));

const kinds = `Kinds:
  NEVER_STARTED        no record, or no attempt: nothing was ever called, and a redrive is safe
  PARKED               we stopped trying; its state says why
  UNDER_WAY            its operation goes on without this message
  ENDED                its operation has ended; a redrive only acknowledges the message
  INPUT_CONFLICT       its id is bound to other inputs; it can only be sent under a new id
  MALFORMED            it cannot be read; it can only be sent anew, corrected
  UNSUPPORTED_VERSION  newer than this build; redrive it once a build that reads it is deployed
  DIRECT_REFUND        a refund that came past the API, where that is not allowed
  UNREADABLE_RECORD    its record, or that of its charge, is newer than this build
`;

const hiding = `
SQS shows a message only to who takes it: a look hides what it reads from redrives and from others for a moment (for
${holdSeconds} s, if this program dies meanwhile) and counts as one more receive.`;
