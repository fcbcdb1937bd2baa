/** Compares the documents with the code. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { ERRORS, EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { validateEvent } from '@clinical-events/protocol/validate';
import { expect, test } from 'vitest';
import { assembleRecord } from '../packages/collector/src/records/assemble.js';
import { eventFromText } from '../packages/collector/test/records/run-events.js';

const ROOT = path.resolve(import.meta.dirname, '..');
const textOf = (file: string) => fs.readFileSync(path.join(ROOT, file), 'utf8');
const filesUnder = (directory: string, ending: string) =>
  fs
    .readdirSync(path.join(ROOT, directory), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .map((name) => path.join(directory, name));

test('[R-401] [R-1240] the generated pages of the reference are up to date', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/reference.mjs', '--check'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  expect(status).toBe(0);
  for (const code of Object.keys(ERRORS)) expect(textOf('docs/reference/errors.md')).toContain(`\`${code}\``);
});

const directoriesIn = (directory: string) =>
  fs
    .readdirSync(path.join(ROOT, directory), { withFileTypes: true })
    .flatMap((entry) => (entry.isDirectory() ? [path.join(directory, entry.name)] : []));
const COLLECTOR = 'packages/collector';
const ROOMS = directoriesIn(`${COLLECTOR}/src`);
const READMES = [
  ...directoriesIn('packages'),
  ...directoriesIn('tools'),
  ...ROOMS,
  'packages/client/src',
].map((directory) => path.join(directory, 'README.md'));
const MARKDOWN = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', ...filesUnder('docs', '.md'), ...READMES];

test.each(MARKDOWN)('[R-1240] every link of %s leads to a file, and to a heading of it', (file) => {
  for (const [, target = ''] of textOf(file).matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^[a-z]+:/.test(target)) continue;
    const [name = '', anchor] = target.split('#');
    const linked = name === '' ? file : path.join(path.dirname(file), name);
    expect(fs.existsSync(path.join(ROOT, linked)), `${file}: ${target}`).toBe(true);
    if (anchor === undefined) continue;
    const anchors = [...textOf(linked).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    );
    const named = [...textOf(linked).matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id);
    expect([...anchors, ...named], `${file}: ${target}`).toContain(anchor);
  }
});

test.each(ROOMS)('%s has a README of a page with its failures and imports', (room) => {
  const text = textOf(path.join(room, 'README.md'));
  expect(text.split('\n').length).toBeLessThanOrEqual(61);
  expect(text).toContain('## Failures');
  expect(text).toContain('May import: ');
});

/** Words in backticks that name a file or a directory of this repository, not of a data directory. */
const PATH =
  /`((?:[\w@-]+\/)*[\w.@-]+\.(?:ts|mjs|cjs|css)|(?:packages|tools|test|docs|deploy|bench|scripts|src)\/[\w./@-]*)`/g;

/** Without the README of the client, which names files of applications. */
const INTERNALS = READMES.filter((file) => file !== 'packages/client/README.md');
test.each(['CONTRIBUTING.md', 'docs/internals/architecture.md', ...INTERNALS])(
  '[R-1240] every path that %s names exists',
  (document) => {
    const bases = ['', path.dirname(document), COLLECTOR, `${COLLECTOR}/src`];
    const source = path.join(path.dirname(document), 'src');
    const own =
      READMES.includes(document) && fs.existsSync(path.join(ROOT, source)) ? filesUnder(source, '') : [];
    const missing = [...textOf(document).matchAll(PATH)].filter(
      ([, name = '']) =>
        !bases.some((base) => fs.existsSync(path.join(ROOT, base, name))) &&
        !own.some((file) => file.endsWith(`/${name}`)),
    );
    expect(missing.map(([, name]) => name)).toEqual([]);
  },
);

test('[R-1240] architecture names the file for each of eight changes', () => {
  const [, table = ''] = textOf('docs/internals/architecture.md').split('## Where to change what');
  for (const change of [
    ['a refusal', 'src/ingest/ingest.ts'],
    ['a durable byte', 'src/store/embedded/segment-log.ts'],
    ['a signature', 'src/tree/signing-keys.ts'],
    ["a run's assembly", 'src/records/assemble.ts'],
    ['a payload key', 'src/privacy/payload-keys.ts'],
    ['one more export format', 'src/records/exports/formats.ts'],
    ['one more metric', 'src/operate/numbers.ts'],
    ['one more option', 'src/config/options.ts'],
  ]) {
    const row = table.split('\n').find((line) => line.includes(`| ${change[0]} `));
    expect(row, change[0]).toContain(change[1]);
  }
});

