import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const ENTRY = new URL('../../src/verify/index.ts', import.meta.url);
/** A word between quotes is no keyword. */
const IMPORT = /(?<!')(?:from|import)\s*\(?\s*'([^']+)'/g;

/** Every source file that the verifier loads, by its address, with its text. */
function moduleGraph(from: URL, found = new Map<string, string>()): Map<string, string> {
  if (found.has(from.href)) return found;
  const source = readFileSync(from, 'utf8');
  found.set(from.href, source);
  for (const [, specifier = ''] of source.matchAll(IMPORT)) {
    expect(specifier, from.href).toMatch(/^\.\.?\/.*\.js$/);
    moduleGraph(new URL(specifier.replace(/\.js$/, '.ts'), from), found);
  }
  return found;
}

const graph = moduleGraph(ENTRY);

describe('the verifier', () => {
  it('[R-908] loads only a few small files of its own, and no module of Node', () => {
    expect(graph.size).toBeGreaterThan(10);
    const names = [...graph.keys()].map((address) => address.replace(/^.*\/packages\/protocol\/src\//, ''));
    expect(names.filter((name) => !/^(?:verify|formats)\/|^(?:leaf|kinds)\.ts$/.test(name))).toEqual([]);
    expect([...graph.values()].join('').length).toBeLessThan(64 * 1024);
  });

  it('[R-908] names no global that only Node has', () => {
    for (const [address, source] of graph) {
      const code = source.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
      expect(code, address).not.toMatch(/\b(?:Buffer|process|require|global|setImmediate|__dirname)\b/);
    }
  });
});
