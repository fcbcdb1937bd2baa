/** Membership, nesting and assembly together, on logs of several runs and of events that name none. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { recordsOf } from './odd-log.js';
import { event, id } from './run-events.js';

const EVENTS = 12;

const anyLog = fc
  .array(
    fc.record({
      kind: fc.constantFrom(...EVENT_KINDS),
      run: fc.constantFrom(null, id(51), id(52)),
      parent: fc.oneof(fc.constantFrom(null, id(99)), fc.integer({ min: 1, max: EVENTS }).map(id)),
      second: fc.integer({ min: 1, max: 4 }),
    }),
    { minLength: 1, maxLength: EVENTS },
  )
  .map((wanted) =>
    wanted.map(({ kind, run, parent, second }, i) => {
      const n = i + 1;
      // As the ledger has it: a start without a run opens one.
      const opened = run ?? (kind === 'inference-start' ? id(n) : null);
      return event({ kind, n, run: opened, parent, at: `2026-03-02T08:31:0${second}Z` });
    }),
  );

test('every event of a log is in exactly one record, and the record has its key [R-203] [R-204]', () => {
  fc.assert(
    fc.property(anyLog, (log) => {
      const records = recordsOf(log);
      const found = [...records.values()].flatMap(({ metadata }) =>
        metadata.events.map((each) => each.event_id),
      );
      expect(found.sort()).toEqual(log.map(({ event: { eventId } }) => eventId).sort());
      for (const [key, { metadata }] of records) {
        expect(`${metadata.run_id === null ? 'event' : 'run'}:${metadata.record_id}`).toBe(key);
      }
    }),
    { numRuns: 1000 },
  );
});

test('a log read backwards makes the same records [R-206]', () => {
  fc.assert(
    fc.property(anyLog, (log) => {
      const backwards = recordsOf([...log].reverse());
      for (const [key, record] of recordsOf(log)) expect(backwards.get(key)).toEqual(record);
    }),
    { numRuns: 500 },
  );
});

test('a run points to its parent exactly when that points to it, and only lost parents make orphans [R-206]', () => {
  fc.assert(
    fc.property(anyLog, (log) => {
      const records = recordsOf(log);
      const stored = new Set(log.map(({ event: { eventId } }) => eventId));
      for (const { metadata } of records.values()) {
        const { parent, run_id, children, completeness, events } = metadata;
        if (parent?.run_id != null) {
          expect(records.get(`run:${parent.run_id}`)?.metadata.children).toContain(run_id);
        }
        for (const child of children) {
          const named = records.get(`run:${child}`)?.metadata.parent?.event_id;
          expect(events.map(({ event_id }) => event_id)).toContain(named);
        }
        const lost = events.filter(
          ({ parent_event_id }) => parent_event_id !== null && !stored.has(parent_event_id),
        );
        expect(completeness.orphans).toEqual(lost.map(({ event_id }) => event_id));
      }
    }),
    { numRuns: 1000 },
  );
});
