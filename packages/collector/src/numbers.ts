/**
 * Declarations of numbers. Each is declared once, beside the counters that it reads. `/metrics`, the cells of
 * the console and its state, and docs/reference/metrics.md are made from the declarations.
 */

export type Labels = Readonly<Record<string, string>>;

/** Undefined if unknown; then it is omitted. */
export type Value = number | boolean | undefined;

/** A line of a metric. `metricName` is set if it differs from the name of the family. */
interface Line {
  readonly labels: Labels;
  readonly value: number;
  readonly metricName?: string;
}

/** How the console shows a number. An unknown number has no cell. */
export interface Cell {
  readonly card: 'health' | 'storage' | 'proof' | 'runs';
  readonly label: string;
  /** `instant`: seconds since 1970. */
  readonly format: 'count' | 'bytes' | 'instant';
  /** Singular and plural of the noun after a count. */
  readonly noun?: readonly [string, string];
  readonly more?: string;
  /** Whether the console shows it only if it is not 0, as a warning. */
  readonly warns?: true;
}

/** @template Source the plain numbers that it reads. */
export interface Declared<Source> {
  readonly name: string;
  readonly type: 'gauge' | 'counter' | 'histogram';
  readonly help: string;
  readonly lines: (source: Source) => readonly Line[];
  readonly cell?: Cell;
}

/** A metric with one number and no labels. */
interface Single<Source> {
  readonly name: string;
  readonly help: string;
  readonly read: (source: Source) => Value;
  readonly cell?: Cell;
}

/**
 * A metric with one line per set of labels. Labels come from closed tables or from the operator's
 * configuration.
 */
interface Labelled<Source> {
  readonly name: string;
  readonly help: string;
  readonly each: (source: Source) => Iterable<readonly [Labels, Value]>;
}

export function gauge<Source>(number: Single<Source> | Labelled<Source>): Declared<Source> {
  return declared('gauge', number);
}

/** The name ends in `_total`. */
export function counter<Source>(number: Single<Source> | Labelled<Source>): Declared<Source> {
  return declared('counter', number);
}

function declared<Source>(
  type: 'gauge' | 'counter',
  number: Single<Source> | Labelled<Source>,
): Declared<Source> {
  const { name, help } = number;
  if ('read' in number) {
    const { read, cell } = number;
    return { name, help, type, lines: (source) => line({}, read(source)), ...(cell && { cell }) };
  }
  return {
    name,
    help,
    type,
    lines: (source) => [...number.each(source)].flatMap(([labels, value]) => line(labels, value)),
  };
}

function line(labels: Labels, value: Value): readonly Line[] {
  return value === undefined ? [] : [{ labels, value: Number(value) }];
}

/** Counts per bucket, not cumulative, and the sum of the values. */
export interface Buckets {
  readonly counts: ArrayLike<number>;
  readonly sum: number;
}

/** Buckets of a metric: `bounds` are counted, `shown` are written, and all values are divided by `scale`. */
export interface Scale {
  readonly bounds: readonly number[];
  readonly shown: readonly number[];
  readonly scale: number;
}

export function histogram<Source>(number: {
  readonly name: string;
  readonly help: string;
  readonly scale: Scale;
  readonly read: (source: Source) => Buckets | undefined;
}): Declared<Source> {
  const { name, help, scale, read } = number;
  return { name, help, type: 'histogram', lines: (source) => bucketLines(name, scale, read(source)) };
}

function bucketLines(name: string, { bounds, shown, scale }: Scale, row: Buckets | undefined): Line[] {
  if (row === undefined) return [];
  const lines: Line[] = [];
  const write = (end: string, labels: Labels, value: number) =>
    lines.push({ metricName: `${name}_${end}`, labels, value });
  let total = 0;
  for (const [i, count] of Array.from(row.counts).entries()) {
    total += count;
    const bound = bounds[i];
    if (bound !== undefined && shown.includes(bound)) write('bucket', { le: String(bound / scale) }, total);
  }
  write('bucket', { le: '+Inf' }, total);
  write('sum', {}, row.sum / scale);
  write('count', {}, total);
  return lines;
}

/** Numbers of a part of another source; the part may be missing. */
export function within<Whole, Part>(
  part: (whole: Whole) => Part | undefined,
  numbers: readonly Declared<Part>[],
): Declared<Whole>[] {
  return numbers.map((number) => ({
    ...number,
    lines(whole) {
      const found = part(whole);
      return found === undefined ? [] : number.lines(found);
    },
  }));
}

export function seconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1000;
}

/* Histogram buckets: bounds, counting on the hot path, and quantiles. */

/** The preferred numbers R20 (ISO 3), 20 per decade, from 100. A quantile is off by at most a seventh. */
const R20 = [
  100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800, 900,
];

/** Divided rather than multiplied by a fraction, so that 0.2 is exactly 0.2. */
const decade = (begin: number) =>
  R20.map((number) => (begin < 100 ? number / (100 / begin) : number * (begin / 100)));

/** Upper bounds of times in milliseconds, from 0.1 ms to 10 s. Longer times count in one more bucket. */
export const TIME_BOUNDS_MS: readonly number[] = [0.1, 1, 10, 100, 1000].flatMap(decade).concat(10_000);

/**
 * Upper bounds of delays in milliseconds, from 10 ms to 15 minutes: a database may be unavailable for
 * minutes.
 */
export const DELAY_BOUNDS_MS: readonly number[] = [10, 100, 1000, 10_000, 100_000].flatMap(decade);

/** Upper bounds of counts. */
export const SIZE_BOUNDS: readonly number[] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/** Bounds from the flush of a fast disk to beyond the timeout of senders. */
export const TIMES: Scale = {
  bounds: TIME_BOUNDS_MS,
  shown: [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
  scale: 1000,
};
export const DELAYS: Scale = {
  bounds: DELAY_BOUNDS_MS,
  shown: [200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 900_000],
  scale: 1000,
};
export const SIZES: Scale = { bounds: SIZE_BOUNDS, shown: SIZE_BOUNDS, scale: 1 };

/** The index of the first bound that is not less than the value; the number of bounds if there is none. */
export function bucketOf(bounds: readonly number[], value: number): number {
  let low = 0;
  let high = bounds.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value <= (bounds[middle] ?? Infinity)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * The `q`-quantile, assuming an even distribution within each bucket. Values above the last bound count as
 * the last bound.
 * @param counts per bucket, not cumulative.
 * @returns undefined if nothing was counted.
 */
export function quantile(
  bounds: readonly number[],
  counts: ArrayLike<number>,
  q: number,
): number | undefined {
  const all = Array.from(counts);
  const total = all.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  let rank = q * total;
  for (const [i, upper] of bounds.entries()) {
    const count = all[i] ?? 0;
    const lower = bounds[i - 1] ?? 0;
    if (count > 0 && rank <= count) return lower + (upper - lower) * (rank / count);
    rank -= count;
  }
  return bounds.at(-1);
}
