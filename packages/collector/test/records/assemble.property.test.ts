import type { ClinicalRecord } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assembleRecord, UNLINKED, type RunLinks } from '../../src/records/assemble.js';
import { parseExact, toJson } from '../../src/records/raw-json.js';
import { anyRun, ELSEWHERE, type Sent } from './any-run.js';
import { schemaFaults, unnamedMembers } from './record-schema.js';
import { id } from './run-events.js';
import { runs } from '../../../../test/property-runs.js';

const LINKS: RunLinks = {
  ...UNLINKED,
  parentRunOf: (eventId) => (eventId === ELSEWHERE ? id(200) : undefined),
};
const recordOf = (sent: readonly Sent[]) =>
  assembleRecord(
    sent.map(({ event }) => event),
    LINKS,
  );

type Members = Readonly<Record<string, unknown>>;

/** One text for every value: members by name, numbers as they are spelt. */
function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  members.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`;
}

/** Members of several objects in one, as JSON.parse would make it: a member may be called __proto__. */
function together(...parts: readonly Members[]): Members {
  return Object.fromEntries(parts.flatMap((part) => Object.entries(part)));
}

/** What was sent, without the run that it names; ids in lower case, and no parent where the parent is null. */
/** A record replaces half a surrogate pair [R-206], which JSON.stringify writes as an escape. */
function asSent({ text }: Sent): string {
  const { parent_event_id: parent, event_id, ...rest } = parseExact(text) as Members;
  return canonical(
    together(rest, {
      run_id: undefined,
      event_id: String(event_id).toLowerCase(),
      ...(typeof parent === 'string' && { parent_event_id: parent.toLowerCase() }),
    }),
  ).replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) => (escape.startsWith('\\ud') ? '\ufffd' : escape));
}

const LISTS = {
  artifact: 'artifacts',
  output: 'outputs',
  outcome: 'outcomes',
  feedback: 'feedback',
} as const;

/** The same of an event, from a record alone. */
function asRecorded(record: ClinicalRecord, eventId: string): string {
  const event = record.metadata.events.find(({ event_id }) => event_id === eventId);
  if (event === undefined) throw new Error(`no event ${eventId}`);
  const { timestamp, protocol_version, system_metadata, parent_event_id, extra } = event;
  const payload: Record<string, unknown> = {};
  for (const [name, list] of Object.entries(LISTS)) {
    const entry = record[list].find(({ event_id }) => event_id === eventId);
    if (entry === undefined) continue;
    payload[name] = (entry as Members)[name];
    expect(entry).toMatchObject({ timestamp, received_at: event.received_at, parent_event_id });
    expect(canonical(entry.extra)).toBe(canonical(extra));
  }
  const call = record.metadata.calls.find(({ event_id }) => event_id === eventId);
  if (call !== undefined) {
    payload['model_instance'] = call.model ?? undefined;
    payload['user_identity'] = call.user ?? undefined;
    payload['target_identity'] = call.target ?? undefined;
    payload['inputs'] = call.inputs ?? undefined;
  }
  const named = { event_id: eventId, timestamp, protocol_version, system_metadata };
  return canonical(together(extra, payload, named, parent_event_id === null ? {} : { parent_event_id }));
}

describe('the record of any run', () => {
  test('is the same for the same events in any order [R-206]', () => {
    const shuffled = anyRun.chain((sent) =>
      fc.tuple(fc.constant(sent), fc.shuffledSubarray([...sent], { minLength: sent.length })),
    );
    fc.assert(
      fc.property(shuffled, ([one, other]) => {
        const [a, b] = [recordOf(one), recordOf(other)];
        expect(a).toEqual(b);
        expect(toJson(a)).toBe(toJson(b));
      }),
      { numRuns: runs(1000) },
    );
  });

  test('has every event once, in canonical order [R-206]', () => {
    fc.assert(
      fc.property(anyRun, (sent) => {
        const { events } = recordOf(sent).metadata;
        const ids = events.map(({ event_id }) => event_id);
        expect([...ids].sort()).toEqual(sent.map(({ event }) => event.event.eventId).sort());
        const times = events.map(({ timestamp, received_at }) =>
          Date.parse(leapless(timestamp ?? received_at)),
        );
        expect(times).toEqual([...times].sort((a, b) => a - b));
      }),
      { numRuns: runs(500) },
    );
  });

  test('has everything that was sent, to the last digit and to the last unknown field [R-112] [R-206]', () => {
    fc.assert(
      fc.property(anyRun, (sent) => {
        const record = parseExact(toJson(recordOf(sent))) as ClinicalRecord;
        for (const each of sent) {
          if (each.event.body === undefined) continue;
          expect(asRecorded(record, each.event.event.eventId)).toBe(asSent(each));
        }
      }),
      { numRuns: runs(1000) },
    );
  });

  test('fits its schema, which names every member that the collector writes [R-206]', () => {
    fc.assert(
      fc.property(anyRun, (sent) => {
        const record = recordOf(sent);
        expect(schemaFaults(record)).toEqual([]);
        expect(unnamedMembers(record)).toEqual([]);
      }),
      { numRuns: runs(500) },
    );
  });

  test('is full exactly when nothing is missing, and its conflicts have only ids [R-206]', () => {
    fc.assert(
      fc.property(anyRun, (sent) => {
        const { completeness, conflicts, events } = recordOf(sent).metadata;
        expect(completeness.level === 'full').toBe(completeness.missing.length === 0);
        const known = new Set(events.map(({ event_id }) => event_id));
        for (const { event_ids, ...rest } of conflicts) {
          expect(Object.keys(rest).filter((name) => name !== 'kind' && name !== 'rule')).toEqual([]);
          expect(event_ids.length).toBeGreaterThan(0);
          for (const eventId of event_ids) expect(known).toContain(eventId);
        }
      }),
      { numRuns: runs(500) },
    );
  });
});

/** Date knows no leap second. */
function leapless(text: string): string {
  return text.replace('23:59:60', '23:59:59.999').toUpperCase();
}
