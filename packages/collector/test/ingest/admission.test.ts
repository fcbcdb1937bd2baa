import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Admission, type Portion } from '../../src/ingest/admission.js';

/** A turn takes in events for 10 ms, and so many in any case. */
const LONG_MS = 20;
const MANY = 256;

let admission: Admission;
let clock = 0;
/** How long the event loop has waited for work, since the start. */
let idle = 0;

beforeEach(() => {
  vi.spyOn(performance, 'now').mockImplementation(() => clock);
  vi.spyOn(performance, 'eventLoopUtilization').mockImplementation(() => ({
    ...{ idle, active: clock - idle, utilization: 1 - idle / clock },
  }));
  admission = new Admission();
});
afterEach(() => vi.restoreAllMocks());

const key = (): Portion => ({ turn: 0, admitted: 0 });

function wait(ms: number): void {
  clock += ms;
  idle += ms;
}

/** One turn: an event of each of the keys in this order, over so long. @returns how many each key got in. */
async function turn(senders: readonly Portion[], lasting = LONG_MS): Promise<Map<Portion, number>> {
  const admitted = new Map(senders.map((sender) => [sender, 0]));
  for (const sender of senders) {
    if (admission.admits(sender, clock)) admitted.set(sender, (admitted.get(sender) ?? 0) + 1);
    clock += lasting / senders.length;
  }
  await new Promise(setImmediate);
  return admitted;
}

const times = (count: number, sender: Portion) => Array<Portion>(count).fill(sender);

/** Turn after turn with no wait between them. */
async function strain(): Promise<void> {
  const sender = key();
  for (let i = 0; i < 15; i++) await turn(times(1000, sender));
}

describe('[R-845] events that come faster than they are served', () => {
  test('are all taken in when it is a burst after quiet', async () => {
    const sender = key();
    wait(1000);
    expect((await turn(times(5000, sender), 150)).get(sender)).toBe(5000);
  });

  test('are taken in for a part of the turn, once turns follow each other without a wait', async () => {
    await strain();
    const sender = key();
    const admitted = (await turn(times(1000, sender))).get(sender) ?? 0;
    expect(admitted).toBeGreaterThanOrEqual(500);
    expect(admitted).toBeLessThanOrEqual(502);
  });

  test('are taken in up to a number however slow the machine is', async () => {
    await strain();
    const sender = key();
    expect((await turn(times(1000, sender), 10_000)).get(sender)).toBe(MANY);
  });

  test('are all taken in again when the loop had to wait for them', async () => {
    await strain();
    wait(300);
    const sender = key();
    expect((await turn(times(1000, sender))).get(sender)).toBe(1000);
  });

  test('are all taken in when turns are long, and the loop waits between them', async () => {
    const sender = key();
    for (let i = 0; i < 15; i++) {
      wait(5);
      expect((await turn(times(1000, sender), 60)).get(sender)).toBe(1000);
    }
  });
});

describe('[R-845] a key beside a greedy one', () => {
  test('is served as long as it sends less, whenever in the turn its events come', async () => {
    await strain();
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(999), { maxLength: MANY / 2 - 1 }), async (places) => {
        const [greedy, modest] = [key(), key()];
        const senders = times(1000, greedy);
        for (const place of places) senders[place] = modest;
        const admitted = await turn(senders);
        expect(admitted.get(modest) ?? 0).toBe(senders.filter((one) => one === modest).length);
        expect(admitted.get(greedy)).toBeLessThan(1000 - MANY);
      }),
    );
  });

  test('cannot make a turn endless by being many keys', async () => {
    await strain();
    const keys = Array.from({ length: 3000 }, key);
    const admitted = await turn(keys);
    const count = [...admitted.values()].reduce((sum, each) => sum + each, 0);
    expect(count).toBeGreaterThan(1500);
    expect(count).toBeLessThanOrEqual(2 * 1501);
  });
});
