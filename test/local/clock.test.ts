import { createClock } from '../../local/clock';

describe('the clock of a laptop stack', () => {
  test('runs with the real clock until it is moved, and ahead of it afterwards', async () => {
    const clock = createClock();
    expect(Math.abs(clock.now() - Date.now())).toBeLessThan(50);
    await clock.advance(23 * 3600_000);
    expect(Math.abs(clock.now() - Date.now() - 23 * 3600_000)).toBeLessThan(50);
  });

  test('a move is over when every follower has followed', async () => {
    const clock = createClock();
    const followed: number[] = [];
    const unfollow = clock.follow(async (offsetMs) => {
      await Promise.resolve();
      followed.push(offsetMs);
    });
    await clock.advance(1000);
    await clock.advance(500);
    unfollow();
    await clock.advance(1);
    expect(followed).toEqual([1000, 1500]);
  });

  test.each([-1, Number.NaN, Number.POSITIVE_INFINITY])('refuses to move by %p', async (ms) => {
    const clock = createClock();
    await expect(clock.advance(ms)).rejects.toThrow(RangeError);
    expect(clock.offsetMs()).toBe(0);
  });
});
