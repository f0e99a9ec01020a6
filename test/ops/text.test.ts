import { duration, fields, moment, table } from '../../ops/text';

test.each([
  [-5, '0 s'],
  [400, '0 s'],
  [59_000, '59 s'],
  [60_000, '1 min'],
  [3_723_000, '1 h 2 min'],
  [3 * 86_400_000 + 4 * 3_600_000 + 59_000, '3 d 4 h'],
])('%i ms is %s', (ms, text) => {
  expect(duration(ms)).toBe(text);
});

test('a moment is a time in UTC and its distance from now', () => {
  expect(moment(60_000, 0)).toBe('1970-01-01T00:01:00Z (in 1 min)');
  expect(moment(0, 60_000)).toBe('1970-01-01T00:00:00Z (1 min ago)');
  expect(moment(undefined, 0)).toBeUndefined();
});

test('columns line up, and nothing in a cell moves the cursor', () => {
  expect(
    table(
      ['A', 'B'],
      [
        ['long one', 'x'],
        ['\u001b[31m', ''],
      ],
    ),
  ).toBe('A         B\nlong one  x\n·[31m');
});

test('what is not known has no line', () => {
  expect(
    fields([
      ['one', '1'],
      ['none', undefined],
      ['three', '3'],
    ]),
  ).toBe('one    1\nthree  3');
});
