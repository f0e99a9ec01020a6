import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { documents } from '../../../bin/generate-docs';
import { problemTypes } from '../../../lambdas/http/problem';

const read = (name: string) => readFileSync(join(__dirname, '../../../docs', name), 'utf8');

test.each(Object.entries(documents()))('docs/%s is as bin/generate-docs.ts makes it', (name, document) => {
  expect(JSON.parse(read(name))).toEqual(JSON.parse(JSON.stringify(document)));
});

const sections = new Map(
  read('problems.md')
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [heading = '', ...text] = section.split('\n');
      return [heading.trim(), text.join('\n').trim()];
    }),
);

test.each(Object.entries(problemTypes))(
  'docs/problems.md describes %s with its status',
  (type, { status }) => {
    expect(sections.get(type)).toMatch(new RegExp(`^${status}\\. `));
  },
);

test('docs/problems.md describes no problem that is none', () => {
  expect([...sections.keys()].filter((name) => !Object.hasOwn(problemTypes, name))).toEqual([]);
});

test('docs/openapi.json refers to schemas that it has, and every type of problem has a route that answers with it', () => {
  const text = read('openapi.json');
  const { components } = JSON.parse(text);
  for (const [, name = ''] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    expect(components.schemas).toHaveProperty(name);
  }
  // No route of the document has these two.
  const unrouted = ['route-not-found', 'method-not-allowed'];
  for (const type of Object.keys(problemTypes)) {
    expect(text.includes(`urn:charge-once:problem:${type}"`)).toBe(!unrouted.includes(type));
  }
});
