import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { SinkQueue, type SinkQueueOptions } from '../../src/tree/sink-queue.js';
import { SinkForked, SinkTrouble, type Attempt, type Published, type Sink } from '../../src/tree/sink.js';

/** Checkpoints without a note: a queue looks at their sizes only. */
function published(size: number): Published {
  return { note: '', checkpoint: { origin: 'log.example', size, root: new Uint8Array(32) } };
}

/** A sink that does what a test says. */
class ScriptedSink implements Sink {
  readonly shown = 'dir:/mnt/worm';
  /** Sizes, one a try. */
  readonly tries: number[] = [];
  /** Sizes that it holds. */
  readonly has: number[] = [];
  attempt: Attempt | undefined;
  act: (attempt: Attempt) => Promise<void> = () => Promise.resolve();

  constructor(readonly wants: 'every' | 'newest' = 'every') {}

  async deliver({ checkpoint: { size } }: Published, attempt: Attempt): Promise<void> {
    this.tries.push(size);
    this.attempt = attempt;
    await this.act(attempt);
    this.has.push(size);
  }
}

function fails(message = 'is down'): Promise<never> {
  return Promise.reject(new SinkTrouble(message));
}

const never = (): Promise<void> => new Promise(() => undefined);

function queueOf(sink: Sink, options: Partial<SinkQueueOptions> = {}) {
  const told = {
    onTrouble: vi.fn(),
    onForked: vi.fn(),
    onLost: vi.fn(),
    onRecovered: vi.fn(),
    onState: vi.fn(),
  };
  const retryPolicy = { firstMs: 1000, mostMs: 60_000 };
  const queue = new SinkQueue(sink, { retryPolicy, before: undefined, now: Date.now, ...told, ...options });
  return { queue, ...told };
}

const START = Date.UTC(2026, 0, 1);
const AT_START = '2026-01-01T00:00:00.000Z';

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  vi.spyOn(Math, 'random').mockReturnValue(1);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Runs everything that does not wait for a timer. */
const settle = () => vi.advanceTimersByTimeAsync(0);

describe('a queue', () => {
  test('delivers every checkpoint in order, and its state names the last', async () => {
    const sink = new ScriptedSink();
    const { queue, onTrouble, onRecovered, onState } = queueOf(sink);
    expect(queue.state).toBeUndefined();
    for (const size of [1, 2, 3]) queue.offer(published(size));
    expect(sink.tries).toEqual([]);
    await settle();
    queue.offer(published(4));
    await settle();
    expect(sink.tries).toEqual([1, 2, 3, 4]);
    expect(queue.state).toEqual({ sink: sink.shown, state: 'ok', size: 4, at: AT_START, dropped: 0 });
    expect(onState.mock.calls).toEqual([[true], [false], [false], [false]]);
    expect([onTrouble, onRecovered].map((told) => told.mock.calls.length)).toEqual([0, 0]);
  });

  test('delivers only the newest, where the sink wants no others', async () => {
    const sink = new ScriptedSink('newest');
    const { queue } = queueOf(sink);
    queue.offer(published(1));
    await settle();
    let release: () => void = () => undefined;
    sink.act = () => new Promise((resolve) => (release = resolve));
    for (const size of [2, 3]) queue.offer(published(size));
    await settle();
    for (const size of [4, 5]) queue.offer(published(size));
    sink.act = () => Promise.resolve();
    release();
    await settle();
    expect(sink.tries).toEqual([1, 3, 5]);
  });

  test('[R-906] tries a failing sink again after 1, 2, 4 and up to 60 seconds, and from 1 second after it recovered', async () => {
    const sink = new ScriptedSink();
    const { queue, onTrouble, onRecovered } = queueOf(sink);
    sink.act = () => fails();
    queue.offer(published(1));
    await settle();
    for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
      const before = sink.tries.length;
      await vi.advanceTimersByTimeAsync(seconds * 1000 - 1);
      expect(sink.tries).toHaveLength(before);
      await vi.advanceTimersByTimeAsync(1);
      expect(sink.tries).toHaveLength(before + 1);
    }
    expect(onTrouble.mock.calls).toEqual([['is down']]);
    sink.act = () => Promise.resolve();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(onRecovered).toHaveBeenCalledTimes(1);
    sink.act = () => fails();
    queue.offer(published(2));
    await settle();
    const before = sink.tries.length;
    await vi.advanceTimersByTimeAsync(1000);
    expect(sink.tries).toHaveLength(before + 1);
  });

  test('reports when trouble begins and when it changes, and its state has the time of the beginning', async () => {
    const sink = new ScriptedSink();
    const { queue, onTrouble, onForked } = queueOf(sink);
    queue.offer(published(1));
    await settle();
    vi.setSystemTime(START + 5000);
    sink.act = () => fails('is down');
    queue.offer(published(2));
    await vi.advanceTimersByTimeAsync(3000);
    sink.act = () => fails('is full');
    await vi.advanceTimersByTimeAsync(4000);
    sink.act = () => Promise.reject(new SinkForked('is another'));
    await vi.advanceTimersByTimeAsync(8000);
    expect(onTrouble.mock.calls).toEqual([['is down'], ['is full']]);
    expect(onForked.mock.calls).toEqual([['is another']]);
    expect(queue.state).toEqual({
      ...{ sink: sink.shown, state: 'forked', size: 1, at: AT_START, dropped: 0 },
      ...{ failing_since: '2026-01-01T00:00:05.000Z', message: 'is another' },
    });
  });
});

