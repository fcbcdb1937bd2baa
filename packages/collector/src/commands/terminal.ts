/** What commands print: lines for terminals, tables, and the rows of an answer. */
import { once } from 'node:events';
import { styleText } from 'node:util';
import { SingleBar } from 'cli-progress';
import type { StoreFinding } from '../store/findings.js';

/** Of the lines below the first. */
const INDENT = 2;

/** What of a stream matters here. */
export interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** The line, wrapped for a terminal and unchanged for other outputs. @param indent of the lines below the first. */
export function wrappedFor({ isTTY = false, columns = 0 }: Output, line: string, indent = INDENT): string {
  return isTTY && columns > 0 ? wrapped(line, columns, ' '.repeat(indent)) : line;
}

/** The line as several, with `indent` before all but the first, of at most `width` characters where its words are no longer than that. */
export function wrapped(line: string, width: number, indent: string): string {
  const lines: string[] = [];
  const [first = '', ...words] = line.split(' ');
  let current = first;
  for (const word of words) {
    const longer = `${current} ${word}`;
    if (longer.length <= width || current.trim() === '') current = longer;
    else {
      lines.push(current);
      current = indent + word;
    }
  }
  return [...lines, current].join('\n');
}

/* Text of someone else's on a terminal: it must not be able to move the cursor there, or to turn words around. */

/** Control and direction characters that JSON lets stand as they are. */
const UNPRINTABLE = /[\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The same JSON, with those characters escaped. */
export function printableJson(json: string): string {
  return json.replace(UNPRINTABLE, escaped);
}

/** Control characters that text other than JSON lets stand too. Lines end as they do; a lone CR would write over one. */
// eslint-disable-next-line no-control-regex -- they are what is looked for
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f]|\r(?!\n)/g;

/** The same text of many lines, with the control characters within them escaped. */
export function printableLines(text: string): string {
  return printableJson(text).replace(CONTROLS, escaped);
}

/** The text as it would stand in a string of JSON, without the quotes around it. */
export function printable(text: string): string {
  return printableJson(JSON.stringify(text)).slice(1, -1);
}

/** As {@link printable}, where no quotation marks stand around it. */
export function legible(text: string): string {
  return printable(text).replaceAll('\\"', '"');
}

/* The one table: text in aligned columns. */

/** How a column may shrink on a terminal that is too narrow for the table. */
export interface Column {
  /** The least width to which its cells are cut; whole unless given, because a part of them would say nothing. */
  readonly least?: number;
  /** In place of {@link cutText}. */
  readonly cut?: (cell: string, width: number) => string;
  /** Where all columns are too wide when cut, this one is left out, the lowest number first; never unless given. */
  readonly leftOut?: number;
}

/** A last column that would have less room than this is wrapped to the left of its place. */
const LEAST_ROOM = 24;
const HANGING_INDENT = 4;
const GAP = '  ';

/**
 * @param rows the first is the heading; all have as many cells.
 * @param output where it goes to: on a terminal the last column is wrapped within itself.
 * @param columns one for each cell of a row: the table is made to fit the terminal by them, and nothing is wrapped.
 * @returns lines without trailing spaces, each ended by a line break.
 */
export function alignedTable(
  rows: readonly (readonly string[])[],
  output: Output = {},
  columns?: readonly Column[],
): string {
  if (columns !== undefined)
    return linesOf(output.isTTY === true ? fittingRows(rows, columns, output.columns ?? 0) : rows);
  const before = totalOf(widthsOf(rows).slice(0, -1)) + GAP.length;
  const indent = before + LEAST_ROOM > (output.columns ?? 0) ? HANGING_INDENT : before;
  return linesOf(rows, (line) => wrappedFor(output, line, indent));
}

function linesOf(rows: readonly (readonly string[])[], wrappedLine = (line: string) => line): string {
  const widths = widthsOf(rows);
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(GAP)
      .trimEnd();
  return rows.map((row) => `${wrappedLine(line(row))}\n`).join('');
}

function widthsOf(rows: readonly (readonly string[])[]): number[] {
  return (rows[0] ?? []).map((_, column) =>
    rows.reduce((most, row) => Math.max(most, row[column]?.length ?? 0), 0),
  );
}

/** Of columns and the gaps between them. */
function totalOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length);
}

/** The same rows with fewer columns and cut cells, so that a line has at most `most` characters if that is possible. */
function fittingRows(
  rows: readonly (readonly string[])[],
  columns: readonly Column[],
  most: number,
): string[][] {
  const placed = widthsOf(rows).map((natural, place) => {
    const { least = natural, cut = cutText, leftOut = Infinity } = columns[place] ?? {};
    return { place, cut, leftOut, least: Math.min(natural, least), width: natural };
  });
  let shown = placed;
  const dispensable = placed.filter(({ leftOut }) => leftOut < Infinity);
  for (const next of dispensable.sort((a, b) => a.leftOut - b.leftOut)) {
    if (totalOf(shown.map(({ least }) => least)) <= most) break;
    shown = shown.filter((column) => column !== next);
  }
  for (let excess = totalOf(shown.map(({ width }) => width)) - most; excess > 0; excess--) {
    const [widest] = shown.filter(({ width, least }) => width > least).sort((a, b) => b.width - a.width);
    if (widest === undefined) break;
    widest.width--;
  }
  return rows.map((row) => shown.map(({ place, cut, width }) => cut(row[place] ?? '', width)));
}

