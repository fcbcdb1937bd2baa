/** Records summed in their order, by threads and by who writes them. */
import { setImmediate as turn } from 'node:timers/promises';
import { type DueRecord, partsOf, READ_BYTES, type SummedOrNot } from './summing.js';

type Sum<Record> = (part: readonly Record[]) => Promise<readonly SummedOrNot[]>;

interface Part<Record> {
  readonly records: readonly Record[];
  readonly summed: Promise<readonly SummedOrNot[]>;
  isDone: boolean;
}

/** Parts that threads have to do or are doing, and all that are not written yet. */
const BEGUN = 4;
const UNWRITTEN = 8;

/**
 * The records by parts. Who asks for them sums one here whenever the threads are not through with the next, so that
 * none waits for the other however the work is shared.
 * @param byThreads undefined where there are none.
 */
export async function* summedParts<Record extends DueRecord>(
  records: Iterable<Record>,
  here: Sum<Record>,
  byThreads: Sum<Record> | undefined,
): AsyncGenerator<readonly [readonly Record[], readonly SummedOrNot[]]> {
  const parts = partsOf(records, READ_BYTES);
  const waiting: Part<Record>[] = [];
  /** @returns false when there is no further part. */
  const begin = (sum: Sum<Record>): boolean => {
    const next = parts.next();
    if (next.done === true) return false;
    const part: Part<Record> = { records: next.value, summed: sum(next.value), isDone: false };
    const note = () => void (part.isDone = true);
    // One that fails is reported in its turn.
    part.summed.then(note, note);
    waiting.push(part);
    return true;
  };
  for (;;) {
    if (byThreads !== undefined)
      while (waiting.filter(({ isDone }) => !isDone).length < BEGUN && begin(byThreads));
    const first = waiting[0];
    if (first?.isDone !== true && waiting.length < UNWRITTEN && begin(here)) {
      await waiting.at(-1)?.summed;
      await turn();
      continue;
    }
    if (first === undefined) return;
    waiting.shift();
    yield [first.records, await first.summed];
  }
}
