/**
 * What the command prints. All of it goes through here, line by line: bytes of a spool, names of files and answers of
 * servers are someone else's, and must not move the cursor of a terminal, turn words around, or begin a line.
 */
import { writeSync } from 'node:fs';

/** Control characters, those of direction, and those that show nothing. */
// eslint-disable-next-line no-control-regex
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const CHUNK_CHARACTERS = 64 << 10;

/** Each of them as JSON would spell it, so that a line of JSON stays the same JSON. */
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
    // Told by each write too, where it can be acted on.
    process.stdout.on('error', () => undefined);
  }

  /** @throws the system's error when no one reads any more. */
  async say(line: string): Promise<void> {
    this.#text += `${printable(line)}\n`;
    if (this.#text.length >= CHUNK_CHARACTERS) await this.flush();
  }

  async sayJson(value: unknown): Promise<void> {
    for (const line of JSON.stringify(value, undefined, 2).split('\n')) await this.say(line);
  }

  /** On return all of it has been handed over. */
  async flush(): Promise<void> {
    const text = this.#text;
    this.#text = '';
    if (text === '') return;
    await new Promise<void>((resolve, reject) => {
      process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** On standard error: what goes wrong on the way. */
  tell(line: string): void {
    this.#write(`${this.#cleared()}collector-spool: ${printable(line)}\n`);
  }

  /** How far it has come: the last line of a terminal, written over by the next one and gone with what is told. */
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
      // No one is there to be told.
    }
  }
}

/** Lines of aligned columns. The first row is the heading; all have as many cells. */
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

/** How `collector-spool` ends. Scripts rely on these numbers, which are those of `collector`: add, never change one. */
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

/** A command could not do what it was asked to. One line, for people; without a key or anything of an event. */
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
