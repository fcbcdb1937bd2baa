/**
 * Events that the collector will never take, with its reason: one file a spool, `<spool>/quarantine/<series>.ndjson`,
 * one JSON object a line:
 *
 *   {"at": …, "kind": …, "captured_at": …, "refusal": {"status": …, …}, "event": "…"}
 *
 * `event` is the exact text of the body; a body that is no UTF-8 stands in `event_base64` instead. With a key the line
 * is {"at": …, "sealed": base64 of sealing.ts's sealed text, which is the object above}, because a reason may tell of
 * the event too. The file is opened for each line: a line that could not be written whole is cut off again, and one that
 * went into a file that somebody has moved away meanwhile (requeuing.ts) is written again.
 */
import { isUtf8 } from 'node:buffer';
import path from 'node:path';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { SpoolFull, SpoolKeyWrong, SpoolUnwritable, type Refusal, type SpooledEvent } from './contract.js';
import { errorCode, isFull } from './error-code.js';
import type { SpoolFiles } from './files.js';
import { openText, sealText } from './sealing.js';

export interface QuarantineOptions {
  readonly files: SpoolFiles;
  readonly root: string;
  readonly series: string;
  readonly key: Uint8Array | undefined;
  /** Whether a line has to be on stable storage. */
  readonly durable: boolean;
}

export class Quarantine {
  readonly path: string;
  /** What the quarantine of the whole directory takes: as it was measured last, and what was added here since. */
  bytes = 0;
  readonly #options: QuarantineOptions;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: QuarantineOptions) {
    this.#options = options;
    this.path = path.join(options.root, 'quarantine', `${options.series}.ndjson`);
  }

  /**
   * On return the event and its refusal are in the file, as durable as asked.
   * @throws SpoolFull, SpoolUnwritable; then they are not in it, as far as the disk lets that be done.
   */
  add(event: SpooledEvent, refusal: Refusal): Promise<void> {
    const line = Buffer.from(`${quarantineLine(event, refusal, this.#options.key)}\n`);
    const written = this.#writing.then(() => this.#write(line));
    this.#writing = written.catch(() => undefined);
    return written;
  }

  async #write(line: Buffer): Promise<void> {
    try {
      await this.#options.files.makeInside(path.dirname(this.path));
      while (!(await this.#append(line)));
      this.bytes += line.length;
    } catch (error) {
      const message = 'an event could not be put into quarantine';
      throw isFull(error)
        ? new SpoolFull(message, { cause: error })
        : new SpoolUnwritable(message, { cause: error });
    }
  }

  /** @returns false when the file was moved away before the line was in it, so that whoever did may not have seen it. */
  async #append(line: Buffer): Promise<boolean> {
    const { files, durable } = this.#options;
    const fd = await files.open(this.path, 'write');
    try {
      const end = await files.size(fd);
      try {
        await files.write(fd, line, end);
        if (durable) await files.datasync(fd);
        if (!(await this.#stands(line, end))) return false;
      } catch (error) {
        await files.truncate(fd, end);
        throw error;
      }
      if (durable && end === 0) await files.syncDirectory(path.dirname(this.path));
      return true;
    } finally {
      await files.close(fd);
    }
  }

  async #stands(line: Buffer, offset: number): Promise<boolean> {
    const { files } = this.#options;
    let fd: number;
    try {
      fd = await files.open(this.path, 'read');
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return false;
      throw error;
    }
    try {
      const found = Buffer.alloc(line.length);
      return (await files.read(fd, found, offset)) === line.length && found.equals(line);
    } finally {
      await files.close(fd);
    }
  }
}

function quarantineLine(event: SpooledEvent, refusal: Refusal, key: Uint8Array | undefined): string {
  const body = Buffer.from(event.body.buffer, event.body.byteOffset, event.body.length);
  const at = refusal.at;
  const line = JSON.stringify({
    at,
    kind: event.kind,
    captured_at: new Date(event.capturedAt).toISOString(),
    refusal,
    ...(isUtf8(body) ? { event: body.toString() } : { event_base64: body.toString('base64') }),
  });
  return key ? JSON.stringify({ at, sealed: sealText(key, line).toString('base64') }) : line;
}

/** What stands in one line of a quarantine file. */
export interface QuarantinedEvent {
  readonly kind: EventKind;
  /** RFC 3339. */
  readonly capturedAt: string;
  readonly refusal: Refusal;
  /** The exact bytes captured. */
  readonly body: Uint8Array;
}

/**
 * Reads a line that `add` has written.
 * @returns undefined when it is none: a torn last line is what a crash leaves, and its event still waits in the spool.
 * @throws SpoolKeyWrong when it is sealed, and not by this key.
 */
export function readQuarantineLine(line: string, key: Uint8Array | undefined): QuarantinedEvent | undefined {
  const written = parsed(line);
  if (typeof written?.['sealed'] !== 'string') return written && quarantinedEvent(written);
  const text = key && openText(key, Buffer.from(written['sealed'], 'base64'));
  if (text === undefined) throw new SpoolKeyWrong('the line is sealed by another key than the one given');
  const opened = parsed(text);
  return opened && quarantinedEvent(opened);
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function quarantinedEvent(written: Record<string, unknown>): QuarantinedEvent | undefined {
  const { captured_at: capturedAt, refusal, event, event_base64: base64 } = written;
  const kind = EVENT_KINDS.find((known) => known === written['kind']);
  const text = typeof event === 'string';
  if (kind === undefined || typeof capturedAt !== 'string' || !isRefusal(refusal)) return undefined;
  if (!text && typeof base64 !== 'string') return undefined;
  return {
    kind,
    capturedAt,
    refusal,
    body: text ? Buffer.from(event) : Buffer.from(base64 as string, 'base64'),
  };
}

function isRefusal(value: unknown): value is Refusal {
  return typeof value === 'object' && value !== null && 'status' in value && 'at' in value;
}
