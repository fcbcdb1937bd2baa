/**
 * Output of the command, line by line. Control characters are escaped: events, file names and answers of
 * servers must not control the terminal.
 */
import { writeSync } from 'node:fs';

/** Control characters, bidirectional controls, and invisible characters. */
// eslint-disable-next-line no-control-regex
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const CHUNK_CHARACTERS = 64 << 10;

/** Escapes as JSON does, so that a line of JSON keeps its meaning. */
export function printable(line: string): string {
  return line.replace(
    UNPRINTABLE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

export class Output {
  #text = '';
  #progressing = false;

  constructor() {
    // Each write reports the error too.
    process.stdout.on('error', () => undefined);
  }

  /** @throws EPIPE if the reader has closed the pipe. */
  async say(line: string): Promise<void> {
    this.#text += `${printable(line)}\n`;
    if (this.#text.length >= CHUNK_CHARACTERS) await this.flush();
  }

  async sayJson(value: unknown): Promise<void> {
    for (const line of JSON.stringify(value, undefined, 2).split('\n')) await this.say(line);
  }

  /** On return all lines are written. */
  async flush(): Promise<void> {
    const text = this.#text;
    this.#text = '';
    if (text === '') return;
    await new Promise<void>((resolve, reject) => {
      process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Prints a problem on standard error. */
  warn(line: string): void {
    this.#write(`${this.#cleared()}collector-spool: ${printable(line)}\n`);
  }

  /** Shows progress in the last line of a terminal, which the next output overwrites. */
  progress(line: string): void {
    const columns = process.stderr.columns || 80;
    const text = `${this.#cleared()}${printable(line).slice(0, columns - 1)}`;
    this.#progressing = true;
    this.#write(text);
  }

  endProgress(): void {
    this.#write(this.#cleared());
  }

  #cleared(): string {
    const progressing = this.#progressing;
    this.#progressing = false;
    return progressing ? '\r\u001b[K' : '';
  }

  #write(text: string): void {
    try {
      if (text !== '') writeSync(2, text);
    } catch {
      // Standard error is closed.
    }
  }
}

/** Lines of aligned columns. All rows have the same number of cells. */
export function aligned(rows: readonly (readonly string[])[]): string[] {
  const shown = rows.map((row) => row.map(printable));
  const widths = (shown[0] ?? []).map((_, column) =>
    Math.max(...shown.map((row) => row[column]?.length ?? 0)),
  );
  return shown.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

/** `1 event`, `2,000 events`. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}

/** `512 B`, `1.5 MiB`. */
export function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const power = Math.min(4, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** power).toFixed(1)} ${['', 'K', 'M', 'G', 'T'][power] ?? ''}iB`;
}

/** Exit codes, the same as in `collector`. Scripts rely on them: never change one. */
export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 2,
  damaged: 3,
  notFound: 6,
  partly: 7,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** A command failed for the reason in the message, which contains no key and no event value. */
export class CommandFailure extends Error {
  override name = 'CommandFailure';
  constructor(
    message: string,
    readonly exitCode: ExitCode,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
