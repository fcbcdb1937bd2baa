import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { generate, packageRoot } from '../scripts/generate.mjs';

const read = (path: string) => readFileSync(new URL(path, packageRoot), 'utf8');

describe('the generated files', () => {
  const generated = generate();

  it('[R-315] include the committed openapi.json, as the generator writes it', () => {
    expect(read('openapi.json') === generated.get('openapi.json'), 'run npm run generate').toBe(true);
  });

  it.each([...generated.keys()])('include %s, as the last build wrote it', (path) => {
    expect(read(path) === generated.get(path), `run npm run build: ${path} is out of date`).toBe(true);
  });

  it('are the only files in src/generated', () => {
    const names = readdirSync(new URL('src/generated/', packageRoot)).map((name) => `src/generated/${name}`);
    expect(names.sort()).toEqual([...generated.keys()].filter((path) => path.startsWith('src/')).sort());
  });

  it('import only files of this package', () => {
    for (const path of generated.keys()) {
      if (!path.endsWith('.ts')) continue;
      const specifiers = [...read(path).matchAll(/(?:from |import\(|require\()\s*["']([^"']+)/g)];
      for (const [, specifier] of specifiers) expect(specifier).toMatch(/^\.\.\/.*\.js$/);
    }
  });
});

describe('the package', () => {
  it('has no runtime dependency', () => {
    const manifest = JSON.parse(read('package.json')) as object;
    expect(manifest).not.toHaveProperty('dependencies');
    expect(manifest).not.toHaveProperty('peerDependencies');
    expect(manifest).not.toHaveProperty('optionalDependencies');
  });
});
