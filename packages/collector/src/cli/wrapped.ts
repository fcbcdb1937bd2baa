/** Long lines for terminals, which by themselves break them within a word. */

/** Of the lines below the first. */
const INDENT = '  ';

/** What of a stream matters here. */
interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** The line, wrapped for a terminal; as it is where nobody looks on. */
export function wrappedFor({ isTTY = false, columns = 0 }: Output, line: string): string {
  return isTTY && columns > 0 ? wrapped(line, columns) : line;
}

/** The line as several, of at most `width` characters where its words are no longer than that. */
function wrapped(line: string, width: number): string {
  const lines: string[] = [];
  let current = '';
  for (const word of line.split(' ')) {
    const longer = current === '' ? word : `${current} ${word}`;
    if (longer.length <= width || current.trim() === '') current = longer;
    else {
      lines.push(current);
      current = INDENT + word;
    }
  }
  return [...lines, current].join('\n');
}