test.each([
  ['README.md', 'package.json', 'You need Node.js $ or newer with npm'],
  ['README.md', 'packages/client/package.json', 'use the Node.js client need Node.js $.'],
  ['CONTRIBUTING.md', 'package.json', 'Node.js $ or newer and npm'],
  ['packages/client/README.md', 'packages/client/package.json', 'Node.js $ or newer'],
  ['packages/instrument/README.md', 'packages/instrument/package.json', 'and Node.js $'],
])('[R-1240] %s asks for the Node.js that %s asks for', (document, manifest, sentence) => {
  const { engines } = JSON.parse(textOf(manifest)) as { engines: { node: string } };
  expect(textOf(document)).toContain(sentence.replace('$', engines.node.replace('>=', '')));
});

/** The events of the guide, in order, with their kinds. */
const examples = [...textOf('docs/guide/send-events.md').matchAll(/send ([a-z-]+) '(\{[^']*\})'/g)].map(
  ([, kind, body = '']) => [kind as EventKind, body] as const,
);

test('[R-301] the guide shows a valid event of each kind', () => {
  expect(examples.map(([kind]) => kind)).toEqual(EVENT_KINDS);
  for (const [kind, body] of examples) {
    expect(validateEvent(kind, 'minimum', JSON.parse(body))).toBeUndefined();
  }
});

test('[R-206] the events that the guide shows make one full record without a conflict', () => {
  const events = examples.map(([kind, body], i) => {
    const { event_id: eventId, run_id: runId } = JSON.parse(body) as Record<string, string>;
    return eventFromText(body, {
      kind,
      sequence: i + 1,
      eventId: eventId ?? '',
      runId,
      receivedAt: Date.now(),
    });
  });
  const { metadata } = assembleRecord(events);
  expect(metadata.conflicts).toEqual([]);
  expect(metadata.events).toHaveLength(EVENT_KINDS.length);
  expect(metadata.completeness.level).toBe('full');
});

test('[R-1240] attributes and metrics in the guide to OpenTelemetry exist', () => {
  const guide = textOf('docs/guide/opentelemetry.md');
  const table = textOf('docs/reference/otlp.md').split('### Attributes that an application can set')[1];
  const attributes = new Set(guide.match(/(?<=['"`])clinical_events\.\w+\.?\w*(?=['"`])/g));
  expect(attributes.size).toBeGreaterThan(4);
  for (const attribute of attributes) expect(table).toContain(`\`${attribute}\``);
  const metrics = new Set(guide.match(/collector_\w+/g));
  expect(metrics.size).toBeGreaterThan(1);
  for (const metric of metrics) expect(textOf('docs/reference/metrics.md')).toContain(`\`${metric}\``);
});

test('[R-1240] the guide to the viewer and its help name the same options', () => {
  const guide = textOf('docs/guide/viewer.md');
  const source = textOf('packages/viewer/src/program.ts');
  const options = new Set([...source.matchAll(/^ {4}'(--[a-z-]+)/gm)].map(([, option]) => option));
  expect(options.size).toBeGreaterThan(10);
  // The guide names options of the collector too.
  const commands = textOf('docs/reference/cli.md');
  for (const [option] of guide.matchAll(/(?<![\w-])--[a-z][a-z-]+/g))
    expect(options.has(option) || option === '--help' || commands.includes(`${option} `), option).toBe(true);
  for (const option of options) expect(guide).toContain(option);
});

const NAMED_ARTIFACTS = ['docs/guide/install.md', 'docs/guide/python.md', 'clients/python/README.md'];
const EXAMPLES = ['examples/python-batch/README.md', 'examples/python-chat/README.md'];
test.each(EXAMPLES)(
  '[R-1240] %s, read in the directory of the bundle, installs the wheel beside it',
  (document) => {
    expect(textOf(document)).toMatch(/^ {4}pip install \.\.\/clinical_events-/m);
  },
);

test.each([...NAMED_ARTIFACTS, ...EXAMPLES, 'packages/client/README.md', 'packages/instrument/README.md'])(
  '[R-1240] %s names the artifacts of this version',
  (document) => {
    const { version } = JSON.parse(textOf('package.json')) as { version: string };
    const artifact = /(?:clinical[-_]events|collector)[a-z-]*-(\d+\.\d+\.\d+)/g;
    const versions = [...textOf(document).matchAll(artifact)].map(([, named]) => named);
    expect(new Set(versions)).toEqual(new Set([version]));
  },
);
