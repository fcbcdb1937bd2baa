import { randomUUID } from 'node:crypto';
import { MessageChannel } from 'node:worker_threads';
import { ENTRY_KINDS, SALT_BYTES } from '@clinical-events/protocol';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Ledger, MAX_BATCH_BYTES, MAX_BATCH_EVENTS, type LedgerState } from '../../src/ledger/ledger.js';
import { createCounterMemory, LedgerCounters } from '../../src/ledger/ledger-counters.js';
import { ownEntry } from '../../src/ledger/own-entry.js';
import { createRingMemory, RingReader, RingWriter, type Answer } from '../../src/ledger/ring.js';
import {
  CommitUnknown,
  keysUnwritable,
  NotCommitted,
  type Candidate,
  type Outcome,
  type Store,
} from '../../src/store/contract/events.js';

type Append = (batch: readonly Candidate[]) => Outcome[] | Promise<Outcome[]>;

interface Settled {
  readonly name: string;
  readonly answer: Answer;
  readonly code: string | undefined;
}

/** For what the ledger does by itself, about once a second. */
const WAIT = { timeout: 300_000, interval: 50 };

/** A ledger over a store that the test controls, with its writer in the same thread. */
class Bench {
  readonly states: [LedgerState, unknown][] = [];
  readonly batches: Candidate[][] = [];
  readonly settled: Settled[] = [];
  /** How long each event kept the thread busy. */
  readonly tookMs: number[] = [];
  closed = false;
  look: () => void = () => undefined;
  prove: () => Promise<void> = () => Promise.reject(new NotCommitted('still full'));
  proveKeys: () => Promise<void> = () => Promise.resolve();
  /** How many batches had been stored when the sequencer was closed. */
  readonly sequencedAt: number[] = [];
  readonly counters = new LedgerCounters(createCounterMemory());
  readonly ledger: Ledger;
  readonly running: Promise<void>;
  readonly #writer: RingWriter<string>;
  #waiting = 0;
  #idle: (() => void) | undefined;

  constructor(append: Append) {
    const doorbell = new SharedArrayBuffer(4);
    const memory = createRingMemory(64 << 20, 8192, doorbell);
    const { port1, port2 } = new MessageChannel();
    onTestFinished(() => port1.close());
    this.#writer = new RingWriter(memory, port1, 8 << 20, (name, answer, fault, _place, tookMs) => {
      this.tookMs.push(tookMs);
      this.settled.push({ name, answer, code: fault?.code });
      if (--this.#waiting === 0) this.#idle?.();
    });
    const store: Store = {
      concurrency: 1,
      outlivesDoubt: false,
      append: (batch) => {
        this.batches.push([...batch]);
        return append(batch);
      },
      look: () => this.look(),
      prove: () => this.prove(),
      proveKeys: () => this.proveKeys(),
      close: () => {
        this.closed = true;
        return Promise.resolve();
      },
    };
    this.ledger = new Ledger({
      ...{ store, ring: new RingReader(memory, port2), maxDepth: 64, doorbell: new Int32Array(doorbell) },
      sequencer: {
        close: () => {
          expect(this.closed).toBe(false);
          this.sequencedAt.push(this.batches.length);
          return Promise.resolve();
        },
      },
      counters: this.counters,
      onState: (state, cause) => this.states.push([state, cause]),
    });
    this.running = this.ledger.run();
  }

  send(name: string, body: string | Buffer = event(name)): void {
    const bytes = Buffer.from(body);
    const ring = this.#writer;
    if (!ring.reserve(bytes.length)) throw new Error('the ring is full');
    this.#waiting++;
    const sender = { organisation: name, keyId: 'key' };
    ring.push(name, bytes.length, 'outcome', 'minimum', 'otlp', sender, 7, [bytes]);
  }

  /** Resolves when everything that was sent has its answer. */
  async answered(): Promise<readonly Settled[]> {
    if (this.#waiting > 0) await new Promise<void>((resolve) => (this.#idle = resolve));
    return this.settled.splice(0);
  }

  async ask(...names: string[]): Promise<Answer[]> {
    for (const name of names) this.send(name);
    return (await this.answered()).map(({ answer }) => answer);
  }

  async stop(): Promise<void> {
    this.ledger.stop();
    await this.running;
  }
}

