/** The document around the page: its style and script come from beside it, and from nowhere else. */
import { toHtml } from './html.js';
import { page, pageTitle } from './page.js';
import type { ConsoleState } from './console-state.js';

/** Without the script the page is loaded anew so often: not so often that a screen reader never gets to its end. */
const REFRESH_SECONDS = 30;

/**
 * So many keys are listed before the script lists all: what the collector writes itself costs the thread that takes
 * events some 0.05 ms a key.
 */
const MOST_KEYS = 100;

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' " +
  "rx='3.5' fill='%230a66c2'/%3E%3Cpath d='M3 8.5h2.5L7 4l2.5 8L11 8.5h2' fill='none' stroke='%23fff' stroke-width='1.5' " +
  "stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

/** Its links are relative, so that it may stand behind a proxy under any path. */
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
<title>${toHtml(pageTitle(view))}</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="console/style.css">
<script type="module" src="console/live.js"></script>
<noscript><meta http-equiv="refresh" content="${REFRESH_SECONDS}"></noscript>
</head>
<body>
<div id="console">${toHtml(page(view))}</div>
</body>
</html>
`;
}

/** The reader's zone is not known here. */
function timeOfDay(at: number): string {
  return `${new Date(at).toISOString().slice(11, 19)} UTC`;
}
