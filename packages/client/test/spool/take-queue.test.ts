import { expect, test } from 'vitest';
import type { SpooledEvent } from '../../src/spool/contract.js';
import { TakeQueue } from '../../src/spool/take-queue.js';

const event = (offset: number): SpooledEvent => ({
  ...{ position: { segment: 'a', offset }, kind: 'outcome', body: Buffer.alloc(1), capturedAt: 0 },
});

test('an event that comes while an empty answer is on its way is given out', async () => {
  const events: SpooledEvent[] = [];
  let looked = false;
  const queue = new TakeQueue({
    collect: () => {
      const found = events.splice(0);
      if (!looked) {
        looked = true;
        // Between the look and the arrival of what was seen.
        queueMicrotask(() => {
          events.push(event(1));
          queue.serve();
        });
      }
      return Promise.resolve(found);
    },
    giveBack: () => undefined,
  });
  expect(await queue.take(1, 1)).toHaveLength(1);
});

test.each(['aborted', 'closed'] as const)(
  'what was collected for a call that is %s is given back',
  async (how) => {
    const back: SpooledEvent[] = [];
    let answer!: (events: SpooledEvent[]) => void;
    const queue = new TakeQueue({
      collect: () => new Promise((resolve) => (answer = resolve)),
      giveBack: (given) => back.push(given),
    });
    const stop = new AbortController();
    const taken = queue.take(1, 1, stop.signal);
    const closed = how === 'closed' ? queue.close() : undefined;
    stop.abort();
    answer([event(1), event(2)]);
    expect(await taken).toEqual([]);
    await closed;
    await new Promise((resolve) => setImmediate(resolve));
    expect(back).toEqual([event(1), event(2)]);
  },
);
