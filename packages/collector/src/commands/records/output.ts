/**
 * Where records go. A file, or a directory of files by day, appears under its name when it is complete and on
 * stable storage; until then its name begins with a dot and ends in .tmp. A killed process leaves that file
 * behind.
 */
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { FileFormat, PieceJoiner } from '../../records/exports/file-format.js';
import type { ExportFormat } from '../../records/exports/formats.js';
import { counted } from '../../quantity.js';
import { systemCode } from '../../system-code.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import { giveText } from '../terminal.js';
import type { PlacedPiece } from './job.js';

export interface RecordOutput {
  write(piece: PlacedPiece): void | Promise<void>;
  /** Flushes and moves everything into place. */
  finish(): void | Promise<void>;
  /** Removes everything, unless it is finished. */
  abandon(): void;
}

/** The output for a format. @param stop ends the wait for a slow reader. */
export function outputOf(
  { out, isByDay, extension, binary }: Pick<ExportFormat, 'extension' | 'binary'> & OutputPlace,
  format: FileFormat,
  stop: AbortSignal,
): RecordOutput {
  if (out === undefined) return new Printed(format.joiner(), binary !== true, stop);
  return isByDay
    ? new DayDirectories(out, extension, () => format.joiner())
    : new OneFile(out, format.joiner());
}

/** @param cells the number of cells that are too long for a spreadsheet. */
export function longCellsWarning(cells: number): string[] {
  if (cells === 0) return [];
  const what = `${counted(cells, 'cell')} ${cells === 1 ? 'exceeds' : 'exceed'} the 32,767 characters`;
  return [`${what} (UTF-16) that an Excel cell holds: the file has the full text, but Excel truncates it`];
}

interface OutputPlace {
  /** A file, or a directory of files by day; undefined for standard output. */
  readonly out: string | undefined;
  readonly isByDay: boolean;
}

/** Standard output; a pipe receives the same bytes as a file. */
class Printed implements RecordOutput {
  constructor(
    private readonly joiner: PieceJoiner,
    private readonly isText: boolean,
    private readonly stop: AbortSignal,
  ) {}

  write(piece: PlacedPiece): Promise<void> {
    return this.#put(this.joiner.join(piece));
  }

  finish(): Promise<void> {
    return this.#put(this.joiner.finish());
  }

  abandon(): void {
    // Printed output cannot be taken back.
  }

  #put(bytes: Uint8Array): Promise<void> {
    const isShown = this.isText && process.stdout.isTTY;
    return giveText(isShown ? Buffer.from(bytes).toString() : bytes, this.stop);
  }
}

/** A file that is being written. */
class Draft {
  bytes = 0;
  readonly #fd: number;

  constructor(
    readonly file: string,
    private readonly joiner: PieceJoiner,
  ) {
    this.#fd = fs.openSync(file, 'wx', 0o600);
  }

  write(piece: PlacedPiece): void {
    this.#put(this.joiner.join(piece));
  }

  /** Completes the file and flushes it to stable storage. */
  close(): void {
    this.#put(this.joiner.finish());
    fs.fsyncSync(this.#fd);
    fs.closeSync(this.#fd);
  }

  abandon(): void {
    fs.closeSync(this.#fd);
  }

  #put(bytes: Uint8Array): void {
    try {
      for (let done = 0; done < bytes.length;) done += fs.writeSync(this.#fd, bytes, done);
    } catch (error) {
      throw unwritable(this.file, error);
    }
    this.bytes += bytes.length;
  }
}

export class OneFile implements RecordOutput {
  readonly #draft: Draft;
  #open = true;

  constructor(
    private readonly file: string,
    joiner: PieceJoiner,
  ) {
    this.#draft = new Draft(draftName(file), joiner);
  }

  write(piece: PlacedPiece): void {
    this.#draft.write(piece);
  }

  finish(): void {
    this.#draft.close();
    this.#open = false;
    putInPlace(this.#draft.file, this.file);
    syncDirectory(path.dirname(this.file));
  }

  abandon(): void {
    if (this.#open) this.#draft.abandon();
    this.#open = false;
    fs.rmSync(this.#draft.file, { force: true });
  }
}

/**
 * A directory with one directory per UTC day on which records began, in the layout of DuckDB, Spark and
 * pandas: date=2026-01-31/part-0000.parquet. Records come in the order of their first event, so one file is
 * open at a time. If the host's clock was set back, a day gets another part.
 */
class DayDirectories implements RecordOutput {
  readonly #draft: string;
  readonly #parts = new Map<string, number>();
  #day: string | undefined;
  #file: Draft | undefined;

  constructor(
    private readonly directory: string,
    private readonly extension: string,
    private readonly joiner: () => PieceJoiner,
  ) {
    this.#draft = draftName(directory);
    fs.mkdirSync(this.#draft, { mode: 0o700 });
  }

  write(piece: PlacedPiece): void {
    this.#of(piece.day).write(piece);
  }

  finish(): void {
    this.#close();
    for (const day of this.#parts.keys()) syncDirectory(path.join(this.#draft, `date=${day}`));
    syncDirectory(this.#draft);
    // Fails if a directory with files has been created there since.
    fs.renameSync(this.#draft, this.directory);
    syncDirectory(path.dirname(this.directory));
  }

  abandon(): void {
    this.#file?.abandon();
    this.#file = undefined;
    fs.rmSync(this.#draft, { recursive: true, force: true });
  }

  #of(day: string): Draft {
    if (this.#file !== undefined && this.#day === day) return this.#file;
    this.#close();
    const part = this.#parts.get(day) ?? 0;
    this.#parts.set(day, part + 1);
    const directory = path.join(this.#draft, `date=${day}`);
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.#day = day;
    const name = `part-${String(part).padStart(4, '0')}${this.extension}`;
    this.#file = new Draft(path.join(directory, name), this.joiner());
    return this.#file;
  }

  #close(): void {
    const file = this.#file;
    this.#file = undefined;
    file?.close();
  }
}

/** Unlike a rename, a link does not replace a file that was created since. */
function putInPlace(draft: string, file: string): void {
  try {
    fs.linkSync(draft, file);
    fs.rmSync(draft);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') throw cameSince(file, error);
    // On a file system without links (FAT, some shares), reserve the name first, then replace that file.
    try {
      fs.closeSync(fs.openSync(file, 'wx', 0o600));
    } catch (taken) {
      throw codeOf(taken) === 'EEXIST' ? cameSince(file, taken) : unwritable(file, taken);
    }
    fs.renameSync(draft, file);
  }
}

function cameSince(file: string, cause: unknown): CommandFailure {
  return new CommandFailure(`--out: ${file} was created meanwhile and is not overwritten`, EXIT.failure, {
    cause,
  });
}

function unwritable(file: string, cause: unknown): CommandFailure {
  return new CommandFailure(`${file} cannot be written (${codeOf(cause)})`, EXIT.failure, { cause });
}

function codeOf(error: unknown): string {
  return systemCode(error) ?? String(error);
}

function draftName(place: string): string {
  return path.join(path.dirname(place), `.${path.basename(place)}.${randomBytes(4).toString('hex')}.tmp`);
}

function syncDirectory(directory: string): void {
  const fd = fs.openSync(directory, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
