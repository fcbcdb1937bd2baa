/** Long lines for terminals, which by themselves break them within a word. */
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

/** The line, wrapped for a terminal; as it is where no one looks on. @param indent of the lines below the first. */
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

/* Text in aligned columns, for terminals. */

/** A last column that would have less room than this is wrapped to the left of its place. */
const LEAST_ROOM = 24;
const HANGING_INDENT = 4;

/**
 * @param rows the first is the heading; all have as many cells.
 * @param output where it goes to: on a terminal the last column is wrapped within itself.
 * @returns lines without trailing spaces, each ended by a line break.
 */
export function alignedTable(rows: readonly (readonly string[])[], output: Output = {}): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    rows.reduce((most, row) => Math.max(most, row[column]?.length ?? 0), 0),
  );
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0);
  const indent = before + LEAST_ROOM > (output.columns ?? 0) ? HANGING_INDENT : before;
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return rows.map((row) => `${wrappedFor(output, line(row), indent)}\n`).join('');
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
  /** No one looks on when standard error is not a terminal. */
  readonly wanted: boolean;
  /** What is counted. */
  readonly unit: string;
  /** How many of what `show` is told make one unit. */
  readonly per: number;
  /** Less than this, in units, is done before anybody wonders. */
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
