/**
 * Events that the collector will never take, with its reason: one file a spool, `<spool>/quarantine/<series>.ndjson`,
 * one JSON object a line:
 *
 *   {"at": …, "kind": …, "captured_at": …, "refusal": {"status": …, …}, "event": "…"}
 *
 * `event` is the exact text of the body; a body that is no UTF-8 stands in `event_base64` instead. With a key the line
 * is {"at": …, "sealed": base64 of frame.ts's sealed text, which is the object above}, because a reason may tell of
 * the event too. The file is opened for each line: a line that could not be written whole is cut off again, and one that
 * went into a file that someone has moved away meanwhile (`requeue`) is written again.
 */
import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import {
  type Refusal,
  type Spool,
  type SpooledEvent,
  SpoolFull,
  SpoolKeyWrong,
  SpoolUnwritable,
} from './contract.js';
import { errorCode, isFull, moved, namesIn, nodeFiles, reading, type SpoolFiles } from './files.js';
import { openText, sealText } from './frame.js';
import { DamagedBytes } from './segment-reader.js';

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

  /** @returns false when the file was moved away before the line was in it, so that anyone who did may not have seen it. */
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
    const stands = await reading(files, this.path, async (fd) => {
      const found = Buffer.alloc(line.length);
      return (await files.read(fd, found, offset)) === line.length && found.equals(line);
    });
    return stands === true;
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

/* What stands in the quarantine of a spool, file by file and line by line. */

/** A file that `requeue` has moved away and not come to the end of. */
const TAKEN = '.requeue';

export interface QuarantinedLine extends Line {
  /** `sealed`: not opened by the key. Undefined for a line that is none of the quarantine's. */
  readonly event: QuarantinedEvent | 'sealed' | undefined;
}

/** The paths of the files, in the order of their names. */
export async function quarantineFiles(files: SpoolFiles, root: string): Promise<string[]> {
  const directory = path.join(root, 'quarantine');
  return (await namesIn(files, directory))
    .filter((name) => name.endsWith('.ndjson') || name.endsWith(TAKEN))
    .map((name) => path.join(directory, name));
}

/** What they take together; what cannot be looked at counts as nothing. @throws the system's error. */
export async function quarantineBytes(files: SpoolFiles, root: string): Promise<number> {
  let bytes = 0;
  for (const file of await quarantineFiles(files, root)) {
    bytes += (await reading(files, file, (fd) => files.size(fd)).catch(() => 0)) ?? 0;
  }
  return bytes;
}

/** Empty lines are left out. Gives nothing when the file is not there any more. */
export async function* quarantinedLines(
  files: SpoolFiles,
  file: string,
  key: Uint8Array | undefined,
): AsyncGenerator<QuarantinedLine, void, undefined> {
  let fd: number;
  try {
    fd = await files.open(file, 'read');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    throw error;
  }
  try {
    for await (const line of linesOf(files, fd)) {
      if (line.text?.trim() !== '') yield { ...line, event: eventIn(line, key) };
    }
  } finally {
    await files.close(fd);
  }
}

function eventIn({ text }: Line, key: Uint8Array | undefined): QuarantinedLine['event'] {
  try {
    return text === undefined ? undefined : readQuarantineLine(text, key);
  } catch (error) {
    if (error instanceof SpoolKeyWrong) return 'sealed';
    throw error;
  }
}

/* The lines of a file, one after the other, in bounded memory whatever is in it. */

const PIECE_BYTES = 1 << 20;
const NEWLINE = 10;
/** More than the longest event takes, escaped and sealed. */
const LONGEST_BYTES = 32 << 20;

export interface Line {
  readonly offset: number;
  /** With the line break, if it has one. */
  readonly size: number;
  /** Undefined when it is longer than 32 MiB. */
  readonly text: string | undefined;
}

