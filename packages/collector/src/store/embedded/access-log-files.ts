/**
 * The access log of a data directory: `access.log`, and `access-YEAR.log` for each later year (UTC). A line
 * of a new year creates its file, which closes the one before: nothing is renamed, so that no step can lose a
 * line. A process that chose its file just before may still append to the closed one.
 */
import fs from 'node:fs';
import path from 'node:path';
import { systemCode } from '../../system-code.js';
import { FIRST_FILE, inOrderOfYears, isAccessLogName } from '../../tree/access-chain.js';
import type { LineCursor, LocalAccessLog } from '../contract/access-log.js';
import { AccessLogFile, yearOf } from './access-log-file.js';

export class AccessLogFiles implements LocalAccessLog {
  readonly #files = new Map<string, AccessLogFile>();

  constructor(private readonly dataDirectory: string) {}

  files(): string[] {
    try {
      return inOrderOfYears(fs.readdirSync(this.dataDirectory).filter(isAccessLogName));
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return [];
      throw error;
    }
  }

  /** @throws as AccessLogFile.append. */
  append(line: string): void {
    this.#file(this.#fileFor(line)).append(line);
  }

  lines(from?: LineCursor): AsyncGenerator<Buffer, void> {
    return this.#file(from?.file).lines(from);
  }

  flush(file?: string): Promise<void> {
    return this.#file(file).flush();
  }

  /** The files up to their last whole lines, for a copy. */
  copies(): ({ readonly file: string } & NonNullable<ReturnType<AccessLogFile['copy']>>)[] {
    return this.files().flatMap((file) => {
      const copy = this.#file(file).copy();
      return copy === undefined ? [] : [{ file, ...copy }];
    });
  }

  /** A clock that was set back does not reopen a closed file. */
  #fileFor(line: string): string {
    const newest = this.files().at(-1);
    if (newest === undefined) return FIRST_FILE;
    const [now, year] = [yearOf(line), newest === FIRST_FILE ? this.#file().year() : yearIn(newest)];
    return now === undefined || year === undefined || now <= year ? newest : `access-${now}.log`;
  }

  #file(name = FIRST_FILE): AccessLogFile {
    const made =
      this.#files.get(name) ?? new AccessLogFile(this.dataDirectory, path.join(this.dataDirectory, name));
    this.#files.set(name, made);
    return made;
  }
}

/** The path of the newest file. */
export function accessLogPath(dataDirectory: string): string {
  return path.join(dataDirectory, new AccessLogFiles(dataDirectory).files().at(-1) ?? FIRST_FILE);
}

function yearIn(name: string): number {
  return Number(name.slice('access-'.length, -'.log'.length));
}
