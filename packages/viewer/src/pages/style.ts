/** The style sheet of all pages, served as /viewer.css. */
import fs from 'node:fs';

/** The package ships this file at its source: the path is right from `dist` and from `src`. */
export function readStyle(): string {
  return fs.readFileSync(new URL('../../src/pages/viewer.css', import.meta.url), 'utf8');
}
