/** A Markdown table. The first row is the heading; numbers are aligned to the right. */
export function table(rows) {
  const widths = rows[0].map((_, column) => Math.max(3, ...rows.map((row) => row[column].length)));
  const isRight = widths.map((_, column) => rows.slice(1).every((row) => /^[\d.,-]*$/.test(row[column])));
  const line = (row) =>
    `| ${row.map((cell, i) => (isRight[i] ? cell.padStart(widths[i]) : cell.padEnd(widths[i]))).join(' | ')} |`;
  const rule = widths.map((width, i) => (isRight[i] ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width)));
  return [line(rows[0]), `| ${rule.join(' | ')} |`, ...rows.slice(1).map(line)].join('\n');
}
