import { invoke } from './functions';
import type { Report } from './io';
import { reportOf } from './operation-change';
import type { Session } from './session';

/** `provider pause` */
export const providerPause = (session: Session, reason: string): Promise<Report> =>
  change(session, { action: 'pause', by: session.by, reason });

/** `provider resume` */
export const providerResume = (session: Session): Promise<Report> =>
  change(session, { action: 'resume', by: session.by });

/** `provider check` */
export const providerCheck = (session: Session): Promise<Report> => change(session, { action: 'check' });

async function change(session: Session, request: object): Promise<Report> {
  return reportOf(await invoke(session.target, 'operate', request), session);
}
