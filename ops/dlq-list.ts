import { holdSeconds } from './dead-letter-queue';
import { type Look, lookAtAll } from './dlq-look';
import { byKind, kindsText, listOf, viewOfMessage } from './dlq-view';
import type { Report } from './io';
import type { Session } from './session';
import { counted } from './text';

/** `dlq list` */
export async function dlqList(session: Session, limit: number): Promise<Report> {
  const { target } = session;
  const look = await lookAtAll(session, limit);
  const nowMs = target.now();
  const { judged } = look;
  const total = `${counted(judged.length, 'message')} in the dead-letter queue of ${target.name}`;
  const text = [
    judged.length === 0 ? `${total}.` : `${total}: ${kindsText(judged)}.\n\n${listOf(judged, nowMs)}\n`,
    ...(judged.length === 0 ? [] : [legend]),
    ...remarksOn(look),
  ].join('\n');
  return {
    ok: true,
    text,
    document: {
      target: target.name,
      messages: judged.map((one) => viewOfMessage(one, nowMs)),
      count: judged.length,
      byKind: byKind(judged),
      isComplete: look.isComplete,
      hiddenBefore: look.hiddenBefore,
      stillHidden: look.stillHidden,
    },
  };
}

const legend = `MONEY: whether this job moved money or may have. REDRIVE: what becomes of the message if it is redriven now.
The look hid each of them for a moment and counted as one more receive; they are shown again.`;

/** What the look did not see, or left behind. */
export function remarksOn({ judged, isComplete, hiddenBefore, stillHidden }: Look): string[] {
  return [
    ...(isComplete ? [] : [`There may be more: only the first ${judged.length} were read (--limit).`]),
    ...(hiddenBefore > 0
      ? [`About ${hiddenBefore} more are hidden, because somebody else looks at them or just did.`]
      : []),
    ...(stillHidden > 0
      ? [`${stillHidden} could not be shown again: they stay hidden for up to ${holdSeconds} s.`]
      : []),
  ];
}
