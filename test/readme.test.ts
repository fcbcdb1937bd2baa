/** Holds what the README shows against what the collector does. */
import fs from 'node:fs';
import path from 'node:path';
import { ERRORS, EVENT_KINDS, validateEvent, type EventKind } from '@clinical-events/protocol';
import { expect, test } from 'vitest';
import { configTable } from '../packages/collector/src/config.js';
import { assembleRecord } from '../packages/collector/src/records/assemble.js';
import { eventFromText } from '../packages/collector/test/records/run-events.js';

const readme = fs.readFileSync(path.resolve(import.meta.dirname, '../README.md'), 'utf8');

test('the table of options in the README is the one that the collector declares', () => {
  const shown = /<!-- config:begin -->\n([^]*?)\n<!-- config:end -->/.exec(readme)?.[1];
  expect(shown).toBe(configTable());
});

test('[R-401] every error code stands in the README beside its status', () => {
  const rows = readme.split('\n').filter((line) => /^\| \d{3}/.test(line));
  for (const [code, { status }] of Object.entries(ERRORS)) {
    const row = rows.find((line) => line.includes(`\`${code}\``));
    expect(row, code).toContain(String(status));
  }
});

/** The events that are sent one after the other, with their kinds. */
const examples = [...readme.matchAll(/send ([a-z-]+) '(\{[^']*\})'/g)].map(
  ([, kind, body = '']) => [kind as EventKind, body] as const,
);

test('[R-301] the README shows a valid event of each kind', () => {
  expect(examples.map(([kind]) => kind)).toEqual(EVENT_KINDS);
  for (const [kind, body] of examples) {
    expect(validateEvent(kind, 'minimum', JSON.parse(body))).toBeUndefined();
  }
});

test('[R-206] the events that the README shows make one full record without a conflict', () => {
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
