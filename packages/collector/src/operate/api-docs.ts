/**
 * `/docs` and `/openapi.json`: the interface for developers of senders. Swagger UI comes from a package, so
 * nothing is fetched from other hosts. It sends no requests, because events go to another port.
 */
import fs from 'node:fs';

/** A file that is served unchanged. */
export interface Page {
  readonly type: string;
  readonly body: string | Buffer;
}

const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>The collector's interface</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="docs/style.css">
</head>
<body>
<div id="interface"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`;

/** Hides the fields for a server and a key, since the page sends nothing. */
const START = `const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', follow);
follow();
const nothing = () => () => null;
const names = ['authorizeBtn', 'authorizeOperationBtn', 'ServersContainer'];
const wrapComponents = Object.fromEntries(names.map((name) => [name, nothing]));
SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#interface',
  deepLinking: true,
  supportedSubmitMethods: [],
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  plugins: [{ wrapComponents }],
});
`;

/** Style that Swagger UI lacks: a layout for phones, and contrast in its dark theme. */
const STYLE = `.swagger-ui :is(.scheme-container, .response-col_links) {
  display: none;
}
.dark-mode .swagger-ui :is(.example__section-header, .examples-select__section-label, .header-col) {
  color: #e4e6e6;
}
@media (max-width: 700px) {
  .swagger-ui table.responses-table {
    table-layout: fixed;
  }
  .swagger-ui .response-col_status {
    width: 48px;
  }
  .swagger-ui .response-controls {
    flex-wrap: wrap;
  }
  .swagger-ui select {
    max-width: 100%;
  }
}
`;

/** The files by path. They are read once and take about 2 MB. */
export function apiDocs(): ReadonlyMap<string, Page> {
  const style = new URL(import.meta.resolve('@fastify/swagger-ui/static/swagger-ui.css'));
  const bundle = new URL('swagger-ui-bundle.js', style);
  const openapi = new URL(import.meta.resolve('@clinical-events/protocol/openapi.json'));
  const [script, css] = ['text/javascript; charset=utf-8', 'text/css; charset=utf-8'];
  return new Map<string, Page>([
    ['/openapi.json', { type: 'application/json', body: fs.readFileSync(openapi) }],
    ['/docs', { type: 'text/html; charset=utf-8', body: HTML }],
    ['/docs/style.css', { type: css, body: STYLE }],
    ['/docs/start.js', { type: script, body: START }],
    ['/docs/swagger-ui-bundle.js', { type: script, body: fs.readFileSync(bundle) }],
    ['/docs/swagger-ui.css', { type: css, body: fs.readFileSync(style) }],
  ]);
}
