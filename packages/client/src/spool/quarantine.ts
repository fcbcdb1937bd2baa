/**
 * Events that the collector will never take, with its reason: one file a spool, `<spool>/quarantine/<series>.ndjson`,
 * one JSON object a line:
 *
 *   {"at": …, "kind": …, "captured_at": …, "refusal": {"status": …, …}, "event": "…"}
 *
 * `event` is the exact text of the body; a body that is no UTF-8 stands in `event_base64` instead. With a key the line
 * is {"at": …, "sealed": base64 of sealing.ts's sealed text, which is the object above}, because a reason may tell of
 * the event too. The file is opened for each line: a line that could not be written whole is cut off again.
 */
import { isUtf8 } from 'node:buffer';
import path from 'node:path';
import { SpoolFull, SpoolUnwritable, type Refusal, type SpooledEvent } from './contract.js';
import { errorCode } from './error-code.js';
import type { SpoolFiles } from './files.js';
import { sealText } from './sealing.js';

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
    const { files, durable } = this.#options;
    try {
      await files.makeDirectory(path.dirname(this.path));
      const fd = await files.open(this.path, 'write');
      try {
        const end = await files.size(fd);
        try {
          await files.write(fd, line, end);
          if (durable) await files.datasync(fd);
        } catch (error) {
          await files.truncate(fd, end);
          throw error;
        }
        if (durable && end === 0) await files.syncDirectory(path.dirname(this.path));
      } finally {
        await files.close(fd);
      }
    } catch (error) {
      const message = 'an event could not be put into quarantine';
      throw ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(errorCode(error) ?? '')
        ? new SpoolFull(message, { cause: error })
        : new SpoolUnwritable(message, { cause: error });
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
