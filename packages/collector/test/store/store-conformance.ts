/** What every driver of the store must do (src/store/store.ts), as one suite to be run over each of them. */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type {
  Candidate,
  EventSource,
  Outcome,
  ScanRange,
  Store,
  StoredEntry,
  StoredEvent,
} from '../../src/store/store.js';
import { candidate, envelopeOf, idOf, uuidBytes, type Made } from './candidate.js';

/** One place where events can be kept, empty at first. */
interface Place {
  /** Opens it for appending; never more than one at a time is open. */
  open(): Promise<Store>;
  readonly source: EventSource;
  /** Removes everything. Called with no store open. */
  remove(): Promise<void>;
}

export interface Driver {
  readonly name: string;
  makePlace(): Promise<Place>;
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

/** What an event must look like when it is read, but for its sequence. */
function asStored(event: Made): Omit<Readable, 'sequence'> {
  const { kind, profile, organisation, keyId, receivedAt } = event;
  const text = (id: Uint8Array) =>
    id.some((byte) => byte !== 0) ? idOf({ ...event, eventId: id }) : undefined;
  const [runId, parentId] = [text(event.runId), text(event.parentId)];
  return {
    ...{ kind, profile, organisation, keyId, receivedAt, runId, parentId },
    eventId: idOf(event),
    payloadState: 'plain',
    body: event.body.toString('base64'),
    salted: Buffer.from(event.salted).toString('base64'),
    commitment: Buffer.from(event.commitment).toString('base64'),
    envelope: envelopeOf(event).toString('base64'),
  };
}

async function readAll(source: EventSource, range: ScanRange = {}): Promise<StoredEvent[]> {
  const found: StoredEvent[] = [];
  for await (const event of source.scan(range)) {
    const { body, salted, commitment, envelope } = event;
    const copy = (bytes: Buffer) => Buffer.from(bytes);
    found.push({
      ...event,
      ...{ body: copy(body), salted: copy(salted), commitment: copy(commitment), envelope: copy(envelope) },
    });
  }
  return found;
}

export function storeConformance(driver: Driver): void {
  describe(`the store contract, kept by ${driver.name}`, () => {
    let place: Place;
    let store: Store;

    beforeEach(async () => {
      place = await driver.makePlace();
      store = await place.open();
    });

    afterEach(async () => {
      await store.close();
      await place.remove();
    });

    async function append(...batch: Candidate[]): Promise<Outcome[]> {
      return store.append(batch);
    }

    async function reopen(): Promise<void> {
      await store.close();
      store = await place.open();
    }

    /** Reads everything and compares it with these events in this order, counted from 1. */
    async function expectStored(...events: Made[]): Promise<void> {
      const found = await readAll(place.source);
      expect(found.map(readable)).toEqual(
        events.map((event, i) => ({ sequence: i + 1, ...asStored(event) })),
      );
    }

    test("[R-901] the log's own entries have a sequence and are no events, also those of an unknown kind", async () => {
      const events = [candidate(), candidate()];
      const [first, second] = events as [Made, Made];
      const ownOf = (kind: number) => ({ ...candidate({ organisation: '' }), kind });
      const [head, unknown] = [ownOf(0x81), ownOf(0xff)];
      expect(await append(first, head)).toEqual(['accepted', 'accepted']);
      expect(await append(unknown, second, head)).toEqual(['accepted', 'accepted', 'duplicate']);
      await reopen();
      const all: StoredEntry[] = [];
      for await (const { sequence, kind, eventId } of place.source.entries({})) {
        all.push({ sequence, kind, eventId } as StoredEntry);
      }
      expect(all).toEqual(
        [first, head, unknown, second].map((event, i) => ({
          ...{ sequence: i + 1, kind: event.kind, eventId: idOf(event) },
        })),
      );
      const found = await readAll(place.source);
      expect(found.map(({ sequence }) => sequence)).toEqual([1, 4]);
      expect(await readAll(place.source, { eventId: idOf(head) })).toEqual([]);
    });

    test('a new store holds nothing', async () => {
      await expectStored();
      expect(await append()).toEqual([]);
      await expectStored();
    });

    test('events are given back with every field and the exact bytes, in the order of their batches', async () => {
      const runId = '0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10';
      const events = [
        ...EVENT_KINDS.map((kind) => candidate({ kind, body: ` {"kind" :\n"${kind}"}\t` })),
        candidate({ profile: 'full', runId, receivedAt: 0 }),
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
      const found = await readAll(place.source, { from: 1 });
      expect(found.map(({ eventId }) => eventId === idOf(event))).toEqual([true, false]);
      expect(found[0]?.body.equals(event.body)).toBe(true);
    });

    test('the same id with other content or of another kind is a conflict, and the first one stands', async () => {
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

    test('a repeat by another key of the organisation, received at another time, is a duplicate', async () => {
      const event = candidate({ receivedAt: 1000 });
      expect(await append(event)).toEqual(['accepted']);
      const again = { ...event, keyId: 'other2222222', receivedAt: 5, profile: 'full' } as const;
      expect(await append(again)).toEqual(['duplicate']);
      await expectStored(event);
    });

    test('one organisation never meets the ids of another', async () => {
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

    test('what the caller does with its bytes after the answer changes nothing', async () => {
      const event = candidate({ body: { a: 1 } });
      const mine = { ...event, salted: Buffer.from(event.salted), eventId: Buffer.from(event.eventId) };
      await append(mine);
      mine.salted.fill(0);
      mine.eventId.fill(0);
      await append(candidate());
      expect((await readAll(place.source))[0]?.body.equals(event.body)).toBe(true);
      expect(await append(event)).toEqual(['duplicate']);
    });

    test('a clock that goes back changes neither the order nor what is a repeat', async () => {
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
            const range: ScanRange = {
              ...(from !== undefined && { from }),
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
            const found = await readAll(place.source, range);
            expect(found.map(({ sequence }) => sequence)).toEqual(wanted.map(({ sequence }) => sequence));
          },
        ),
        { numRuns: 60 },
      );
    });
  });
}
