import assert from 'node:assert/strict';
import { MessageChannel, receiveMessageOnPort, type MessagePort } from 'node:worker_threads';
import { DOORS, EVENT_KINDS, PROFILES, SALT_BYTES } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Fault } from '../../src/ledger/examine.js';
import {
  ANSWER,
  createRingMemory,
  RingReader,
  RingWriter,
  type Answer,
  type Answered,
} from '../../src/ledger/ring.js';
import { runs } from '../../../../test/property-runs.js';

interface Settled {
  readonly event: number;
  readonly answer: Answer;
  readonly fault: Fault | undefined;
}

/** Both ends of one ring in one thread; messages are carried by hand, so that a test decides when. */
class Pair {
  readonly settled: Settled[] = [];
  readonly writer: RingWriter<{ event: number }>;
  readonly reader: RingReader;
  readonly doorbell = new SharedArrayBuffer(4);
  readonly #sent: Answered[] = [];
  #deliver: (message: Answered) => void = () => undefined;

  constructor(bytes: number, events: number, maxBodyBytes: number) {
    const memory = createRingMemory(bytes, events, this.doorbell);
    const deaf = { on: (_: string, deliver: (message: Answered) => void) => (this.#deliver = deliver) };
    this.writer = new RingWriter(
      memory,
      deaf as unknown as MessagePort,
      maxBodyBytes,
      ({ event }, answer, fault) => this.settled.push({ event, answer, fault }),
    );
    const out = { postMessage: (message: Answered) => this.#sent.push(message) };
    this.reader = new RingReader(memory, out as unknown as MessagePort);
  }

  deliver(): void {
    for (const message of this.#sent.splice(0)) this.#deliver(structuredClone(message));
  }
}

const body = (event: number, size: number) => Buffer.alloc(size, `${event}.`);

function push(pair: Pair, event: number, bytes: Buffer, reserved = bytes.length): void {
  pair.writer.push(
    { event },
    reserved,
    EVENT_KINDS[event % 5] ?? 'outcome',
    PROFILES[event % 2] ?? 'minimum',
    DOORS[event % 3] ?? 'endpoint',
    { organisation: `org-${event % 7}`, keyId: `key-${event % 11}` },
    1000.5 + event,
    [bytes.subarray(0, event % 3), bytes.subarray(event % 3)],
  );
}

const faultOf = (event: number): Fault => ({ code: 'invalid_json', details: { event } });

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

describe('a ring', () => {
  test('never overflows, loses, changes or reorders an event, whatever the order of its calls', async () => {
    const maxBody = 200;
    type Call =
      | { readonly call: 'reserve'; readonly size: number; readonly first: number }
      | { readonly call: 'extend' | 'push' | 'release'; readonly pick: number }
      | { readonly call: 'take' | 'answer'; readonly count: number }
      | { readonly call: 'send' | 'deliver' | 'turn' };
    const call: fc.Arbitrary<Call> = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({
          call: fc.constant('reserve' as const),
          size: fc.oneof(fc.nat(maxBody), fc.integer({ min: maxBody - 20, max: maxBody })),
          first: fc.nat(maxBody),
        }),
      },
      {
        weight: 6,
        arbitrary: fc.record({
          call: fc.constantFrom('extend' as const, 'push' as const, 'push' as const, 'release' as const),
          pick: fc.nat(),
        }),
      },
      {
        weight: 4,
        arbitrary: fc.record({
          call: fc.constantFrom('take' as const, 'answer' as const),
          count: fc.nat(8),
        }),
      },
      {
        weight: 4,
        arbitrary: fc.record({
          call: fc.constantFrom('send' as const, 'deliver' as const, 'turn' as const),
        }),
      },
    );
    let wrapped = 0;
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(call, { maxLength: 400, size: 'max' }),
        fc.integer({ min: 2 * (maxBody + 128), max: 3000 }),
        fc.integer({ min: 1, max: 20 }),
        async (calls, bytes, capacity) => {
          const pair = new Pair(bytes, capacity, maxBody);
          const limit = 2 ** Math.ceil(Math.log2(capacity));
          /** Reservations: what the event will have, what is reserved. */
          const open: { size: number; reserved: number }[] = [];
          const pushed: Buffer[] = [];
          const held: Buffer[] = [];
          const answers: Answer[] = [];
          let taken = 0;
          let pushedBytes = 0;
          let checked = 0;
          // Tens of thousands of checks: too many for `expect`.
          const check = () => {
            assert.equal(pair.writer.pending, open.length + pushed.length - pair.settled.length);
            assert.ok(pair.writer.pending <= limit);
            for (; checked < pair.settled.length; checked++) {
              const given = answers[checked];
              const fault = given === 'fault' ? faultOf(checked) : undefined;
              assert.deepEqual(pair.settled[checked], { event: checked, answer: given, fault });
            }
            // No unanswered event has been overwritten.
            for (let i = checked; i < held.length; i++) {
              assert.ok(held[i]?.equals(pushed[i] ?? Buffer.alloc(0)), `event ${i}`);
            }
          };
          const take = () => {
            const queued = pair.reader.take();
            if (!queued) return false;
            const event = taken++;
            expect(queued).toMatchObject({
              ...{ kind: EVENT_KINDS[event % 5], profile: PROFILES[event % 2], door: DOORS[event % 3] },
              ...{ organisation: `org-${event % 7}`, keyId: `key-${event % 11}`, receivedAt: 1000.5 + event },
            });
            // What the reader writes into the room for the salt has no effect.
            queued.salted.fill(0xff, 0, SALT_BYTES);
            held.push(queued.salted.subarray(SALT_BYTES));
            return true;
          };
          const answer = () => {
            if (answers.length === taken) return;
            const names = Object.keys(ANSWER) as Answer[];
            const given = names[(answers.length * 5) % names.length] ?? 'accepted';
            const event = answers.length;
            answers.push(given);
            if (given === 'fault') pair.reader.answer(given, faultOf(event));
            else pair.reader.answer(given);
          };
          for (const each of calls) {
            if (each.call === 'reserve') {
              const reserved = Math.min(each.size, each.first);
              if (pair.writer.reserve(reserved)) open.push({ size: each.size, reserved });
              else refused++;
            } else if (each.call === 'take') {
              for (let i = 0; i < each.count; i++) take();
            } else if (each.call === 'answer') {
              for (let i = 0; i < each.count; i++) answer();
            } else if (each.call === 'send') pair.reader.send();
            else if (each.call === 'deliver') pair.deliver();
            else if (each.call === 'turn') await nextTurn();
            else if ('pick' in each && open.length > 0) {
              const at = each.pick % open.length;
              const [mine = { size: 0, reserved: 0 }] = open.splice(at, 1);
              if (each.call === 'release') pair.writer.release(mine.reserved);
              else if (mine.size > mine.reserved) {
                if (pair.writer.extend(mine.size - mine.reserved)) mine.reserved = mine.size;
                else refused++;
                open.push(mine);
              } else if (each.call === 'push') {
                const bytes = body(pushed.length, mine.size);
                push(pair, pushed.length, bytes, mine.reserved);
                pushed.push(bytes);
                pushedBytes += mine.size;
              } else open.push(mine);
            }
            check();
          }
          await nextTurn();
          while (take());
          expect(taken).toBe(pushed.length);
          while (answers.length < taken) answer();
          pair.reader.send();
          pair.deliver();
          check();
          expect(pair.settled.length).toBe(pushed.length);
          for (const { reserved } of open) pair.writer.release(reserved);
          expect(pair.writer.pending).toBe(0);
          // Everything reserved was released: as much fits as at first.
          const fresh = new Pair(bytes, capacity, maxBody);
          const fits = (writer: RingWriter<unknown>) => {
            let count = 0;
            while (writer.reserve(maxBody)) count++;
            return count;
          };
          expect(fits(pair.writer)).toBe(fits(fresh.writer));
          wrapped += Math.floor(pushedBytes / bytes);
        },
      ),
      { numRuns: runs(1000) },
    );
    expect(wrapped).toBeGreaterThan(runs(50));
    expect(refused).toBeGreaterThan(runs(50));
  });

  test('[R-409] refuses when its bytes or its slots are reserved, and has room again after the answers', async () => {
    const pair = new Pair(8 * (1000 + 128), 1024, 1000);
    let promised = 0;
    while (pair.writer.reserve(1000)) promised++;
    // One largest event's room is kept for what a wrap skips.
    expect(promised).toBe(7);
    expect(pair.writer.reserve(0)).toBe(false);
    expect(pair.writer.extend(1)).toBe(false);
    for (let i = 0; i < promised; i++) push(pair, i, body(i, 1000));
    // A key is shorter than what is set aside for it; the rest of that is free again.
    const nobody = { organisation: '', keyId: '' };
    while (pair.writer.reserve(0)) {
      pair.writer.push({ event: promised }, 0, 'outcome', 'full', 'endpoint', nobody, 0, []);
      promised++;
    }
    expect(pair.writer.reserve(500)).toBe(false);
    await nextTurn();
    while (pair.reader.take()) pair.reader.answer('accepted');
    expect(pair.writer.reserve(500)).toBe(false);
    pair.reader.send();
    pair.deliver();
    expect(pair.settled.length).toBe(promised);
    expect(pair.writer.reserve(1000)).toBe(true);

    const slots = new Pair(1 << 20, 5, 1000);
    for (let i = 0; i < 8; i++) expect(slots.writer.reserve(1)).toBe(true);
    expect(slots.writer.reserve(1)).toBe(false);
    slots.writer.release(1);
    expect(slots.writer.reserve(1)).toBe(true);
  });

  test('begins at its start again also after an event that ends exactly at its end', async () => {
    const pair = new Pair(2 * (1000 + 128), 16, 1000);
    const sender = { organisation: 'o', keyId: 'k' };
    for (const [event, size] of [1000, 1000, 250, 300].entries()) {
      expect(pair.writer.reserve(size)).toBe(true);
      pair.writer.push({ event }, size, 'outcome', 'full', 'endpoint', sender, 0, [body(event, size)]);
      await nextTurn();
      const queued = pair.reader.take();
      expect(queued).toMatchObject(sender);
      expect(queued?.salted.subarray(SALT_BYTES).equals(body(event, size))).toBe(true);
      pair.reader.answer('accepted');
      pair.reader.send();
      pair.deliver();
    }
    expect(pair.settled.length).toBe(4);
  });

  test('shows its reader nothing before it is published, and rings the doorbell when it is', async () => {
    const pair = new Pair(1 << 20, 256, 1000);
    const bell = new Int32Array(pair.doorbell);
    for (let i = 0; i < 63; i++) {
      pair.writer.reserve(10);
      push(pair, i, body(i, 10));
    }
    expect(pair.reader.take()).toBeUndefined();
    expect(Atomics.load(bell, 0)).toBe(0);
    pair.writer.reserve(10);
    push(pair, 63, body(63, 10));
    // The 64th is not made to wait for the end of the turn.
    expect(Atomics.load(bell, 0)).toBe(1);
    for (let i = 0; i < 64; i++) expect(pair.reader.take()?.receivedAt).toBe(1000.5 + i);
    pair.writer.reserve(10);
    push(pair, 64, body(64, 10));
    await nextTurn();
    expect(pair.reader.take()?.receivedAt).toBe(1064.5);
    expect(pair.reader.take()).toBeUndefined();
    expect(Atomics.load(bell, 0)).toBe(2);
  });

  test('is crowded while more than half of it is reserved or in use, in bytes or in number', () => {
    const pair = new Pair(1 << 20, 16, 1000);
    expect(pair.writer.crowded).toBe(false);
    pair.writer.reserve(600_000);
    expect(pair.writer.crowded).toBe(true);
    pair.writer.release(600_000);
    for (let i = 0; i < 8; i++) pair.writer.reserve(1);
    expect(pair.writer.crowded).toBe(false);
    pair.writer.reserve(1);
    expect(pair.writer.crowded).toBe(true);
    // Until the answer, not until the event has come.
    push(pair, 0, body(0, 1));
    expect(pair.writer.crowded).toBe(true);
    pair.reader.take();
    pair.reader.answer('accepted');
    pair.reader.send();
    pair.deliver();
    expect(pair.writer.crowded).toBe(false);
  });

  test('sends nothing when nothing was answered, and one message for many answers', () => {
    const { port1, port2 } = new MessageChannel();
    onTestFinished(() => port1.close());
    const memory = createRingMemory(4096, 4, new SharedArrayBuffer(4));
    const reader = new RingReader(memory, port1);
    reader.send();
    reader.answer('accepted');
    reader.answer('fault', { code: 'invalid_json' });
    reader.send();
    reader.send();
    expect(receiveMessageOnPort(port2)).toEqual({
      message: { upTo: 2, faults: [[1, { code: 'invalid_json' }]] },
    });
    expect(receiveMessageOnPort(port2)).toBeUndefined();
  });
});
