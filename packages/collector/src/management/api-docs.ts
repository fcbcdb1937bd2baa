/**
 * `/docs` and `/openapi.json`: the interface for those who write senders. Swagger UI, from the package that comes with
 * its files, so that nothing is fetched from elsewhere; it sends no requests, because the events go to another port.
 */
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A file that is served as it is. */
export interface Page {
  readonly type: string;
  readonly body: string | Buffer;
}

const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The collector's interface</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<main id="interface"></main>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`;

/** Nothing is sent from here, so nobody is asked where to or with which key. */
const START = `const nothing = () => () => null;
SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#interface',
  deepLinking: true,
  supportedSubmitMethods: [],
  validatorUrl: null,
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

/** By path. Read once; about 2 MB. */
export function apiDocs(): ReadonlyMap<string, Page> {
  const file = (url: string) => fs.readFileSync(fileURLToPath(url));
  const script = 'text/javascript; charset=utf-8';
  return new Map<string, Page>([
    [
      '/openapi.json',
      {
        type: 'application/json',
        body: file(import.meta.resolve('@clinical-events/protocol/openapi.json')),
      },
    ],
    ['/docs', { type: 'text/html; charset=utf-8', body: HTML }],
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
