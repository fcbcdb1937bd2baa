/** Text in aligned columns, for terminals. */
import { wrappedFor, type Output } from './wrapped.js';

/** A last column that would have less room than this is wrapped to the left of its place. */
const LEAST_ROOM = 24;
const INDENT = 4;

/**
 * @param rows the first is the heading; all have as many cells.
 * @param output where it goes to: on a terminal the last column is wrapped within itself.
 * @returns lines without trailing spaces, each ended by a line break.
 */
export function alignedTable(rows: readonly (readonly string[])[], output: Output = {}): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0);
  const indent = before + LEAST_ROOM > (output.columns ?? 0) ? INDENT : before;
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return rows.map((row) => `${wrappedFor(output, line(row), indent)}\n`).join('');
}
