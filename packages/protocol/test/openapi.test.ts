import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import type { ErrorCode, ErrorEntry } from '../src/index.js';
import { ERRORS, EVENT_KINDS, EVENT_PATHS, PROFILES, PROTOCOL_VERSION } from '../src/index.js';
import { validateEvent } from '../src/validate.js';
import { smallestEvent } from './sample-events.js';

interface Example {
  readonly summary: string;
  readonly description?: string;
  readonly value: { readonly code?: ErrorCode; readonly details?: { readonly issues?: unknown } };
}
interface Media {
  readonly content: { readonly 'application/json': { readonly examples: Readonly<Record<string, Example>> } };
}
interface Response extends Media {
  readonly description: string;
  readonly headers?: Readonly<Record<string, unknown>>;
}
interface Operation {
  readonly operationId: string;
  readonly security: unknown;
  readonly requestBody: Media & { readonly required: boolean };
  readonly responses: Readonly<Record<string, { readonly $ref: string }>>;
}
interface Document {
  readonly info: { readonly version: string };
  readonly security: unknown;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly responses: Readonly<Record<string, Response>>;
    readonly securitySchemes: unknown;
  };
}

const packageDirectory = fileURLToPath(new URL('..', import.meta.url));
const document = JSON.parse(readFileSync(path.join(packageDirectory, 'openapi.json'), 'utf8')) as Document;

function operationOf(kind: (typeof EVENT_KINDS)[number]): Operation {
  const operation = document.paths[EVENT_PATHS[kind]]?.['post'];
  if (operation === undefined) throw new Error(`no operation for ${kind}`);
  return operation;
}

function responseOf(operation: Operation, status: number | string): Response {
  const name = operation.responses[status]?.$ref.split('/').at(-1) ?? '';
  const response = document.components.responses[name];
  if (response === undefined) throw new Error(`no response ${status}`);
  return response;
}

const examplesOf = (media: Media) => Object.entries(media.content['application/json'].examples);
const entries = Object.entries(ERRORS) as [ErrorCode, ErrorEntry][];
const FAILURES = ['400', '401', '403', '408', '409', '413', '415', '417', '429', '431', '500', '503'];

describe('the OpenAPI document', () => {
  it('passes the linter with its recommended rules, without an error or a warning', () => {
    const manifest = createRequire(import.meta.url).resolve('@redocly/cli/package.json');
    const cli = path.join(path.dirname(manifest), 'bin', 'cli.js');
    const { stdout, stderr } = spawnSync(process.execPath, [cli, 'lint', 'openapi.json', '--format=json'], {
      cwd: packageDirectory,
      encoding: 'utf8',
      // A build must not call home, nor depend on a network.
      env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
    });
    const start = stdout.indexOf('{');
    expect(start, stderr).toBeGreaterThanOrEqual(0);
    const report = JSON.parse(stdout.slice(start, stdout.lastIndexOf('}') + 1)) as {
      totals: unknown;
      problems: unknown;
    };
    expect(report.problems).toEqual([]);
    expect(report.totals).toMatchObject({ errors: 0, warnings: 0 });
  });

  it('[R-315] has the version of the protocol', () => {
    expect(document.info.version).toBe(PROTOCOL_VERSION);
  });

  it('has one POST operation for each kind of event, and nothing else', () => {
    expect(Object.keys(document.paths)).toEqual(EVENT_KINDS.map((kind) => EVENT_PATHS[kind]));
    for (const operations of Object.values(document.paths)) expect(Object.keys(operations)).toEqual(['post']);
    expect(new Set(EVENT_KINDS.map((kind) => operationOf(kind).operationId)).size).toBe(EVENT_KINDS.length);
  });

  it('requires the API key of the whole service and of each operation', () => {
    expect(document.components.securitySchemes).toMatchObject({
      apiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
    });
    expect(document.security).toEqual([{ apiKey: [] }]);
    for (const kind of EVENT_KINDS) expect(operationOf(kind).security).toEqual([{ apiKey: [] }]);
  });
});

describe.each(EVENT_KINDS)('the operation of %s', (kind) => {
  const operation = operationOf(kind);

  it('requires a body, and its examples are valid under the profiles that they name', () => {
    expect(operation.requestBody.required).toBe(true);
    const examples = examplesOf(operation.requestBody);
    expect(examples.length).toBeGreaterThanOrEqual(3);
    expect(examples.some(([, { description }]) => description === 'Valid under every profile.')).toBe(true);
    for (const [name, { description, value }] of examples) {
      const valid = PROFILES.filter((profile) => validateEvent(kind, profile, value) === undefined);
      const claim = valid.includes('full')
        ? 'Valid under every profile.'
        : 'Valid under the profile minimum.';
      expect(valid, name).toContain('minimum');
      expect(description, name).toBe(claim);
    }
  });

  it('answers 201 with an acceptance status alone', () => {
    const accepted = responseOf(operation, 201);
    expect(accepted.description).toBe('Event accepted');
    expect(examplesOf(accepted).map(([, { value }]) => value)).toEqual([{ status: 'accepted' }]);
  });

  it('lists every failure that an operation can have', () => {
    expect(Object.keys(operation.responses)).toEqual(['201', ...FAILURES]);
  });

  it.each(FAILURES)('shows an example of every code with the status %s', (status) => {
    const codes = entries.filter(([, entry]) => String(entry.status) === status).map(([code]) => code);
    const examples = examplesOf(responseOf(operation, status));
    expect(examples.map(([name]) => name)).toEqual(codes);
    expect(examples.map(([, { value }]) => value.code)).toEqual(codes);
  });

  it.each(FAILURES)(
    'documents the headers that come with the status %s, with or without Retry-After',
    (status) => {
      const expected = entries.some(([, entry]) => String(entry.status) === status && entry.retryAfter);
      const headers = responseOf(operation, status).headers ?? {};
      expect(Object.keys(headers)).toEqual(['X-Request-Id', ...(expected ? ['Retry-After'] : [])]);
    },
  );
});

describe('the error examples', () => {
  const examples = Object.entries(document.components.responses)
    .filter(([name]) => name !== 'Accepted')
    .flatMap(([, response]) => examplesOf(response));

  it('cover every code, except those that no operation returns', () => {
    const unreachable: ErrorCode[] = ['not_found', 'method_not_allowed'];
    expect(examples.map(([code]) => code).sort()).toEqual(
      entries
        .map(([code]) => code)
        .filter((code) => !unreachable.includes(code))
        .sort(),
    );
  });

  it.each(examples)('have a body for %s that is valid by the error schema', (_, { value }) => {
    const schema = JSON.parse(
      readFileSync(path.join(packageDirectory, 'schemas', 'error.json'), 'utf8'),
    ) as object;
    expect(new Ajv2020({ strict: true }).validate(schema, value)).toBe(true);
  });

  it('list the issues of a failed validation in the words of the validators', () => {
    const event: Record<string, unknown> = { ...smallestEvent('outcome', 'minimum'), event_id: 'x' };
    delete event['timestamp'];
    const shown = examples.find(([code]) => code === 'validation_failed')?.[1].value.details?.issues;
    expect(shown).toEqual(validateEvent('outcome', 'minimum', event));
  });
});