function event(filler = ''): string {
  return JSON.stringify({
    event_id: randomUUID(),
    timestamp: '2026-01-01T00:00:00Z',
    protocol_version: '0.0.1',
    system_metadata: {},
    outcome: { filler },
  });
}

const acceptAll: Append = (batch) => batch.map(() => 'accepted');

describe('the ledger', () => {
  test('answers each event with its outcome, faults included, in the order in which the events came', async () => {
    const byName: Record<string, Outcome> = { a: 'accepted', d: 'duplicate', c: 'conflict', u: 'unreadable' };
    const bench = new Bench((batch) => batch.map(({ organisation }) => byName[organisation] ?? 'accepted'));
    for (const name of ['a', 'bad', 'd', 'c', 'worse', 'u', 'a']) {
      if (name === 'bad') bench.send(name, '{');
      else if (name === 'worse') bench.send(name, Buffer.from([0xff, 0xfe]));
      else bench.send(name);
    }
    expect(await bench.answered()).toEqual([
      { name: 'a', answer: 'accepted', code: undefined },
      { name: 'bad', answer: 'fault', code: 'invalid_json' },
      { name: 'd', answer: 'accepted', code: undefined },
      { name: 'c', answer: 'conflict', code: undefined },
      { name: 'worse', answer: 'fault', code: 'invalid_encoding' },
      { name: 'u', answer: 'unreadable', code: undefined },
      { name: 'a', answer: 'accepted', code: undefined },
    ]);
    expect(bench.batches.map((batch) => batch.map(({ organisation }) => organisation))).toEqual([
      ['a', 'd', 'c', 'u', 'a'],
    ]);
    await bench.stop();
    expect(bench.closed).toBe(true);
    const { outcomes, batches } = bench.counters.read();
    expect(outcomes).toEqual({
      ...{
        accepted: 2,
        duplicate: 1,
        conflict: 1,
        erased: 0,
        unreadable: 1,
        faulty: 2,
        notCommitted: 0,
        unknown: 0,
      },
    });
    expect(batches.sum).toBe(7);
  });

  test('counts events that were not stored, and those whose outcome is unknown', async () => {
    let error: Error = new NotCommitted('full');
    const bench = new Bench(() => {
      throw error;
    });
    expect(await bench.ask('a', 'b')).toEqual(['notCommitted', 'notCommitted']);
    error = new CommitUnknown('gone');
    expect(await bench.ask('c')).toEqual(['unknown']);
    // After that the store is not called again.
    expect(await bench.ask('d', 'e')).toEqual(['unknown', 'unknown']);
    expect(bench.counters.read().outcomes).toMatchObject({ accepted: 0, notCommitted: 2, unknown: 3 });
    await bench.stop();
  });

  test('does not call the store when no event was valid', async () => {
    const bench = new Bench(acceptAll);
    bench.send('bad', 'x');
    expect((await bench.answered()).map(({ answer }) => answer)).toEqual(['fault']);
    expect(bench.batches).toEqual([]);
    await bench.stop();
  });

  test('collects events that come during a flush in one batch, limited in number and in bytes', async () => {
    let release: (() => void) | undefined;
    const bench = new Bench(async (batch) => {
      if (bench.batches.length === 1) await new Promise<void>((resolve) => (release = resolve));
      return batch.map(() => 'accepted');
    });
    bench.send('first');
    while (!release) await new Promise(setImmediate);
    for (let i = 0; i < 2500; i++) bench.send('many');
    await new Promise(setImmediate);
    release();
    expect((await bench.answered()).length).toBe(2501);
    expect(bench.batches.map((batch) => batch.length)).toEqual([1, MAX_BATCH_EVENTS, MAX_BATCH_EVENTS, 452]);

    const size = MAX_BATCH_BYTES / 4;
    for (let i = 0; i < 10; i++) bench.send('large', event('x'.repeat(size)));
    await bench.answered();
    for (const batch of bench.batches.slice(4)) {
      const size = ({ salted }: Candidate) => salted.length - SALT_BYTES;
      const bytes = batch.reduce((sum, event) => sum + size(event), 0);
      const last = batch.at(-1);
      // The event that reaches the limit still belongs to the batch.
      expect(bytes - (last ? size(last) : 0)).toBeLessThan(MAX_BATCH_BYTES);
    }
    await bench.stop();
  });

  test('[R-409] refuses while the store cannot commit, tries each batch, and is open again after the first new stored event', async () => {
    let full = true;
    const cause = new NotCommitted('no space');
    const bench = new Bench((batch) => {
      if (batch.every(({ organisation }) => organisation === 'repeat')) return batch.map(() => 'duplicate');
      if (full) throw cause;
      return acceptAll(batch);
    });
    expect(await bench.ask('a', 'b')).toEqual(['notCommitted', 'notCommitted']);
    expect(await bench.ask('a')).toEqual(['notCommitted']);
    expect(bench.states).toEqual([['refusing', cause]]);
    // A repeat writes nothing, so it does not test the disk.
    expect(await bench.ask('repeat')).toEqual(['accepted']);
    expect(bench.states.length).toBe(1);
    full = false;
    expect(await bench.ask('a', 'repeat')).toEqual(['accepted', 'accepted']);
    expect(bench.states).toEqual([
      ['refusing', cause],
      ['open', undefined],
    ]);
    await bench.stop();
  });

  test('[R-718] stores an entry of the log’s own in a separate batch, and does not count it as an event', async () => {
    const bench = new Bench(acceptAll);
    const entry = ownEntry(ENTRY_KINDS.accessLogHead, 'accesslog000', { lines: 1 });
    for (const name of ['a', 'b']) bench.send(name);
    await bench.ledger.append(entry);
    await bench.answered();
    expect(bench.batches.filter((batch) => batch.includes(entry))).toEqual([[entry]]);
    const { outcomes, batches } = bench.counters.read();
    expect([outcomes.accepted, batches.sum]).toEqual([2, 2]);
    // Also while nothing else comes.
    await bench.ledger.append(ownEntry(ENTRY_KINDS.accessLogHead, 'accesslog000', { lines: 2 }));
    expect(bench.batches.at(-1)).toHaveLength(1);
    await bench.stop();
    expect(bench.sequencedAt).toEqual([bench.batches.length]);
  });

  test('[R-718] accepts events as before when an entry of the log’s own could not be stored', async () => {
    const cause = new NotCommitted('no space');
    const bench = new Bench((batch) => {
      if (batch.some(({ kind }) => typeof kind === 'number')) throw cause;
      return acceptAll(batch);
    });
    const entry = ownEntry(ENTRY_KINDS.accessLogHead, 'accesslog000', {});
    await expect(bench.ledger.append(entry)).rejects.toBe(cause);
    expect(await bench.ask('a')).toEqual(['accepted']);
    expect(bench.states).toEqual([]);
    await bench.stop();
  });

  test('has failed for good when it is unknown whether an entry of the log’s own was stored', async () => {
    const cause = new CommitUnknown('a flush failed');
    const bench = new Bench(() => {
      throw cause;
    });
    const entry = () => ownEntry(ENTRY_KINDS.accessLogHead, 'accesslog000', {});
    await expect(bench.ledger.append(entry())).rejects.toBe(cause);
    expect(await bench.ask('a')).toEqual(['unknown']);
    await expect(bench.ledger.append(entry())).rejects.toThrow('has failed');
    expect(bench.batches).toHaveLength(1);
    expect(bench.states).toEqual([['failed', cause]]);
    await bench.stop();
  });
  test('[R-604] is open again without an event once the store has proved that it can store', async () => {
    const cause = new NotCommitted('no space');
    const bench = new Bench(() => {
      throw cause;
    });
    let full = true;
    let tries = 0;
    bench.prove = () => (tries++, full ? Promise.reject(new NotCommitted('still none')) : Promise.resolve());
    expect(await bench.ask('a')).toEqual(['notCommitted']);
    await vi.waitFor(() => expect(tries).toBe(1), WAIT);
    expect(bench.states).toEqual([['refusing', cause]]);
    full = false;
    await vi.waitFor(() => expect(bench.states.length).toBe(2), WAIT);
    expect(bench.states[1]).toEqual(['open', undefined]);
    await bench.stop();
  });

  test('[R-1323] refuses before the first event where no key can be written, until one can', async () => {
    const cause = keysUnwritable(new Error('EROFS'));
    const bench = new Bench(acceptAll);
    let isAway = true;
    bench.proveKeys = () => Promise.reject(cause);
    bench.prove = () => (isAway ? Promise.reject(cause) : Promise.resolve());
    await bench.ledger.proveKeys();
    expect(bench.states).toEqual([['refusing', cause]]);
    isAway = false;
    await vi.waitFor(() => expect(bench.states.at(-1)).toEqual(['open', undefined]), WAIT);
    await bench.stop();
  });

  test('[R-1435] refuses without an event while a look at the store finds that no event could be stored', async () => {
    const bench = new Bench(acceptAll);
    const cause = new NotCommitted('no standby');
    bench.look = () => {
      throw cause;
    };
    await vi.waitFor(() => expect(bench.states).toEqual([['refusing', cause]]), WAIT);
    bench.look = () => undefined;
    bench.prove = () => Promise.resolve();
    await vi.waitFor(() => expect(bench.states.at(-1)).toEqual(['open', undefined]), WAIT);
    await bench.stop();
  });

  test('[R-605] has failed once a look at the store finds it changed, with no event and with the next one', async () => {
    const bench = new Bench(acceptAll);
    expect(await bench.ask('a')).toEqual(['accepted']);
    const cause = new CommitUnknown('the segment was removed');
    bench.look = () => {
      throw cause;
    };
    await vi.waitFor(() => expect(bench.states).toEqual([['failed', cause]]), WAIT);
    expect(await bench.ask('b')).toEqual(['unknown']);
    expect(bench.batches.length).toBe(1);
    await bench.stop();
  });

  test.each<[string, () => Error, boolean]>([
    ['cannot know what it committed', () => new CommitUnknown('a flush failed'), false],
    ['throws anything else', () => new TypeError('a fault of ours'), false],
    ['rejects', () => new Error('later'), true],
  ])('has failed for good once the store %s, and reports nothing as stored', async (_, failureOf, later) => {
    const failure = failureOf();
    let failing = false;
    const bench = new Bench((batch) => {
      if (!failing) return acceptAll(batch);
      if (later) return Promise.reject(failure);
      throw failure;
    });
    expect(await bench.ask('a')).toEqual(['accepted']);
    failing = true;
    expect(await bench.ask('a', 'b')).toEqual(['unknown', 'unknown']);
    failing = false;
    const { length } = bench.batches;
    expect(await bench.ask('c', 'd')).toEqual(['unknown', 'unknown']);
    expect(bench.batches.length).toBe(length);
    expect(bench.states.map(([state]) => state)).toEqual(['failed']);
    expect(bench.states[0]?.[1]).toBeInstanceOf(CommitUnknown);
    await bench.stop();
  });

  test('answers "unknown" to events for which the store returned no outcome, or an undefined one', async () => {
    const bench = new Bench(() => ['accepted', 'stored!' as Outcome]);
    expect(await bench.ask('a', 'b', 'c')).toEqual(['accepted', 'unknown', 'unknown']);
    await bench.stop();
  });

  test('answers everything that was published before a stop, then closes the store', async () => {
    const bench = new Bench(async (batch) => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(bench.closed).toBe(false);
      return acceptAll(batch);
    });
    for (let i = 0; i < 3000; i++) bench.send('a');
    await new Promise(setImmediate);
    const stopped = bench.stop();
    const answers = await bench.answered();
    expect(answers.map(({ answer }) => answer)).toEqual(Array.from({ length: 3000 }, () => 'accepted'));
    await stopped;
    expect(bench.closed).toBe(true);
  });
});

test('[R-845] an answer says how long its event was examined and compared', async () => {
  const bench = new Bench((batch) => {
    for (const candidate of batch) candidate.comparedMs = 1000;
    return batch.map(() => 'duplicate');
  });
  expect(await bench.ask('compared')).toEqual(['accepted']);
  bench.send('faulty', `[${'{},'.repeat(300_000)}{}]`);
  expect(await bench.answered()).toMatchObject([{ answer: 'fault' }]);
  const [compared = 0, examined = 0] = bench.tookMs;
  expect(compared).toBeGreaterThanOrEqual(1000);
  expect(examined).toBeGreaterThan(0.1);
  await bench.stop();
});
