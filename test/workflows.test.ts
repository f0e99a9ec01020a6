import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { lastingTypes } from './support/frozen-release';

const folder = join(__dirname, '..', '.github', 'workflows');
const workflows = readdirSync(folder).map((name): [string, string] => [
  name,
  readFileSync(join(folder, name), 'utf8'),
]);

test.each(workflows)('%s uses actions by their commit, with the version beside it', (_, text) => {
  const uses = [...text.matchAll(/uses: (.*)/g)].map(([, action = '']) => action);
  const unpinned = uses.filter((action) => !/^(\.\/|[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$)/.test(action));
  expect(uses).not.toHaveLength(0);
  expect(unpinned).toEqual([]);
});

test.each(workflows)('%s may read the code and nothing else, but for the token that AWS takes', (_, text) => {
  expect(text).toMatch(/^permissions:\n {2}contents: read\n/m);
  for (const [, right] of text.matchAll(/([\w-]+): write\b/g)) expect(right).toBe('id-token');
  expect(text).not.toMatch(/write-all|pull_request_target|secrets\./);
});

test.each(workflows)('%s puts nothing that others can write into a shell', (_, text) => {
  // An expression in a script is pasted into it: a branch's name could be a command. Variables are not.
  const scripts = [...text.matchAll(/run: (?:\|\n((?: {10}.*\n?)+)|(.*))/g)].map(([script]) => script);
  expect(scripts.filter((script) => script.includes('${{'))).toEqual([]);
});

test('a deploy follows the gate, production follows dev, and what lasts is not replaced by a machine', () => {
  const { 'deploy.yml': deploy = '', 'deploy-stage.yml': stage = '' } = Object.fromEntries(workflows);
  expect(deploy).toMatch(/ dev:\n {4}needs: gate\n/);
  expect(deploy).toMatch(/ production:\n {4}needs: dev\n/);
  const step = stage.indexOf('Nothing that lasts is replaced');
  expect(step).toBeGreaterThan(stage.indexOf('npx cdk diff'));
  expect(step).toBeLessThan(stage.indexOf('npx cdk deploy'));
  for (const type of lastingTypes) expect(stage).toContain(type.replace('AWS::', ''));
});
