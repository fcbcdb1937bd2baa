import { randomUUID } from 'node:crypto';
/** What every driver of the store must do (src/store/contract.ts), as one suite to be run over each of them. */
import { DOORS, EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  BEGINNING,
  cursorAt,
  cursorBehind,
  type Cursor,
  type EntryLog,
  type EventFilter,
  type EventLog,
  type PassedEntry,
  type Place,
  StoreDamaged,
  type Candidate,
  type Outcome,
  type Store,
  type StoredEntry,
  type StoredEvent,
} from '../../src/store/contract/events.js';
import { matchingEvents } from '../../src/store/matching-events.js';
import { candidate, envelopeOf, idOf, uuidBytes, type Made } from './candidate.js';

/** One place where events can be kept, empty at first. */
interface Kept {
  /** Opens it for appending; never more than one at a time is open. */
  open(): Promise<Store>;
  /** Opens it for reading, beside a store that is open or without one: a log in a database gives entries alone. */
  read(): EventLog | Promise<EventLog | EntryLog>;
  /** Changes some stored bytes of an entry. @returns a function that restores them. */
  spoil(sequence: number): (() => void) | Promise<() => Promise<void>>;
  /** Removes all derived files. Called with no store open. */
  loseIndex(): void;
  /** Removes everything. Called with no store open. */
  remove(): Promise<void>;
}

export interface Driver {
  readonly name: string;
  makePlace(): Promise<Kept>;
}

/** An event with its bytes as text, so that a difference can be read. */
type Readable = Omit<StoredEntry, 'body' | 'salted' | 'commitment' | 'envelope'> &
  Record<'body' | 'salted' | 'commitment' | 'envelope', string>;

function readable(event: StoredEntry): Readable {
  const { body, salted, commitment, envelope, ...rest } = event;
  const text = (bytes: Buffer) => bytes.toString('base64');
  return {
    ...rest,
    ...{ body: text(body), salted: text(salted), commitment: text(commitment), envelope: text(envelope) },
  };
}

/** The expected event of a reading, apart from its sequence. */
function asStored(event: Made): Omit<Readable, 'sequence'> {
  const { kind, profile, door, organisation, keyId, receivedAt } = event;
  const text = (id: Uint8Array) =>
    id.some((byte) => byte !== 0) ? idOf({ ...event, eventId: id }) : undefined;
  const [runId, parentId] = [text(event.runId), text(event.parentId)];
  return {
    ...{ kind, profile, door, organisation, keyId, receivedAt, runId, parentId },
    eventId: idOf(event),
    payloadState: 'plain',
    body: event.body.toString('base64'),
    salted: Buffer.from(event.salted).toString('base64'),
    commitment: Buffer.from(event.commitment).toString('base64'),
    envelope: envelopeOf(event).toString('base64'),
  };
}

async function readAll(log: EntryLog, filter: EventFilter = {}, from?: Cursor): Promise<StoredEvent[]> {
  const found: StoredEvent[] = [];
  const copy = (bytes: Buffer) => Buffer.from(bytes);
  for await (const batch of isWhole(log) ? log.scan(filter, from) : matchingEvents(log, filter, from)) {
    for (const { body, salted, commitment, envelope, ...event } of batch) {
      const views = { body: copy(body), salted: copy(salted) };
      found.push({ ...event, ...views, commitment: copy(commitment), envelope: copy(envelope) });
    }
  }
  return found;
}

function isWhole(log: EntryLog): log is EventLog {
  return 'pass' in log;
}

/** An entry as a pass shows it, in memory of its own. */
interface Shown extends Place {
  readonly sequence: number;
  readonly eventId: string;
  readonly isOwn: boolean;
}

function shown({ sequence, at, size, isOwn, source, eventIdAt }: PassedEntry): Shown {
  const eventId = idOf({ eventId: source.subarray(eventIdAt, eventIdAt + 16) });
  return { sequence, at, size, isOwn, eventId };
}

/** The entries of a pass, and the cursor after it. */
async function passed(log: EntryLog, from?: Cursor, through?: number): Promise<[Shown[], Cursor]> {
  const found: Shown[] = [];
  if (!isWhole(log)) return listed(log, from, through);
  const pass = log.pass(from, through === undefined ? {} : { through });
  for (;;) {
    const next = await pass.next();
    if (next.done) return [found, next.value];
    for (const entry of next.value) found.push(shown(entry));
  }
}

