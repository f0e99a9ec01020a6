import { visible } from './text';

/** The most characters of a body that nobody could read which are shown. */
const maxCharacters = 200;

/**
 * The beginning of a body as it may be shown: every twelve or more digits that no letter parts are hidden, whatever
 * script they are of and also where JSON escapes them, because they may be a card's number.
 */
export function safeBody(body: string): string {
  const plain = body
    .replace(/\\u003([0-9])/g, '$1')
    .normalize('NFKC')
    .replace(/\p{Cf}/gu, '');
  const hidden = plain.replace(/\p{Nd}(?:[^\p{L}\p{Nd}]*\p{Nd}){11,}/gu, '(digits not shown)');
  const characters = [...visible(hidden.replace(/\s+/g, ' '))];
  if (characters.length <= maxCharacters) return characters.join('');
  return `${characters.slice(0, maxCharacters).join('')}... (${Buffer.byteLength(body)} bytes)`;
}
