/** Holds the documents against the code: a difference fails the build. */
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

test('[R-401] [R-1240] the pages of the reference are what the code says', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/reference.mjs', '--check'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  expect(status).toBe(0);
  for (const code of Object.keys(ERRORS)) expect(textOf('docs/reference/errors.md')).toContain(`\`${code}\``);
});

const MARKDOWN = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', ...filesUnder('docs', '.md')];

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
    expect(anchors, `${file}: ${target}`).toContain(anchor);
  }
});

test.each([
  ['README.md', 'package.json', 'You need Node.js $ or newer with npm'],
  ['README.md', 'packages/client/package.json', 'use the Node.js client need Node.js $.'],
  ['CONTRIBUTING.md', 'package.json', 'Node.js $ or newer and npm'],
  ['packages/client/README.md', 'packages/client/package.json', 'Node.js $ or newer, on'],
  ['scripts/setup.mjs', 'package.json', 'on any Node from $,'],
])('[R-1240] %s asks for the Node.js that %s asks for', (document, manifest, sentence) => {
  const { engines } = JSON.parse(textOf(manifest)) as { engines: { node: string } };
  expect(textOf(document)).toContain(sentence.replace('$', engines.node.replace('>=', '')));
});

/** The events of the guide that are sent one after the other, with their kinds. */
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