/** What entries show alone. */
async function listed(log: EntryLog, from?: Cursor, through = Infinity): Promise<[Shown[], Cursor]> {
  const found: Shown[] = [];
  const entries = log.entries(from);
  for (;;) {
    const next = await entries.next();
    if (next.done) return [found, through < next.value.sequence ? cursorAt(through + 1) : next.value];
    for (const { sequence, eventId, kind } of next.value)
      if (sequence <= through)
        found.push({ ...{ sequence, eventId, isOwn: typeof kind === 'number' }, at: sequence, size: 0 });
  }
}

const sequencesOf = (found: readonly { readonly sequence: number }[]) =>
  found.map(({ sequence }) => sequence);
const upTo = (first: number, last: number) =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);

export function storeConformance(driver: Driver): void {
  describe(`the store contract, kept by ${driver.name}`, () => {
    let place: Kept;
    let store: Store;
    let log: EntryLog;

    beforeEach(async () => {
      place = await driver.makePlace();
      store = await place.open();
      log = await place.read();
    });

    afterEach(async () => {
      await log.close();
      await store.close();
      await place.remove();
    });

    function whole(): EventLog {
      if (!isWhole(log)) throw new Error('this driver gives entries alone');
      return log;
    }

    async function append(...batch: Candidate[]): Promise<Outcome[]> {
      return store.append(batch);
    }

    async function reopen(): Promise<void> {
      await store.close();
      store = await place.open();
      await readAgain();
    }

    /** By a new reader. */
    async function readAgain(): Promise<void> {
      await log.close();
      log = await place.read();
    }

    /** Reads everything and compares it with these events in this order, counted from 1. */
    async function expectStored(...events: Made[]): Promise<void> {
      const found = await readAll(log);
      expect(found.map(readable)).toEqual(
        events.map((event, i) => ({ sequence: i + 1, ...asStored(event) })),
      );
    }

    test("[R-901] the log's own entries have a sequence and are not events, also those of an unknown kind", async () => {
      const events = [candidate(), candidate()];
      const [first, second] = events as [Made, Made];
      const ownOf = (kind: number) => ({ ...candidate({ organisation: '' }), kind });
      const [head, unknown] = [ownOf(0x81), ownOf(0xff)];
      expect(await append(first, head)).toEqual(['accepted', 'accepted']);
      expect(await append(unknown, second, head)).toEqual(['accepted', 'accepted', 'duplicate']);
      await reopen();
      const all: StoredEntry[] = [];
      for await (const batch of log.entries()) {
        for (const { sequence, kind, eventId } of batch) all.push({ sequence, kind, eventId } as StoredEntry);
      }
      expect(all).toEqual(
        [first, head, unknown, second].map((event, i) => ({
          ...{ sequence: i + 1, kind: event.kind, eventId: idOf(event) },
        })),
      );
      const found = await readAll(log);
      expect(sequencesOf(found)).toEqual([1, 4]);
      const [all4] = await passed(log);
      expect(all4.map(({ isOwn }) => isOwn)).toEqual([false, true, true, false]);
      expect((await log.withId({ eventId: idOf(head), known: [] })).entries).toMatchObject([{ sequence: 2 }]);
      expect(await readAll(log, { eventId: idOf(head) })).toEqual([]);
    });

    test('a new store holds nothing', async () => {
      await expectStored();
      expect(await append()).toEqual([]);
      await expectStored();
    });

    test('events are returned with every field and the exact bytes, in the order of their batches', async () => {
      const runId = '0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10';
      const events = [
        ...EVENT_KINDS.map((kind) => candidate({ kind, body: ` {"kind" :\n"${kind}"}\t` })),
        candidate({ profile: 'full', door: 'import', runId, receivedAt: 0 }),
        candidate({ organisation: 'a'.repeat(64), keyId: 'zzzzzzzzzzzz', receivedAt: 2 ** 52 }),
        candidate({ body: { text: 'Grüße, 你好, 👩🏽‍⚕️', number: 1 } }),
        candidate({ body: '"x"'.padStart(1 << 20) }),
        candidate({ body: '0' }),
      ];
      for (const batch of [events.slice(0, 1), events.slice(1, 4), events.slice(4)]) {
        expect(await append(...batch)).toEqual(batch.map(() => 'accepted'));
      }
      await expectStored(...events);
      await reopen();
      await expectStored(...events);
      const more = candidate();
      expect(await append(more)).toEqual(['accepted']);
      await expectStored(...events, more);
    });

    test('a repeat is a duplicate and is stored once: in the same batch, in a later one, and after a restart', async () => {
      const event = candidate({ body: { a: 1, b: [2, 3] } });
      const inOtherWords = (body: string) => candidate({ eventId: idOf(event), body });
      expect(await append(event, event)).toEqual(['accepted', 'duplicate']);
      expect(await append(event)).toEqual(['duplicate']);
      expect(await append(inOtherWords('{"b":[2e0,3.0], "a":1}'), candidate())).toEqual([
        'duplicate',
        'accepted',
      ]);
      await reopen();
      expect(await append(event, inOtherWords(' {"a":1,"b":[2,3]}'))).toEqual(['duplicate', 'duplicate']);
      const found = await readAll(log);
      expect(found.map(({ eventId }) => eventId === idOf(event))).toEqual([true, false]);
      expect(found[0]?.body.equals(event.body)).toBe(true);
    });

    test('a repeat whose three ids are in upper case is a duplicate, and other ids are not [R-1416]', async () => {
      const ids = { event_id: randomUUID(), run_id: randomUUID(), parent_event_id: randomUUID() };
      const { event_id: eventId, run_id: runId } = ids;
      const upper = Object.fromEntries(Object.entries(ids).map(([name, id]) => [name, id.toUpperCase()]));
      const event = candidate({ eventId, runId, body: { ...ids, outcome: {} } });
      const repeat = candidate({ eventId, runId, body: { outcome: {}, ...upper } });
      const others = [
        candidate({ eventId, runId, body: { ...upper, parent_event_id: randomUUID(), outcome: {} } }),
        candidate({ eventId, runId, body: { ...upper, parent_event_id: null, outcome: {} } }),
        candidate({ eventId, runId, body: { ...upper, outcome: { run_id: runId } } }),
      ];
      expect(await append(event, repeat)).toEqual(['accepted', 'duplicate']);
      expect(await append(repeat, ...others)).toEqual(['duplicate', 'conflict', 'conflict', 'conflict']);
      await reopen();
      expect(await append(repeat)).toEqual(['duplicate']);
      await expectStored(event);
    });

    test('the same id with other content or of another kind is a conflict, and the first one is kept', async () => {
      const event = candidate({ body: { a: 1 } });
      const eventId = idOf(event);
      const others = [
        candidate({ eventId, body: { a: 2 } }),
        candidate({ eventId, body: { a: '1' } }),
        candidate({ eventId, body: { a: 1 }, kind: 'human-output' }),
      ];
      expect(await append(event, ...others)).toEqual(['accepted', 'conflict', 'conflict', 'conflict']);
      expect(await append(...others)).toEqual(['conflict', 'conflict', 'conflict']);
      await reopen();
      expect(await append(...others, event)).toEqual(['conflict', 'conflict', 'conflict', 'duplicate']);
      await expectStored(event);
    });

    test('[R-1921] an event that the collector makes again from a span is a duplicate, whatever it says, and the first one is kept', async () => {
      const span = candidate({ door: 'otlp', body: { a: 1 } });
      const eventId = idOf(span);
      const again = candidate({
        eventId,
        door: 'otlp',
        keyId: 'other2222222',
        body: { other: [1, 'words'] },
      });
      const otherKind = candidate({ eventId, door: 'otlp', kind: 'human-output', body: { a: 1 } });
      const posted = (['endpoint', 'import'] as const).map((door) =>
        candidate({ eventId, door, body: { a: 2 } }),
      );
      const same = candidate({ eventId, body: { a: 1 } });
      const elsewhere = candidate({ eventId, door: 'otlp', organisation: 'other', body: { a: 3 } });
      const repeats = [again, otherKind, ...posted, same];
      const outcomes = ['duplicate', 'conflict', 'conflict', 'conflict', 'duplicate'];
      expect(await append(span, ...repeats, elsewhere)).toEqual(['accepted', ...outcomes, 'accepted']);
      expect(await append(...repeats)).toEqual(outcomes);
      await reopen();
      expect(await append(...repeats, elsewhere)).toEqual([...outcomes, 'duplicate']);
      await expectStored(span, elsewhere);
    });

    test('[R-1921] a span is in conflict with an event that an endpoint stored under its id with other content', async () => {
      const event = candidate({ body: { a: 1 } });
      const eventId = idOf(event);
      const [other, same] = [2, 1].map((a) => candidate({ eventId, door: 'otlp', body: { a } }));
      if (other === undefined || same === undefined) throw new Error('two were made');
      expect(await append(event, other, same)).toEqual(['accepted', 'conflict', 'duplicate']);
      await reopen();
      expect(await append(other, same)).toEqual(['conflict', 'duplicate']);
      await expectStored(event);
    });

    test('[R-1880] the door of each event is read back as it came', async () => {
      const events = DOORS.map((door) => candidate({ door }));
      await append(...events);
      await reopen();
      expect((await readAll(log)).map(({ door }) => door)).toEqual([...DOORS]);
      await expectStored(...events);
    });

    test('a repeat by another key of the organisation, received at another time, is a duplicate', async () => {
      const event = candidate({ receivedAt: 1000 });
      expect(await append(event)).toEqual(['accepted']);
      const again = { ...event, keyId: 'other2222222', receivedAt: 5, profile: 'full' } as const;
      expect(await append(again)).toEqual(['duplicate']);
      await expectStored(event);
    });

    test('the same id in two organisations is two events', async () => {
      const eventId = 'ffffffff-ffff-4fff-bfff-ffffffffffff';
      const events = ['one', 'two', 'three'].map((organisation) =>
        candidate({ eventId, organisation, body: { organisation } }),
      );
      expect(await append(...events.slice(0, 2))).toEqual(['accepted', 'accepted']);
      await reopen();
      expect(await append(...events)).toEqual(['duplicate', 'duplicate', 'accepted']);
      await expectStored(...events);
    });

    test('ids that differ in one bit are different events', async () => {
      const base = uuidBytes('0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10');
      const events = Array.from({ length: 128 }, (_, bit) => {
        const eventId = Uint8Array.from(base);
        eventId[bit >> 3] = (eventId[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        return { ...candidate({ body: { bit } }), eventId };
      });
      expect(new Set(await append(...events))).toEqual(new Set(['accepted']));
      await reopen();
      expect(new Set(await append(...events))).toEqual(new Set(['duplicate']));
      await expectStored(...events);
    });

    test('a full batch of 1,024 is stored, then all of it is repeats', async () => {
      const events = Array.from({ length: 1024 }, (_, i) => candidate({ body: { i } }));
      expect(new Set(await append(...events))).toEqual(new Set(['accepted']));
      expect(new Set(await append(...events))).toEqual(new Set(['duplicate']));
      await expectStored(...events);
    });

    test('changes by the caller to its bytes after the answer have no effect', async () => {
      const event = candidate({ body: { a: 1 } });
      const mine = { ...event, salted: Buffer.from(event.salted), eventId: Buffer.from(event.eventId) };
      await append(mine);
      mine.salted.fill(0);
      mine.eventId.fill(0);
      await append(candidate());
      expect((await readAll(log))[0]?.body.equals(event.body)).toBe(true);
      expect(await append(event)).toEqual(['duplicate']);
    });

    test('a clock that goes back changes neither the order nor which events are repeats', async () => {
      const events = [5000, 4000, 9000, 0, 1].map((receivedAt) => candidate({ receivedAt }));
      for (const event of events) await append(event);
      await expectStored(...events);
      expect(await append(...events.map((event) => ({ ...event, receivedAt: 2 })))).toEqual(
        events.map(() => 'duplicate'),
      );
    });

    test('a scan yields exactly the events that meet every condition', async () => {
      const runs = ['0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10', 'ffffffff-ffff-4fff-bfff-ffffffffffff'];
      const organisations = ['one', 'two'];
      const events = Array.from({ length: 80 }, (_, i) => {
        const runId = runs[i % 3];
        return candidate({
          kind: EVENT_KINDS[i % 5] ?? 'outcome',
          organisation: organisations[i % 2] ?? '',
          ...(runId !== undefined && { runId }),
          receivedAt: (i * 7) % 40,
        });
      });
      await append(...events.slice(0, 50));
      await append(...events.slice(50));
      const stored = events.map((event, i) => ({ sequence: i + 1, ...asStored(event) }));
      const maybe = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: undefined });
      await fc.assert(
        fc.asyncProperty(
          maybe(fc.integer({ min: 1, max: 85 })),
          maybe(fc.subarray([...EVENT_KINDS])),
          maybe(fc.constantFrom(...organisations, 'three')),
          maybe(fc.constantFrom(...runs, '00000000-0000-4000-8000-000000000000')),
          maybe(fc.nat(45)),
          maybe(fc.nat(45)),
          async (from, kinds, organisation, runId, since, until) => {
            const filter: EventFilter = {
              ...(kinds && { kinds: new Set(kinds) }),
              ...(organisation !== undefined && { organisation }),
              ...(runId !== undefined && { runId }),
              ...(since !== undefined && { since }),
              ...(until !== undefined && { until }),
            };
            const wanted = stored.filter(
              (event) =>
                event.sequence >= (from ?? 1) &&
                (kinds?.includes(event.kind as EventKind) ?? true) &&
                event.organisation === (organisation ?? event.organisation) &&
                event.runId === (runId ?? event.runId) &&
                event.receivedAt >= (since ?? 0) &&
                event.receivedAt < (until ?? Infinity),
            );
            const found = await readAll(log, filter, cursorAt(from ?? 1));
            expect(sequencesOf(found)).toEqual(sequencesOf(wanted));
          },
        ),
        { numRuns: 60 },
      );
    });

    describe('read', () => {
      /** In several batches, of some size each. */
      async function fill(count: number, bytes = 700): Promise<Made[]> {
        const runId = '0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10';
        const events = Array.from({ length: count }, (_, i) =>
          candidate({
            organisation: i % 2 === 0 ? 'one' : 'two',
            body: { i, filler: 'x'.repeat(bytes) },
            ...(i % 3 === 0 && { runId }),
          }),
        );
        for (let i = 0; i < count; i += 10) await append(...events.slice(i, i + 10));
        return events;
      }

      async function expectFound(events: readonly Made[], from = 1): Promise<void> {
        for (const [i, event] of events.entries()) {
          // A filter for entries before a sequence selects those; without one any entry matches.
          for (const before of [from + i + 1, undefined]) {
            const found = await whole().find(event.organisation, event.eventId, before);
            expect(found).toMatchObject({ sequence: from + i, runId: Buffer.from(event.runId) });
          }
          const other = event.organisation === 'one' ? 'two' : 'one';
          expect(await whole().find(other, event.eventId)).toBeUndefined();
        }
      }

      test('a pass continues where one ended, and never beyond the sequence given as durable', async () => {
        expect(await passed(log)).toEqual([[], BEGINNING]);
        expect(await log.end()).toEqual(BEGINNING);
        const events = await fill(150);
        const [all, end] = await passed(log);
        expect(all.map(({ eventId }) => eventId)).toEqual(events.map(idOf));
        expect(sequencesOf(all)).toEqual(upTo(1, 150));
        expect(end.sequence).toBe(151);
        expect(await log.end()).toEqual(end);
        expect(await passed(log, end)).toEqual([[], end]);
        let cursor = BEGINNING;
        for (const through of [1, 2, 60, 61, 61, 149, 150]) {
          const [some, next] = await passed(log, cursor, through);
          expect(sequencesOf(some)).toEqual(upTo(cursor.sequence, through));
          expect(next.sequence).toBe(through + 1);
          cursor = next;
        }
        await append(candidate(), candidate());
        expect(sequencesOf((await passed(log, cursor))[0])).toEqual([151, 152]);
        expect(sequencesOf((await passed(log, end, 151))[0])).toEqual([151]);
        await readAgain();
        expect(sequencesOf((await passed(log, end))[0])).toEqual([151, 152]);
        expect((await passed(log, cursorAt(200)))[1].sequence).toBe(153);
      });

      test('a pass begins at any sequence, whatever its hint, and continues after any entry', async () => {
        await fill(150);
        const [all] = await passed(log);
        await fc.assert(
          fc.asyncProperty(fc.integer({ min: 1, max: 151 }), fc.nat(200_000), async (from, at) => {
            expect(sequencesOf((await passed(log, { sequence: from, at }))[0])).toEqual(upTo(from, 150));
            const entry = all[from - 1];
            if (entry === undefined) return;
            const [rest] = await passed(log, cursorBehind(entry));
            expect(sequencesOf(rest)).toEqual(upTo(from + 1, 150));
          }),
          { numRuns: 60 },
        );
      });

      test('a pass that is abandoned leaves nothing open', async () => {
        await fill(20);
        for await (const batch of log.entries()) {
          for (const { sequence } of batch) if (sequence === 7) break;
          break;
        }
        expect(sequencesOf((await passed(log, cursorAt(8)))[0])).toEqual(upTo(8, 20));
      });

      test('events are read again in any order, and remain until two more have been read', async ({
        skip,
      }) => {
        if (!isWhole(log)) return skip();
        const events = await fill(150);
        const [all] = await passed(log);
        const wanted = [149, 3, 70, 4, 3, 0];
        const read = await whole().read(wanted.map((i) => all[i] ?? { at: 0, size: 0 }));
        const next = await whole().read(all.slice(20, 40));
        for (const [index, i] of wanted.entries()) {
          const event = events[i];
          expect(read.body(index)).toBe(event?.body.toString());
          const { sequence, eventId, organisation, runId } = read.facts(index);
          expect({ sequence, eventId, organisation }).toEqual({
            ...{ sequence: i + 1, eventId: event && idOf(event), organisation: event?.organisation },
          });
          expect(runId !== undefined).toBe(i % 3 === 0);
          const body = read.source.toString('utf8', read.bodyFrom(index), read.bodyTo(index));
          expect(body).toBe(event?.body.toString());
        }
        expect(next.facts(0).sequence).toBe(21);
        // An event stored after the places were listed.
        const [newer] = await fill(1);
        const [[last]] = await passed(log, cursorAt(151));
        expect((await whole().read(last ? [last] : [])).body(0)).toBe(newer?.body.toString());
      });

      test('an event is found by its id, also a new one, and without an index', async ({ skip }) => {
        if (!isWhole(log)) return skip();
        const events = await fill(60);
        await expectFound(events);
        const newer = await fill(30);
        await expectFound([...events, ...newer]);
        await reopen();
        await expectFound([...events, ...newer]);
        await store.close();
        place.loseIndex();
        await readAgain();
        await expectFound([...events, ...newer]);
        expect(await whole().find('one', candidate().eventId)).toBeUndefined();
        store = await place.open();
      });

      test('entries with an id are found in every organisation that has one', async () => {
        const [event] = await fill(20);
        const eventId = event ? idOf(event) : '';
        const other = candidate({ eventId, organisation: 'three', body: { other: true } });
        await append(other);
        const find = async (known: string[], organisation?: string) =>
          sequencesOf((await log.withId({ eventId, known, organisation })).entries);
        expect(await find([])).toEqual([1, 21]);
        expect(await find(['three', 'one', 'two'])).toEqual([1, 21]);
        expect(await find([], 'three')).toEqual([21]);
        expect(await find(['one'], 'two')).toEqual([]);
        const none = await log.withId({ eventId: idOf(candidate()), known: ['one'] });
        expect(none).toEqual({ entries: [], nextSequence: 22 });
      });

      test('a damaged entry is named, after all that come before it', async () => {
        await fill(150);
        const [all] = await passed(log);
        await store.close();
        const fix = await place.spoil(40);
        const found: number[] = [];
        const damage = await (async () => {
          const batches = isWhole(log) ? log.pass() : log.entries();
          for await (const batch of batches) for (const { sequence } of batch) found.push(sequence);
        })().catch((error: unknown) => error);
        expect(damage).toBeInstanceOf(StoreDamaged);
        expect((damage as StoreDamaged).place).toMatchObject({ sequence: 40 });
        expect((damage as StoreDamaged).message).toMatch(/, event 40: /);
        expect(found).toEqual(upTo(1, 39));
        await expect(readAll(log)).rejects.toThrow(StoreDamaged);
        if (isWhole(log)) {
          await expect(log.read(all.slice(39, 40))).rejects.toThrow(StoreDamaged);
          expect((await log.read(all.slice(38, 39))).facts(0).sequence).toBe(39);
        }
        await fix();
        store = await place.open();
      });
    });
  });
}
