/** Output of commands: lines for terminals, tables, and rows of an answer. */
import { once } from 'node:events';
import { styleText } from 'node:util';
import { SingleBar } from 'cli-progress';
import type { StoreFinding } from '../store/findings.js';

/** Indentation of continuation lines. */
const INDENT = 2;

/** The relevant properties of an output stream. */
export interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** The line, wrapped for a terminal and unchanged for other outputs. @param indent of continuation lines. */
export function wrappedFor({ isTTY = false, columns = 0 }: Output, line: string, indent = INDENT): string {
  return isTTY && columns > 0 ? wrapped(line, columns, ' '.repeat(indent)) : line;
}

/** Wraps a line at `width` characters, or later if a word is longer, and indents all lines but the first. */
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

/* Untrusted text on a terminal: it must not move the cursor or reverse words. */

/** Control and direction characters that JSON permits unescaped. */
const UNPRINTABLE = /[\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The same JSON with those characters escaped. */
export function printableJson(json: string): string {
  return json.replace(UNPRINTABLE, escaped);
}

/** Further control characters in text other than JSON. Line breaks stay; a lone CR would overwrite a line. */
// eslint-disable-next-line no-control-regex -- matches control characters on purpose
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f]|\r(?!\n)/g;

/** A text of several lines with its control characters escaped. */
export function printableLines(text: string): string {
  return printableJson(text).replace(CONTROLS, escaped);
}

/** The text as the contents of a JSON string, without the quotes. */
export function printable(text: string): string {
  return printableJson(JSON.stringify(text)).slice(1, -1);
}

/** Like {@link printable}, for text that is not in quotation marks. */
export function legible(text: string): string {
  return printable(text).replaceAll('\\"', '"');
}

/* Tables: text in aligned columns. */

/** How a column shrinks on a terminal that is too narrow for the table. */
export interface Column {
  /** The minimum width of its cells; without it, cells are never cut. */
  readonly least?: number;
  /** The function that shortens a cell, in place of {@link cutText}. */
  readonly cut?: (cell: string, width: number) => string;
  /**
   * The order in which columns are dropped when cutting is not enough, lowest first; without it, never
   * dropped.
   */
  readonly leftOut?: number;
}

/** If the last column has less room than this, it is wrapped with a hanging indent instead. */
const LEAST_ROOM = 24;
const HANGING_INDENT = 4;
const GAP = '  ';

/**
 * @param rows the first is the heading; all have the same number of cells.
 * @param output the stream; on a terminal the last column is wrapped within itself.
 * @param columns one per cell; if given, they fit the table to the terminal, and nothing is wrapped.
 * @returns lines without trailing spaces, each ending with a line break.
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

/** The total width of columns and the gaps between them. */
function totalOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length);
}

/** Drops and cuts columns so that lines have at most `most` characters, if that is possible. */
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

/** Shortens the text with an ellipsis; never splits a surrogate pair. */
export function cutText(text: string, width: number): string {
  if (text.length <= width) return text;
  return `${text.slice(0, width - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/* Rows as a table, CSV or JSON, written in blocks to a reader that may be slow. */
/** A value on one line. */
export function jsonLine(value: object): string {
  return `${printableJson(JSON.stringify(value))}\n`;
}

/** A value over several lines. */
export function jsonText(value: unknown): string {
  return `${printableJson(JSON.stringify(value, undefined, 2))}\n`;
}

/** The text of a block of rows. @param isFirst whether it is the first block, which has the heading. */
export type Framing<Row> = (rows: readonly Row[], isFirst: boolean) => string;

/** One JSON object per line. */
export function asJsonLines<Row>(objectOf: (row: Row) => object): Framing<Row> {
  return (rows) => rows.map((row) => jsonLine(objectOf(row))).join('');
}

/** @param heading the first line. @param lineOf the line of a row. Both include their line break. */
export function asCsv<Row>(heading: string, lineOf: (row: Row) => string): Framing<Row> {
  return (rows, isFirst) => (isFirst ? heading : '') + rows.map(lineOf).join('');
}

/** @param tableOf makes a table with a heading of one line. An empty list has no table. */
export function asTable<Row>(tableOf: (rows: readonly Row[]) => string): Framing<Row> {
  return (rows, isFirst) => {
    if (rows.length === 0) return '';
    const table = tableOf(rows);
    return isFirst ? table : table.slice(table.indexOf('\n') + 1);
  };
}

/** Rows per block. In a long list, columns may be wider in a later block. */
const BLOCK_ROWS = 1000;

export interface Giving<Row> {
  readonly framing: Framing<Row>;
  /** Maximum number of rows. */
  readonly limit?: number;
  readonly signal?: AbortSignal;
  /** Called before a block is written: a reader who stops early has received its rows. */
  readonly onBlock?: (rows: readonly Row[]) => void;
}

/** Writes rows to standard output; without rows, only the heading. @returns their number. */
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
 * Writes to standard output; on a terminal, escapes control characters. Resolves when the reader can take
 * more.
 * @throws the signal's reason once it is aborted.
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

/* Findings of a check. */

const MARKS = { ok: 'ok', warning: 'WARNING', damage: 'DAMAGED' } as const;
const COLOURS = { ok: 'green', WARNING: 'yellow', DAMAGED: 'red' } as const;

/** A table of findings. The severity is coloured on a terminal, unless NO_COLOR is set. */
export function findingsTable(findings: readonly StoreFinding[], output: NodeJS.WriteStream): string {
  const rows = findings.map(({ severity, subject, message }) => [
    ...[MARKS[severity], legible(subject), legible(message)],
  ]);
  const coloured = (mark: string) =>
    styleText(COLOURS[mark as keyof typeof COLOURS], mark, { stream: output });
  const table = alignedTable([['', 'CHECKED', 'FOUND'], ...rows], output);
  return table.replace(/^(?:ok|WARNING|DAMAGED)(?= )/gm, coloured);
}

/* Progress of a long operation: a bar on standard error, removed before the result is printed. */

export interface ProgressOptions {
  /** False where standard error is not a terminal. */
  readonly wanted: boolean;
  /** The noun for the counted things. */
  readonly unit: string;
  /** The number that makes one unit. */
  readonly per: number;
  /** No bar is shown below this number of units. */
  readonly from: number;
  /** Whether to show units per second. */
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
    // The first word of a unit such as "MiB of the log".
    const each = unit.split(' ')[0];
    this.#bar.update(units, {
      rate: rate ? `, ${Math.round(units / seconds)} ${each}/s` : '',
      left: `, ${leftText((seconds * (of - done)) / done)} left`,
    });
  };

  /** Removes the bar; the next `show` displays it again. */
  clear(): void {
    this.#bar?.stop();
    this.#bar = undefined;
  }
}
