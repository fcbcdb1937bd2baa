/** Long lines for terminals, which by themselves break them within a word. */

/** Of the lines below the first. */
const INDENT = 2;

/** What of a stream matters here. */
export interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** The line, wrapped for a terminal; as it is where nobody looks on. @param indent of the lines below the first. */
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
