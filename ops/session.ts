import type { Io, Report } from './io';
import type { Target } from './target';

/** What a command works with once it is known to be called rightly. */
export interface Session {
  readonly io: Io;
  readonly target: Target;
  /** Who is recorded as having done it. 1 to 64 characters. */
  readonly by: string;
  /** The person said yes beforehand. */
  readonly isYes: boolean;
}

/** A command of this program, as it is to be typed for the same target. */
export const opsCommand = ({ options }: Target, command: string): string =>
  `npm run ops -- ${command}${options === '' ? '' : ` ${options}`}`;

/** Does a command's work with the target that the person named, and reports it. */
export type Act = (work: (session: Session) => Promise<Report>) => Promise<void>;
