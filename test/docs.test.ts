import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(__dirname, '..');
const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  '.github/pull_request_template.md',
  'SECURITY.md',
  ...['docs', join('docs', 'decisions')].flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name)),
  ),
];

/** Paths of this project that a page names: links, and file names in code marks. */
function pathsIn(page: string): string[] {
  const text = readFileSync(join(root, page), 'utf8');
  const links = [...text.matchAll(/\]\((?!https?:)([^)#]+)\)/g)].map(([, path = '']) => path);
  const marked = [...text.matchAll(/`((?:[\w.-]+\/)+[\w.-]+\.(?:ts|js|md|json))`/g)].map(
    ([, path = '']) => path,
  );
  return [...links, ...marked];
}

test.each(pages)('every file that %s names exists', (page) => {
  // The pages shorten `lambdas/operation/x.ts` to `operation/x.ts`.
  const places = [root, join(root, 'lambdas'), join(root, page, '..')];
  const missing = pathsIn(page).filter((path) => !places.some((place) => existsSync(join(place, path))));
  expect(missing).toEqual([]);
});

describe('docs/cases.md', () => {
  const text = (path: string) => readFileSync(join(root, path), 'utf8');
  const idsIn = (content: string) => [...content.matchAll(/\bBL-\d+\b/g)].map(([id]) => id);
  const rows = [...text('docs/cases.md').matchAll(/^\| (BL-\d+) \|.*\| `(test\/[^`]+)` \|$/gm)].map(
    ([, id = '', file = '']) => ({ id, file }),
  );

  test('has one row for each case that a test names', () => {
    const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join('test', name));
    const named = new Set(files.flatMap((file) => idsIn(text(file))));
    expect(named.size).toBeGreaterThan(30);
    expect(rows.map(({ id }) => id)).toEqual([...named].toSorted());
  });

  test.each(rows)('$id is replayed by the test file that its row names', ({ id, file }) => {
    const code = text(file)
      .split('\n')
      .filter((line) => !line.trim().startsWith('//'));
    expect(idsIn(code.join('\n'))).toContain(id);
  });
});
