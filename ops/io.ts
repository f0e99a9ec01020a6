import { Failure } from './failure';

/** Everything of the terminal that a command uses. */
export interface Io {
  /** A line for stdout: what was asked for. */
  out(text: string): void;
  /** A line for stderr: what to know beside it. */
  err(text: string): void;
  /** Puts a question and returns the answer; undefined where nobody can be asked. */
  readonly ask?: (question: string) => Promise<string>;
  /** A bar on stderr where that is a terminal, and nothing elsewhere. */
  progress(title: string, total: number): Progress;
  /** Who is at the terminal, as the operating system says. */
  readonly userName: string;
  /** Where `npm start` leaves word of the laptop stack. */
  readonly projectRoot: string;
}

export interface Progress {
  update(done: number, total?: number): void;
  stop(): void;
}

/** What a command found or did. */
export interface Report {
  /** False makes the exit code 1. */
  readonly ok: boolean;
  /** For a person. */
  readonly text: string;
  /** For a program: the whole answer of `--json`. */
  readonly document: object;
}

/**
 * Goes on only when the person says yes, or has said so before with `--yes`.
 * @throws Failure when the answer is another, or when nobody can be asked
 */
export async function confirm(io: Io, isYes: boolean, question: string): Promise<void> {
  if (isYes) return;
  if (!io.ask)
    throw new Failure(
      `This asks before it acts, and here is no terminal to ask at: pass --yes to say yes beforehand. Nothing was done. The question was: ${question}`,
    );
  const answer = await io.ask(`${question} [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new Failure('Nothing was done.');
}
