/** The document around the console's page, with its style and scripts. It loads nothing from other hosts. */
import fs from 'node:fs';
import { renderToString as render } from 'preact-render-to-string';
import type { Page } from './api-docs.js';
import type { ConsoleState } from './console/console-state.js';
import { markup } from './console/markup.js';
import { page, pageTitle } from './console/page.js';

/** The interval of reloads without the script: long enough for a screen reader to reach the end. */
const REFRESH_SECONDS = 30;

/** The number of keys in the page itself; the script lists all. Each takes about 0.05 ms. */
const MOST_KEYS = 100;

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' " +
  "height='16' " +
  "rx='3.5' fill='%230a66c2'/%3E%3Cpath d='M3 8.5h2.5L7 4l2.5 8L11 8.5h2' fill='none' stroke='%23fff' " +
  "stroke-width='1.5' " +
  "stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

/** All links are relative, so the page works behind a proxy under any path. */
export function documentOf(whole: ConsoleState): string {
  const keys = whole.keys.slice(0, MOST_KEYS);
  const notListed = whole.keys_not_listed + whole.keys.length - keys.length;
  const state = { ...whole, keys, keys_not_listed: notListed };
  const view = { state, connection: 'page' as const, marked: undefined, timeOfDay };
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
${render(markup`<title>${pageTitle(view)}</title>`)}
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="console/console.css">
<script type="module" src="console/live.js"></script>
<noscript><meta http-equiv="refresh" content="${REFRESH_SECONDS}"></noscript>
</head>
<body>
<div id="console">${render(page(view))}</div>
</body>
</html>
`;
}

/** The reader's time zone is unknown here. */
function timeOfDay(at: number): string {
  return `${new Date(at).toISOString().slice(11, 19)} UTC`;
}

const ROOM = new URL('./console/', import.meta.url);
/** The package ships this file at its source: the path is right from `dist` and from `src`. */
const STYLE = new URL('../../src/operate/console/console.css', import.meta.url);
/** Both are single-file modules without imports. */
const LIBRARIES = ['preact', 'htm'];

/** The files by path. They are read once and take about 60 KB. */
export function consoleFiles(): ReadonlyMap<string, Page> {
  const script = (body: string | Buffer): Page => ({ type: 'text/javascript; charset=utf-8', body });
  const read = (name: string) => fs.readFileSync(new URL(name, ROOM), 'utf8');
  const ours = fs.readdirSync(ROOM).filter((name) => name.endsWith('.js'));
  return new Map<string, Page>([
    ['/console/console.css', { type: 'text/css; charset=utf-8', body: fs.readFileSync(STYLE, 'utf8') }],
    ...ours.map((name) => [`/console/${name}`, script(inBrowser(read(name)))] as const),
    ...LIBRARIES.map(
      (name) =>
        [`/console/lib/${name}.js`, script(fs.readFileSync(new URL(import.meta.resolve(name))))] as const,
    ),
  ]);
}

/** Browsers find a library by its address. An import map would be an inline script. */
function inBrowser(module: string): string {
  return module.replace(/from '(\w+)'/g, (whole, name: string) =>
    LIBRARIES.includes(name) ? `from './lib/${name}.js'` : whole,
  );
}