/** @param fd of a file that may be growing: what stands behind the last line break is a line too. */
export async function* linesOf(files: SpoolFiles, fd: number): AsyncGenerator<Line, void, undefined> {
  const buffer = Buffer.alloc(PIECE_BYTES);
  let [offset, position] = [0, 0];
  let held: Buffer[] = [];
  let heldBytes = 0;
  const hold = (bytes: Buffer) => {
    heldBytes += bytes.length;
    // A copy: the buffer is read into again.
    if (heldBytes <= LONGEST_BYTES) held.push(Buffer.from(bytes));
    else held = [];
  };
  const line = (end: number): Line => {
    const text = heldBytes <= LONGEST_BYTES ? Buffer.concat(held).toString() : undefined;
    const found = { offset, size: end - offset, text };
    [held, heldBytes, offset] = [[], 0, end];
    return found;
  };
  for (;;) {
    const piece = buffer.subarray(0, await files.read(fd, buffer, position));
    if (piece.length === 0) break;
    let from = 0;
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, from)) {
      hold(piece.subarray(from, at));
      yield line(position + at + 1);
      from = at + 1;
    }
    hold(piece.subarray(from));
    position += piece.length;
  }
  if (position > offset) yield line(position);
}

/*
 * Puts events out of quarantine back among those that wait. Each file is moved away, so that its writer goes on in a new
 * one; its events are appended to a spool; then it is removed. Wherever that is stopped, each event is in one of the two
 * or in both, and the collector knows a duplicate.
 */

/** So many events, or bytes of them, are appended at a time. */
const GROUP_EVENTS = 256;
const GROUP_BYTES = 1 << 20;

export interface Requeued {
  readonly events: number;
  /** The paths to which lines were moved that are none of the quarantine's. */
  readonly unreadable: readonly string[];
}

/**
 * On return what stood in quarantine waits, as durable as the spool is, and stands there no more.
 * @param spool opened on the same directory.
 * @throws SpoolKeyWrong for a line that the key does not open, and then nothing was touched; the errors of
 * `Spool.append` and of the file system, and then what was not come to is in quarantine, and perhaps what was.
 */
export async function requeue(
  directory: string,
  key: Uint8Array | undefined,
  spool: Pick<Spool, 'append'>,
  files: SpoolFiles = nodeFiles,
): Promise<Requeued> {
  const root = path.resolve(directory);
  const found = await quarantineFiles(files, root);
  for (const file of found) {
    for await (const { event } of quarantinedLines(files, file, key)) {
      if (event === 'sealed') {
        throw new SpoolKeyWrong(
          `the quarantine is sealed${key ? ' by another key than the one given' : ', and no key was given'}`,
        );
      }
    }
  }
  const requeued = { events: 0, unreadable: [] as string[] };
  for (const file of found) {
    const taken = file.endsWith(TAKEN) ? file : `${file}.${randomUUID()}${TAKEN}`;
    // Unless someone else was faster.
    if (taken !== file && !(await moved(files, file, taken))) continue;
    let group: QuarantinedEvent[] = [];
    let bytes = 0;
    const append = async () => {
      await Promise.all(group.map(({ kind, body }) => spool.append(kind, body)));
      requeued.events += group.length;
      [group, bytes] = [[], 0];
    };
    for await (const { event, offset, size } of quarantinedLines(files, taken, key)) {
      // A writer may have begun a line meanwhile: it will find that its file was moved, and write it again.
      if (event === undefined || event === 'sealed') {
        requeued.unreadable.push(...(await keptAside(files, root, taken, { offset, size })));
        continue;
      }
      group.push(event);
      bytes += event.body.length;
      if (group.length >= GROUP_EVENTS || bytes >= GROUP_BYTES) await append();
    }
    await append();
    await files.remove(taken);
  }
  return requeued;
}

async function keptAside(
  files: SpoolFiles,
  root: string,
  file: string,
  lost: { readonly offset: number; readonly size: number },
): Promise<string[]> {
  const fd = await files.open(file, 'read');
  try {
    const kept = await new DamagedBytes(files, root).keep(path.basename(file), fd, lost);
    return kept === undefined ? [] : [kept];
  } finally {
    await files.close(fd);
  }
}
