import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { targetOf } from '../../../src/operate/telemetry/target.js';
import { temporaryDirectory } from '../../running/collector-process.js';

const P = 'OTEL_EXPORTER_OTLP_';

function traces(variables: Record<string, string>) {
  const warnings: string[] = [];
  const target = targetOf('traces', variables, (warning) => warnings.push(warning));
  return { ...target, url: target.url.href, warnings };
}

test('[R-846] the path of a signal is appended to an endpoint for all, and to no other', () => {
  expect(traces({}).url).toBe('http://localhost:4318/v1/traces');
  expect(traces({ [`${P}ENDPOINT`]: 'http://a:1' }).url).toBe('http://a:1/v1/traces');
  expect(traces({ [`${P}ENDPOINT`]: 'http://a:1/base/' }).url).toBe('http://a:1/base/v1/traces');
  expect(traces({ [`${P}ENDPOINT`]: 'http://a:1/base?x=1' }).url).toBe('http://a:1/base/v1/traces?x=1');
  expect(traces({ [`${P}ENDPOINT`]: 'http://a', [`${P}TRACES_ENDPOINT`]: 'http://b' }).url).toBe('http://b/');
  expect(traces({ [`${P}METRICS_ENDPOINT`]: 'http://b' }).url).toBe('http://localhost:4318/v1/traces');
});

test('[R-846] what is said of a signal goes before what is said of all', () => {
  const target = traces({
    [`${P}HEADERS`]: 'a=1,b=two%20words',
    [`${P}TRACES_HEADERS`]: 'a=3',
    [`${P}TIMEOUT`]: '500',
    [`${P}TRACES_TIMEOUT`]: '700',
    [`${P}COMPRESSION`]: 'gzip',
    [`${P}TRACES_COMPRESSION`]: 'none',
  });
  expect(target).toMatchObject({ headers: { a: '3', b: 'two words' }, timeoutMs: 700, zipped: false });
  expect(target.warnings).toEqual([]);
  expect(traces({ [`${P}COMPRESSION`]: 'gzip' })).toMatchObject({ timeoutMs: 10_000, zipped: true });
});

test('[R-846] certificates are read from their files', () => {
  const directory = temporaryDirectory();
  const file = path.join(directory, 'ca.pem');
  fs.writeFileSync(file, 'a certificate');
  const { agent } = traces({ [`${P}ENDPOINT`]: 'https://a', [`${P}CERTIFICATE`]: file });
  expect(agent).toHaveProperty('options.ca', Buffer.from('a certificate'));
  fs.rmSync(directory, { recursive: true });
});

test('[R-846] what means nothing is told by the name of its variable, and left aside', () => {
  const { warnings, timeoutMs, zipped } = traces({
    [`${P}ENDPOINT`]: 'https://a',
    [`${P}TIMEOUT`]: 'secret',
    [`${P}COMPRESSION`]: 'secret',
    [`${P}CLIENT_KEY`]: '/nowhere/secret',
  });
  expect({ timeoutMs, zipped }).toEqual({ timeoutMs: 10_000, zipped: false });
  expect(warnings.map((warning) => warning.split(' ')[0]).sort()).toEqual(
    ['CLIENT_KEY', 'COMPRESSION', 'TIMEOUT'].map((name) => P + name),
  );
  expect(warnings.join()).not.toContain('secret');
});
