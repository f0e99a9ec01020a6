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
