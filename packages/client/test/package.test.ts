/** What is packed for npm: all that an entry point leads to, and nothing else. Needs packages/*\/dist. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const PACKAGES = path.resolve(import.meta.dirname, '../..');

type Targets = string | { readonly [condition: string]: Targets };

function leaves(targets: Targets = {}): string[] {
  return typeof targets === 'string' ? [path.normalize(targets)] : Object.values(targets).flatMap(leaves);
}

/** These files and all that they import, directly or not. */
function reachable(directory: string, entries: readonly string[]): Set<string> {
  const found = new Set<string>();
  const open = [...entries];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (found.has(file)) continue;
    found.add(file);
    if (!/\.(js|ts)$/.test(file)) continue;
    const code = fs.readFileSync(path.join(directory, file), 'utf8');
    for (const [, named = ''] of code.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)) {
      const imported = path.join(path.dirname(file), named);
      open.push(file.endsWith('.d.ts') ? imported.replace(/\.js$/, '.d.ts') : imported);
    }
  }
  return found;
}

/** The compiler leaves the output of deleted files. */
function isOfThisTree(directory: string, file: string): boolean {
  const source = file.replace(/^dist\//, 'src/').replace(/(\.d)?\.(ts|js)$/, '.ts');
  return !file.startsWith('dist/') || fs.existsSync(path.join(directory, source));
}

test.each(['client', 'instrument'])('the packed %s has every file that it needs, and no other', (name) => {
  const directory = path.join(PACKAGES, name);
  const packed = JSON.parse(
    execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      ...{ cwd: directory, encoding: 'utf8' as const, stdio: ['ignore', 'pipe', 'ignore'] },
    }),
  ) as readonly [{ readonly files: readonly { readonly path: string }[] }];
  const { exports, bin } = JSON.parse(fs.readFileSync(path.join(directory, 'package.json'), 'utf8')) as {
    readonly exports: Targets;
    readonly bin?: Targets;
  };
  const imported = reachable(directory, [...leaves(exports), ...leaves(bin)]);
  const needed = ['LICENSE', 'README.md', 'package.json', ...imported];
  const packedNow = packed[0].files.map((file) => file.path).filter((file) => isOfThisTree(directory, file));
  // The compiler writes a declaration, and perhaps a module of types alone, for each source file.
  const beside = (file: string) => /^dist\/(?!cli\/).*(\.d\.ts|\.js)$/.test(file);
  expect(packedNow).toEqual(expect.arrayContaining([...new Set(needed)]));
  expect(packedNow.filter((file) => !needed.includes(file) && !beside(file))).toEqual([]);
});

test.each(['client', 'instrument', 'protocol', 'collector'])(
  'the package %s has the licence of the repository',
  (name) => {
    const licence = fs.readFileSync(path.join(PACKAGES, name, 'LICENSE'));
    expect(licence.equals(fs.readFileSync(path.join(PACKAGES, '../LICENSE')))).toBe(true);
  },
);
