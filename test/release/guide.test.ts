/** INSTALL.md beside the files of a release. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { build } from '../../scripts/release/guide.mjs';
import { ROOT, textOf } from '../deployment/repository.js';

test('[R-2053] a release has the guide of its installation, which links to no file and names those of the bundle', () => {
  const out = fs.mkdtempSync(path.join(os.tmpdir(), 'guide-'));
  onTestFinished(() => fs.rmSync(out, { recursive: true, force: true }));
  build(out, { version: '9.8.7' });
  const text = fs.readFileSync(path.join(out, 'INSTALL.md'), 'utf8');
  const links = [...text.matchAll(/\]\(([^)]*)\)/g)].map(([, target]) => target);
  expect(links.filter((target) => !target?.startsWith('https:'))).toEqual([]);
  const pages = [...text.matchAll(/\(`collector-9\.8\.7\/(docs\/guide\/[^`]+)`\)/g)].map(
    ([, page = '']) => page,
  );
  expect(pages.length).toBeGreaterThan(3);
  for (const page of pages) expect(fs.existsSync(path.join(ROOT, page)), page).toBe(true);
  expect(text.match(/^ {4}.*/gm)).toEqual(textOf('docs/guide/install.md').match(/^ {4}.*/gm));
});
