import { Command, CommanderError } from 'commander';
import * as z from 'zod/mini';
import { words } from './arguments';
import { dlqCommands } from './dlq-commands';
import { CalledWrongly, explain } from './failure';
import type { Io } from './io';
import { operationCommands } from './operation-commands';
import { serviceCommands } from './service-commands';
import type { Act } from './session';
import { findTarget, type Target } from './target';

const globalOptions = z.object({
  stack: z.optional(z.string()),
  region: z.optional(z.string()),
  by: z.optional(z.string()),
  json: z.optional(z.boolean()),
  yes: z.optional(z.boolean()),
});

/**
 * Runs one command of the operator.
 * @param args what was typed after `npm run ops --`
 * @returns the exit code: 0 done, 1 something failed or was refused, 2 called wrongly
 */
export async function runOps(args: readonly string[], io: Io): Promise<number> {
  let exitCode = 0;
  const program = programFor(io, async (work) => {
    const { json: isJson = false, by, yes: isYes = false, ...where } = globalOptions.parse(program.opts());
    if (where.region !== undefined && where.stack === undefined)
      throw new CalledWrongly('--region is for a deployed stack: name it with --stack NAME');
    let target: Target | undefined;
    try {
      target = await findTarget(where, io.projectRoot);
      const session = { io, target, by: by ?? (io.userName.slice(0, 64) || 'unknown'), isYes };
      const { ok, text, document } = await work(session);
      io.out(isJson ? JSON.stringify(document, undefined, 2) : text);
      if (!ok) exitCode = 1;
    } catch (error) {
      exitCode = 1;
      const said = explain(error);
      if (isJson) io.out(JSON.stringify({ done: false, said }, undefined, 2));
      else io.err(said);
    } finally {
      target?.close();
    }
  });
  try {
    await program.parseAsync([...args], { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (!(error instanceof CalledWrongly)) throw error;
    io.err(`error: ${error.message}`);
    return 2;
  }
}

function programFor(io: Io, act: Act): Command {
  const program = new Command('npm run ops --')
    .description(
      'Looks after the operations of charge-once: on a laptop (`npm start`), or of a deployed stack.',
    )
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.out(text.trimEnd()),
      writeErr: (text) => io.err(text.trimEnd()),
    })
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError('(--help says how)')
    .option(
      '--stack <name>',
      'a deployed stack, such as charge-once-dev; without it the laptop stack',
      words(1, 128),
    )
    .option(
      '--region <region>',
      'with --stack: its AWS region; without it that of the environment or profile',
    )
    .option('--json', 'one JSON document on stdout instead of text')
    .option('--yes', 'says yes beforehand to what a command would ask')
    .option('--by <name>', 'who does it, for the record; without it the name of the OS user', words(1, 64))
    .addHelpText('afterAll', exitCodes);
  dlqCommands(program, act);
  operationCommands(program, act);
  serviceCommands(program, act);
  return program;
}

const exitCodes = `
Exit codes: 0 done; 1 something failed or was refused; 2 called wrongly.
With --json run it as \`npm run -s ops -- ...\`, so that npm adds no lines of its own.`;