/** The text, or its beginning and an ellipsis; not cut within a pair of surrogates. */
export function cutText(text: string, width: number): string {
  if (text.length <= width) return text;
  return `${text.slice(0, width - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/* The one framing of an answer: rows as a table, as CSV or as JSON, in blocks, to a reader who may be slow. */

/** A value on a line of its own. */
export function jsonLine(value: object): string {
  return `${printableJson(JSON.stringify(value))}\n`;
}

/** A value over several lines. */
export function jsonText(value: unknown): string {
  return `${printableJson(JSON.stringify(value, undefined, 2))}\n`;
}

/** Text of rows that are given out together. @param isFirst whether they are the first: a heading comes before them. */
export type Framing<Row> = (rows: readonly Row[], isFirst: boolean) => string;

/** An object of JSON a line. */
export function asJsonLines<Row>(objectOf: (row: Row) => object): Framing<Row> {
  return (rows) => rows.map((row) => jsonLine(objectOf(row))).join('');
}

/** @param heading a line, and `lineOf` one of a row; with their line breaks. */
export function asCsv<Row>(heading: string, lineOf: (row: Row) => string): Framing<Row> {
  return (rows, isFirst) => (isFirst ? heading : '') + rows.map(lineOf).join('');
}

/** @param tableOf lays rows out below a heading of one line. Without rows there is no table. */
export function asTable<Row>(tableOf: (rows: readonly Row[]) => string): Framing<Row> {
  return (rows, isFirst) => {
    if (rows.length === 0) return '';
    const table = tableOf(rows);
    return isFirst ? table : table.slice(table.indexOf('\n') + 1);
  };
}

/** Rows that are laid out together: in a long list columns may grow from one block to the next. */
const BLOCK_ROWS = 1000;

export interface Giving<Row> {
  readonly framing: Framing<Row>;
  /** How many rows at most. */
  readonly limit?: number;
  readonly signal?: AbortSignal;
  /** Called before a block is written: whoever stops reading has had it. */
  readonly onBlock?: (rows: readonly Row[]) => void;
}

/** Writes rows to standard output; without a row, what the framing has before the first. @returns how many. */
export async function giveRows<Row>(
  all: Iterable<Row> | AsyncIterable<Row>,
  { framing, limit = Infinity, signal, onBlock }: Giving<Row>,
): Promise<number> {
  let given = 0;
  let block: Row[] = [];
  const give = async () => {
    const rows = block;
    block = [];
    const text = framing(rows, given === 0);
    given += rows.length;
    onBlock?.(rows);
    await giveText(text, signal);
  };
  for await (const row of all) {
    block.push(row);
    if (given + block.length === limit) break;
    if (block.length === BLOCK_ROWS) await give();
  }
  if (block.length > 0 || given === 0) await give();
  return given;
}

/**
 * Writes to standard output; on a terminal without characters that would move the cursor.
 * On return its reader has room for more. @throws the signal's reason once it is aborted.
 */
export async function giveText(text: string | Uint8Array, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  const isShown = process.stdout.isTTY && typeof text === 'string';
  if (process.stdout.write(isShown ? printableLines(text) : text)) return;
  try {
    await once(process.stdout, 'drain', { signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/* What a check has found. */

const MARKS = { ok: 'ok', warning: 'WARNING', damage: 'DAMAGED' } as const;
const COLOURS = { ok: 'green', WARNING: 'yellow', DAMAGED: 'red' } as const;

/** A table of findings, ended by a line break. Their marks are coloured on a terminal, unless NO_COLOR asks for none. */
export function findingsTable(findings: readonly StoreFinding[], output: NodeJS.WriteStream): string {
  const rows = findings.map(({ severity, subject, message }) => [
    ...[MARKS[severity], legible(subject), legible(message)],
  ]);
  const coloured = (mark: string) =>
    styleText(COLOURS[mark as keyof typeof COLOURS], mark, { stream: output });
  const table = alignedTable([['', 'CHECKED', 'FOUND'], ...rows], output);
  return table.replace(/^(?:ok|WARNING|DAMAGED)(?= )/gm, coloured);
}

/* How far a long check has come: on standard error, and gone before its result is printed. */

export interface ProgressOptions {
  /** False where standard error is not a terminal. */
  readonly wanted: boolean;
  /** What is counted. */
  readonly unit: string;
  /** How many of what `show` is given make one unit. */
  readonly per: number;
  /** For less than this, in units, no bar is shown: it would be gone at once. */
  readonly from: number;
  /** Whether to show how many units a second are done. */
  readonly rate?: boolean;
}

function leftText(seconds: number): string {
  return seconds < 100 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}

export class ProgressBar {
  readonly #options: ProgressOptions;
  #bar: SingleBar | undefined;
  #since: number | undefined;

  constructor(options: ProgressOptions) {
    this.#options = options;
  }

  readonly show = (done: number, of: number): void => {
    const { wanted, unit, per, from, rate = false } = this.#options;
    if (!wanted || of < from * per) return;
    const units = Math.round(done / per);
    if (this.#bar === undefined) {
      const format = `{bar} {percentage}% of {total} ${unit}{rate}{left}`;
      this.#bar = new SingleBar({ format, hideCursor: true, clearOnComplete: true });
      this.#since ??= performance.now();
      this.#bar.start(Math.round(of / per), 0, { rate: '', left: '' });
    }
    const seconds = (performance.now() - (this.#since ?? 0)) / 1000;
    if (units === 0 || seconds === 0) return;
    // Of "MiB of the log" the first word.
    const each = unit.split(' ')[0];
    this.#bar.update(units, {
      rate: rate ? `, ${Math.round(units / seconds)} ${each}/s` : '',
      left: `, ${leftText((seconds * (of - done)) / done)} left`,
    });
  };

  /** The next `show` makes it appear again. */
  clear(): void {
    this.#bar?.stop();
    this.#bar = undefined;
  }
}
