import { describe, expect, test } from 'vitest';
import { Backlog, LINE_MS, PERIOD_MS, SHORT_LINE, newShare, type Share } from '../../src/ingest/admission.js';

/** A line with its own clock. */
class Line {
  readonly backlog = new Backlog();
  now = 1_000_000;
  readonly #order: Share[] = [];

  static key(): Share {
    return newShare();
  }

  get length(): number {
    return this.#order.length;
  }

  /** @returns whether the event was taken. */
  arrive(key: Share, late = false): boolean {
    const admitted = this.backlog.admits(key, this.now, late);
    if (admitted) {
      this.backlog.entered(key);
      this.#order.push(key);
    }
    return admitted;
  }

  answer(count: number): void {
    for (const key of this.#order.splice(0, count)) this.backlog.left(key);
  }

  /** How many of this number of events were taken. */
  offer(key: Share, count: number): number {
    let taken = 0;
    for (let i = 0; i < count; i++) if (this.arrive(key)) taken++;
    return taken;
  }

  /** Periods, with the number of events that come and are answered in each. */
  go(periods: number, key: Share, offered: number, answered: number): void {
    for (let i = 0; i < periods; i++) {
      this.offer(key, offered);
      this.answer(answered);
      this.now += PERIOD_MS;
    }
  }
}

/** One that has had too much of one key for a second, of which it answers half, a thousand a period. */
function overloadedLine() {
  const line = new Line();
  const greedy = Line.key();
  line.go(10, greedy, 2000, 1000);
  line.answer(Infinity);
  return { line, greedy };
}

describe('[R-845] the line before the ledger', () => {
  test('takes any burst, however long it becomes', () => {
    const line = new Line();
    const key = Line.key();
    expect(line.offer(key, 20_000)).toBe(20_000);
    expect(line.backlog.overloaded).toBe(false);
  });

  test('is not limited after it was long for moments only', () => {
    const line = new Line();
    const key = Line.key();
    for (let i = 0; i < 20; i++) {
      line.go(1, key, 2000, Infinity);
      line.go(3, key, 10, Infinity);
    }
    expect(line.backlog.overloaded).toBe(false);
  });

  test('is kept short when more comes than is answered, and is longer where more is answered', () => {
    const { line, greedy } = overloadedLine();
    line.now += PERIOD_MS;
    expect(line.offer(greedy, 20_000)).toBe(SHORT_LINE);
    for (let i = 0; i < 100; i++) line.go(1, greedy, 20_000, Infinity);
    expect(line.length).toBe(0);
    for (let i = 0; i < 100; i++) {
      // A hundred an answered millisecond, in ten turns.
      for (let turn = 0; turn < 10; turn++) {
        line.offer(greedy, 1000);
        line.answer(1000);
      }
      line.go(1, greedy, 20_000, Infinity);
    }
    const taken = line.offer(greedy, 20_000);
    expect(taken).toBeGreaterThan(LINE_MS * 90);
    expect(taken).toBeLessThan(LINE_MS * 200);
  });

  test('that does not move admits no more events, however slowly they come', () => {
    const line = new Line();
    const key = Line.key();
    line.offer(key, SHORT_LINE);
    let taken = 0;
    for (let i = 0; i < 50; i++) {
      line.now += 10 * PERIOD_MS;
      if (line.arrive(key)) taken++;
    }
    expect(taken).toBe(0);
  });

  test('has room for a key with less than its share, and never grows to twice its length for that', () => {
    const { line, greedy } = overloadedLine();
    expect(line.offer(greedy, 1000)).toBe(SHORT_LINE);
    const modest = Line.key();
    expect(line.offer(modest, 1000)).toBe(SHORT_LINE / 2);
    expect(line.arrive(greedy)).toBe(false);
    for (let i = 0; i < 1000; i++) line.offer(Line.key(), 1000);
    expect(line.length).toBeLessThanOrEqual(2 * SHORT_LINE);
  });

  test('admits no event that waited before it was read, except without overload', () => {
    const { line, greedy } = overloadedLine();
    expect(line.arrive(greedy, true)).toBe(false);
    expect(line.arrive(greedy)).toBe(true);
    expect(new Line().arrive(greedy, true)).toBe(true);
  });

  test('is unlimited again when it was short for some seconds, or no event came', () => {
    const slow = overloadedLine();
    slow.line.go(10, slow.greedy, 10, Infinity);
    expect(slow.line.backlog.overloaded).toBe(true);
    slow.line.go(30, slow.greedy, 10, Infinity);
    expect(slow.line.backlog.overloaded).toBe(false);
    const silent = overloadedLine();
    silent.line.now += 60_000;
    expect(silent.line.offer(silent.greedy, 1000)).toBe(1000);
  });
});

test('[R-1923] an event that waits outside the line gets a place at some time, with any number of keys in it', () => {
  const line = new Line();
  for (let keys = 0; keys < 2 * SHORT_LINE; keys++) line.arrive(Line.key());
  expect(line.backlog.placesFor(Line.key(), line.now)).toBe(1);
});
