/** What the console's page loads: its style sheet, and its script as the compiler made it. */
import fs from 'node:fs';
import { STYLE } from '../console/style.js';
import type { Page } from './api-docs.js';

const ROOM = new URL('../console/', import.meta.url);

/** By path. Read once; about 40 KB. */
export function consoleFiles(): ReadonlyMap<string, Page> {
  const scripts = fs.readdirSync(ROOM).filter((name) => name.endsWith('.js'));
  return new Map<string, Page>([
    ['/console/style.css', { type: 'text/css; charset=utf-8', body: STYLE }],
    ...scripts.map((name): [string, Page] => [
      `/console/${name}`,
      { type: 'text/javascript; charset=utf-8', body: fs.readFileSync(new URL(name, ROOM)) },
    ]),
  ]);
}
