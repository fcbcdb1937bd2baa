/** The findings of axe-core on a page: rules of WCAG and of good practice that a program can check. */
import fs from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const AXE = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** @returns the rules that the page breaks, each with the first elements that do. */
export function faultsOf(page: Page): Promise<unknown> {
  return page.evaluate(`${AXE}; axe.run().then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html }) => html).join(' ')))`);
}
