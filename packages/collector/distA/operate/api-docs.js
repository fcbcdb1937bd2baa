/**
 * `/docs` and `/openapi.json`: the interface for those who write senders. Swagger UI, from the package that comes with
 * its files, so that nothing is fetched from elsewhere; it sends no requests, because the events go to another port.
 */
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The collector's interface</title>
<link rel="icon" href="data:,">
<meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="stylesheet" href="docs/style.css">
</head>
<body>
<nav><a href="./">Console</a></nav>
<div id="interface"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`;
/** Nothing is sent from here, so no one is asked where to or with which key. */
const START = `const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', follow);
follow();
const nothing = () => () => null;
SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#interface',
  deepLinking: true,
  supportedSubmitMethods: [],
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  plugins: [
    {
      wrapComponents: {
        authorizeBtn: nothing,
        authorizeOperationBtn: nothing,
        ServersContainer: nothing,
      },
    },
  ],
});
`;
/** What Swagger UI leaves to be wished for: room on a phone, and contrast. Its dark theme is its own. */
const STYLE = `body {
  margin: 0;
}
nav {
  max-width: 1420px;
  margin: 0 auto;
  padding: 16px 20px 0;
  font: 14px system-ui, sans-serif;
}
nav a {
  color: #0a66c2;
  text-underline-offset: 3px;
}
.dark-mode nav a {
  color: #6cb2f7;
}
.swagger-ui .scheme-container {
  display: none;
}
.swagger-ui .info {
  margin: 20px 0 8px;
}
.swagger-ui .info .description {
  max-width: 90ch;
}
.swagger-ui .response-col_links {
  display: none;
}
.dark-mode .swagger-ui :is(.example__section-header, .examples-select__section-label, .header-col) {
  color: #e4e6e6;
}
@media (max-width: 700px) {
  nav,
  .swagger-ui .wrapper {
    padding-inline: 12px;
  }
  .swagger-ui .info .title {
    font-size: 26px;
    line-height: 1.3;
  }
  .swagger-ui .info .title span {
    display: block;
  }
  .swagger-ui .info .title small {
    margin-left: 0;
  }
  .swagger-ui .responses-wrapper .responses-inner {
    padding: 12px;
  }
  .swagger-ui table.responses-table {
    table-layout: fixed;
  }
  .swagger-ui .response-col_status {
    width: 48px;
  }
  .swagger-ui .response-controls {
    flex-wrap: wrap;
    gap: 8px;
  }
  .swagger-ui select {
    max-width: 100%;
  }
  .swagger-ui .renderedMarkdown ul {
    padding-left: 16px;
  }
  .swagger-ui .opblock-tag {
    padding-inline: 0;
  }
}
`;
/** By path. Read once; about 2 MB. */
export function apiDocs() {
    const file = (url) => fs.readFileSync(fileURLToPath(url));
    const script = 'text/javascript; charset=utf-8';
    return new Map([
        [
            '/openapi.json',
            {
                type: 'application/json',
                body: file(import.meta.resolve('@clinical-events/protocol/openapi.json')),
            },
        ],
        ['/docs', { type: 'text/html; charset=utf-8', body: HTML }],
        ['/docs/style.css', { type: 'text/css; charset=utf-8', body: STYLE }],
        ['/docs/start.js', { type: script, body: START }],
        [
            '/docs/swagger-ui-bundle.js',
            { type: script, body: file(import.meta.resolve('@fastify/swagger-ui/static/swagger-ui-bundle.js')) },
        ],
        [
            '/docs/swagger-ui.css',
            {
                type: 'text/css; charset=utf-8',
                body: file(import.meta.resolve('@fastify/swagger-ui/static/swagger-ui.css')),
            },
        ],
    ]);
}
//# sourceMappingURL=api-docs.js.map