describe('a queue', () => {
  test('[R-906] gives a sink the size that it accepted last, and records when the sink has lost it', async () => {
    const sink = new ScriptedSink();
    const { queue, onLost } = queueOf(sink, { before: { sink: sink.shown, state: 'ok', size: 7 } });
    sink.act = ({ lost }) => {
      lost();
      return Promise.resolve();
    };
    queue.offer(published(8));
    await settle();
    expect(sink.attempt?.delivered).toBe(7);
    expect(onLost).toHaveBeenCalledTimes(1);
    expect(queue.state).toMatchObject({ state: 'ok', size: 8, lost_at: AT_START });
  });

  test('that is full drops the oldest, never the one in delivery or the newest, and counts them', async () => {
    const sink = new ScriptedSink();
    const { queue, onState } = queueOf(sink);
    let fail: (error: Error) => void = () => undefined;
    sink.act = () => new Promise((_, reject) => (fail = reject));
    queue.offer(published(0));
    await settle();
    for (let size = 1; size < 1500; size++) queue.offer(published(size));
    expect(onState).toHaveBeenCalledTimes(500);
    fail(new SinkTrouble('is down'));
    await settle();
    expect(queue.state).toMatchObject({ state: 'failing', dropped: 500 });
    sink.act = () => Promise.resolve();
    await vi.advanceTimersByTimeAsync(1000);
    expect(sink.has).toEqual([0, ...Array.from({ length: 999 }, (_, i) => 501 + i)]);
    expect(queue.state).toMatchObject({ state: 'ok', size: 1499, dropped: 500 });
  });
});

describe('a queue that is closed', () => {
  test('delivers all waiting checkpoints, without a delay between tries', async () => {
    const sink = new ScriptedSink();
    const { queue } = queueOf(sink);
    sink.act = () => fails();
    queue.offer(published(1));
    await vi.advanceTimersByTimeAsync(20_000);
    queue.offer(published(2));
    sink.act = () => Promise.resolve();
    await queue.close();
    queue.abandon();
    expect(sink.has).toEqual([1, 2]);
    expect(queue.state).toMatchObject({ state: 'ok', size: 2, dropped: 0 });
    queue.offer(published(3));
    await settle();
    expect(sink.has).toEqual([1, 2]);
  });

  test('tries a failing sink once more, and counts the checkpoints that it does not get', async () => {
    const sink = new ScriptedSink();
    const { queue } = queueOf(sink);
    let fail: (error: Error) => void = () => undefined;
    sink.act = () => new Promise((_, reject) => (fail = reject));
    queue.offer(published(1));
    await settle();
    queue.offer(published(2));
    const closing = queue.close();
    sink.act = () => fails();
    fail(new SinkTrouble('is down'));
    await closing;
    queue.abandon();
    expect(sink.tries).toEqual([1, 1]);
    expect(queue.state).toMatchObject({ state: 'failing', message: 'is down', dropped: 2 });
  });

  test('is abandoned while its sink hangs, and the state says so', async () => {
    const sink = new ScriptedSink();
    const { queue, onTrouble } = queueOf(sink);
    queue.offer(published(1));
    await settle();
    sink.act = never;
    queue.offer(published(2));
    await settle();
    queue.close().catch(() => undefined);
    await settle();
    queue.abandon();
    expect(sink.attempt?.signal.aborted).toBe(true);
    expect(queue.state).toMatchObject({
      ...{ state: 'failing', size: 1, dropped: 1, failing_since: AT_START },
      message: 'had not taken the newest checkpoint when the collector ended',
    });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(onTrouble).not.toHaveBeenCalled();
  });
});

describe('a queue of a new start', () => {
  test('continues from the saved state, without its count of dropped checkpoints', async () => {
    const sink = new ScriptedSink();
    const before = {
      sink: sink.shown,
      state: 'failing',
      size: 7,
      at: AT_START,
      failing_since: AT_START,
    } as const;
    const { queue, onRecovered, onTrouble } = queueOf(sink, {
      before: { ...before, message: 'x', dropped: 9 },
    });
    expect(queue.state).toEqual({ ...before, message: 'x', dropped: 0 });
    vi.setSystemTime(START + 60_000);
    sink.act = () => fails('is down');
    queue.offer(published(8));
    await settle();
    expect(queue.state).toMatchObject({ failing_since: AT_START, message: 'is down', size: 7 });
    expect(onTrouble).toHaveBeenCalledTimes(1);
    sink.act = () => Promise.resolve();
    await vi.advanceTimersByTimeAsync(1000);
    expect(onRecovered).toHaveBeenCalledTimes(1);
  });
});
