/**
 * Reads spools for the commands: counts for `show`, and every event and byte for `show --events` and
 * `--check`. Only `requeue`, which moves events out of quarantine, changes the directory. No lock is held.
 */
import { randomUUID } from 'node:crypto';
import path from 'node:path';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { examine, examineBlind, survey } from './adoption.js';
import { errorCode, moved, nodeFiles, reading, type SpoolFiles } from './files.js';
import { type Holder, Neighbours } from './process-directory.js';
import { openText } from './seal.js';
import {
  FrameCount,
  loadMarks,
  type LostBytes,
  SEGMENT_HEADER_BYTES,
  SegmentReader,
  SERIES_NAME,
  WaitingSegment,
} from './segment.js';
import { DamagedFiles, type KeptDamage, quarantineFiles, TAKEN } from './set-aside.js';
import { type Refusal, type Spool, SpoolKeyWrong } from './spool.js';

/** Whether the directory is empty or contains files of a spool. @throws the system's error. */
export async function looksLikeSpool(directory: string, files: SpoolFiles = nodeFiles): Promise<boolean> {
  const names = await files.list(path.resolve(directory));
  const isOurs = (name: string) =>
    SERIES_NAME.test(name.replace(/^new-/, '')) || name === 'quarantine' || name === 'damaged';
  return names.length === 0 || names.some(isOurs);
}

/** The parts of a spool, oldest first. @throws the system's error. */
async function partsOf(root: string, files: SpoolFiles): Promise<string[]> {
  const names = (await files.list(root)).filter((name) => SERIES_NAME.test(name));
  return names.map((name) => path.join(root, name));
}

/** The directory of one process. */
interface InspectedPart {
  readonly path: string;
  /** The process that writes or may write to it; undefined if it is abandoned. */
  readonly holder: Holder | undefined;
  readonly segments: number;
  /** Undefined if some events cannot be counted; then `problem` gives the reason. */
  readonly waiting: number | undefined;
  readonly waitingBytes: number | undefined;
  /** Time of the first event in the oldest segment, RFC 3339. */
  readonly oldest: string | undefined;
  readonly problem: string | undefined;
}

interface InspectedQuarantine {
  readonly path: string;
  readonly events: number;
  /** Events that the key does not open, so their refusals are unknown. */
  readonly sealed: number;
  /** Lines that are not in the format of a quarantine. */
  readonly unreadable: number;
  readonly reasons: readonly { readonly status: string; readonly code: string; readonly events: number }[];
}

export interface InspectedSpool {
  readonly parts: readonly InspectedPart[];
  readonly quarantine: readonly InspectedQuarantine[];
  readonly damaged: readonly KeptDamage[];
}

const UNKNOWN = { waiting: undefined, waitingBytes: undefined, oldest: undefined };

/** @throws the system's error if the directory cannot be read. */
export async function inspectSpool(
  directory: string,
  key: Uint8Array | undefined,
  files: SpoolFiles = nodeFiles,
): Promise<InspectedSpool> {
  const root = path.resolve(directory);
  const neighbours = new Neighbours(files, root, () => undefined);
  const parts: InspectedPart[] = [];
  for (const part of await partsOf(root, files)) {
    try {
      const holder = await neighbours.holderOf(part);
      parts.push({ path: part, holder, ...(await contentsOf(files, part, key)) });
    } catch (error) {
      // Another process adopted the part meanwhile.
      if (errorCode(error) === 'ENOENT') continue;
      const problem = `${part} cannot be read (${errorCode(error) ?? 'unknown'})`;
      parts.push({ path: part, holder: undefined, segments: 0, ...UNKNOWN, problem });
    }
  }
  const quarantine: InspectedQuarantine[] = [];
  for (const file of await quarantineFiles(files, root)) {
    quarantine.push(await inspectQuarantine(files, file, key));
  }
  return { parts, quarantine, damaged: await new DamagedFiles(files, root).all() };
}

/** Encrypted events are counted without the key, because frame headers are not encrypted. */
async function contentsOf(
  files: SpoolFiles,
  directory: string,
  key: Uint8Array | undefined,
): Promise<Omit<InspectedPart, 'path' | 'holder'>> {
  const { segments, unfit, locked } = await examineBlind(files, directory, key);
  const problems = unfit.map(({ path: file, why }) => `${file} ${why}`);
  if (locked !== undefined) problems.push(locked);
  let uncounted = unfit.length;
  let [waiting, waitingBytes] = [0, 0];
  let oldest = Infinity;
  for (const { name, id, seal } of segments) {
    const segment = new WaitingSegment(directory, id, seal, name, seal === undefined);
    try {
      await survey(files, segment);
    } catch (error) {
      // Its process removed it meanwhile.
      if (errorCode(error) === 'ENOENT') continue;
      problems.push(`${segment.path} cannot be read (${errorCode(error) ?? 'unknown'})`);
      uncounted++;
      continue;
    }
    waiting += segment.unread.events;
    waitingBytes += segment.unread.bytes;
    if (segment.unread.events > 0) oldest = Math.min(oldest, segment.firstCapturedAt ?? Infinity);
  }
  const at = Number.isFinite(oldest) ? new Date(oldest).toISOString() : undefined;
  const counts = uncounted > 0 ? UNKNOWN : { waiting, waitingBytes, oldest: at };
  const problem = problems.length > 0 ? problems.join('; ') : undefined;
  return { segments: segments.length + unfit.length, ...counts, problem };
}

const MOST_REASONS = 100;

async function inspectQuarantine(
  files: SpoolFiles,
  file: string,
  key: Uint8Array | undefined,
): Promise<InspectedQuarantine> {
  const reasons = new Map<string, { status: string; code: string; events: number }>();
  const found = { events: 0, sealed: 0, unreadable: 0 };
  try {
    for await (const { event } of quarantinedLines(files, file, key)) {
      if (event === undefined) found.unreadable++;
      else found.events++;
      if (event === 'sealed') found.sealed++;
      if (event === undefined || event === 'sealed') continue;
      const { status, code } = reasonOf(event.refusal);
      const name = JSON.stringify([status, code]);
      const reason = reasons.get(name);
      if (reason) reason.events++;
      else if (reasons.size < MOST_REASONS) reasons.set(name, { status, code, events: 1 });
    }
  } catch {
    // An unreadable file counts as one unreadable line.
    found.unreadable++;
  }
  return { path: file, ...found, reasons: [...reasons.values()] };
}

const CODE = /^[a-z][a-z0-9_]{0,63}$/;

/**
 * The status and code of a refusal if they have the form of the protocol. Other text from a server may quote
 * patient data and is omitted.
 */
export function reasonOf(refusal: { readonly status: unknown; readonly code?: unknown }): {
  status: string;
  code: string;
} {
  const { status, code } = refusal;
  const known = typeof code === 'string' && CODE.test(code);
  return {
    status: Number.isInteger(status) && /^\d{3}$/.test(String(status)) ? String(status) : 'unknown',
    code: known ? code : code === undefined ? '' : 'an unknown code',
  };
}

interface SpoolFinding {
  /** The file or directory concerned. */
  readonly path: string;
  readonly message: string;
}

export interface ReadSpool {
  readonly segments: number;
  /** Events with valid frames. */
  readonly events: number;
  /** Events among them that are done. */
  readonly done: number;
  /** Interrupted writes, which were never acknowledged. */
  readonly cut: number;
  readonly quarantined: number;
  /** Events in quarantine that the key does not open. */
  readonly sealed: number;
  readonly findings: readonly SpoolFinding[];
}

type Sums = { -readonly [K in keyof ReadSpool]: ReadSpool[K] } & { readonly findings: SpoolFinding[] };

/** An event that waits or is in quarantine. */
export interface VisitedEvent extends Pick<QuarantinedLine, 'offset' | 'size'> {
  /** The segment or quarantine file. */
  readonly path: string;
  /** An event in quarantine has a `refusal`. See `QuarantinedLine` for the other values. */
  readonly event: (Omit<QuarantinedEvent, 'refusal'> & Partial<QuarantinedEvent>) | 'sealed' | undefined;
}

type Visit = (event: VisitedEvent) => void | Promise<void>;

/**
 * Reads every byte of the parts and of the quarantine. Concurrent changes by living processes may be missed.
 * @throws SpoolKeyWrong if the key does not open all segments; errors of the file system, except errors of
 * reading a segment, which are findings; errors of `visit`.
 */
export async function readSpool(
  directory: string,
  key: Uint8Array | undefined,
  visit?: Visit,
  files: SpoolFiles = nodeFiles,
): Promise<ReadSpool> {
  const root = path.resolve(directory);
  const sums: Sums = { segments: 0, events: 0, done: 0, cut: 0, quarantined: 0, sealed: 0, findings: [] };
  for (const part of await partsOf(root, files)) {
    const { unfit, segments } = await examine(files, part, key);
    for (const { path: file, why } of unfit)
      sums.findings.push({ path: file, message: `the segment ${why}` });
    for (const { name, id, seal, damagedHeader } of segments) {
      const segment = new WaitingSegment(part, id, seal, name);
      if (damagedHeader) sums.findings.push({ path: segment.path, message: 'its header is damaged' });
      await readSegment(files, root, part, segment, sums, visit);
    }
  }
  for (const file of await quarantineFiles(files, root)) {
    for await (const { event, offset, size } of quarantinedLines(files, file, key)) {
      if (event === undefined) {
        const message = `${size} bytes at ${offset} are not a line of a quarantine`;
        sums.findings.push({ path: file, message });
      } else sums.quarantined++;
      if (event === 'sealed') sums.sealed++;
      await visit?.({ path: file, offset, size, event });
    }
  }
  for (const { path: file, bytes, missing } of await new DamagedFiles(files, root).all()) {
    const message =
      missing === undefined
        ? `${bytes} damaged bytes, copied when they were read`
        : `events missing when their segment was read: ${missing}`;
    sums.findings.push({ path: file, message });
  }
  return sums;
}

async function readSegment(
  files: SpoolFiles,
  root: string,
  part: string,
  segment: WaitingSegment,
  sums: Sums,
  visit: Visit | undefined,
): Promise<void> {
  const count = new FrameCount();
  const lost: LostBytes[] = [];
  const read = await reading(files, segment.path, async (fd) => {
    const done = await loadMarks(files, segment);
    // Bytes written later are ignored, because they may end within a frame.
    const end = Math.max(SEGMENT_HEADER_BYTES, await files.size(fd));
    const reader = new SegmentReader(files, fd, segment.context);
    for await (const found of reader.all(end)) {
      const { frame, offset, size } = found;
      if (!frame) {
        lost.push(found);
        continue;
      }
      count.meet(found, done);
      const { kind, body } = frame;
      if (!visit || kind === undefined || done.has(offset)) continue;
      const capturedAt = new Date(frame.capturedAt).toISOString();
      await visit({ path: segment.path, offset, size, event: { kind, capturedAt, body } });
    }
    return { unreadable: reader.unreadable };
  });
  // The segment was removed or adopted meanwhile.
  if (!read) return;
  sums.segments++;
  sums.events += count.events;
  sums.done += count.done;
  const add = (message: string) => sums.findings.push({ path: segment.path, message });
  // A segment that is being written may end within a frame.
  const held = lost.at(-1)?.atEnd === true && (await isHeld(files, root, part));
  for (const bytes of lost) {
    if (bytes.atEnd && held) continue;
    if (count.isCut(bytes)) sums.cut++;
    else add(`${bytes.size} bytes at ${bytes.offset} are not a frame`);
  }
  if (count.missing > 0) add(`${count.missing} of its events are missing`);
  if (read.unreadable !== undefined) add('part of it cannot be read');
}

async function isHeld(files: SpoolFiles, root: string, part: string): Promise<boolean> {
  return !(await new Neighbours(files, root, () => undefined).abandoned()).includes(part);
}

interface QuarantinedEvent {
  readonly kind: EventKind;
  /** RFC 3339. */
  readonly capturedAt: string;
  readonly refusal: Refusal;
  /** The exact bytes captured. */
  readonly body: Uint8Array;
}

export interface QuarantinedLine {
  readonly offset: number;
  /** Includes the line break. */
  readonly size: number;
  /**
   * `sealed` if the key does not open the line; undefined if the line is invalid, for example truncated by a
   * crash.
   */
  readonly event: QuarantinedEvent | 'sealed' | undefined;
}

/** Yields the lines of a file except empty ones; nothing if the file does not exist. */
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
    for await (const { offset, size, text } of linesOf(files, fd)) {
      if (text?.trim() === '') continue;
      yield { offset, size, event: text === undefined ? undefined : readQuarantineLine(text, key) };
    }
  } finally {
    await files.close(fd);
  }
}

export function readQuarantineLine(line: string, key: Uint8Array | undefined): QuarantinedLine['event'] {
  const written = parsed(line);
  if (typeof written?.['sealed'] !== 'string') return written && quarantinedEvent(written);
  const text = key && openText(key, Buffer.from(written['sealed'], 'base64'));
  if (text === undefined) return 'sealed';
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
    ...{ kind, capturedAt, refusal },
    body: text ? Buffer.from(event) : Buffer.from(base64 as string, 'base64'),
  };
}

function isRefusal(value: unknown): value is Refusal {
  return typeof value === 'object' && value !== null && 'status' in value && 'at' in value;
}

const PIECE_BYTES = 1 << 20;
const NEWLINE = 10;
/** More than the largest event needs when escaped and encrypted. */
const LONGEST_LINE_BYTES = 32 << 20;

export interface Line extends Omit<QuarantinedLine, 'event'> {
  /** Undefined if it is longer than 32 MiB. */
  readonly text: string | undefined;
}

/**
 * Yields the lines of a file, which may be growing, in bounded memory. The last line may lack a line break.
 */
export async function* linesOf(files: SpoolFiles, fd: number): AsyncGenerator<Line, void, undefined> {
  const buffer = Buffer.alloc(PIECE_BYTES);
  let [offset, position] = [0, 0];
  let held: Buffer[] = [];
  let heldBytes = 0;
  const hold = (bytes: Buffer) => {
    heldBytes += bytes.length;
    if (heldBytes <= LONGEST_LINE_BYTES) held.push(Buffer.from(bytes));
    else held = [];
  };
  const line = (end: number): Line => {
    const text = heldBytes <= LONGEST_LINE_BYTES ? Buffer.concat(held).toString() : undefined;
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

/** Limits of a group of events that are appended together. */
const GROUP_EVENTS = 256;
const GROUP_BYTES = 1 << 20;

export interface Requeued {
  readonly events: number;
  /** Files in `damaged/` with lines that could not be read. */
  readonly unreadable: readonly string[];
}

/**
 * Moves the events in quarantine to `spool`, which is open on the same directory: each file is renamed, its
 * events are appended, and it is removed. After an interruption an event may be in both places; the collector
 * detects the duplicate.
 * @throws SpoolKeyWrong for a line that the key does not open, before anything is changed; errors of `append`
 * and of the file system, after which the other events are still in quarantine.
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
          key ? 'the quarantine is encrypted with another key' : 'the quarantine is encrypted; give its key',
        );
      }
    }
  }
  const requeued = { events: 0, unreadable: [] as string[] };
  for (const file of found) {
    const taken = file.endsWith(TAKEN) ? file : `${file}.${randomUUID()}${TAKEN}`;
    // False if another `requeue` took the file.
    if (taken !== file && !(await moved(files, file, taken))) continue;
    let group: QuarantinedEvent[] = [];
    let bytes = 0;
    const append = async () => {
      await Promise.all(group.map(({ kind, body }) => spool.append(kind, body)));
      requeued.events += group.length;
      [group, bytes] = [[], 0];
    };
    for await (const { event, offset, size } of quarantinedLines(files, taken, key)) {
      // The line may be one whose writer noticed the move and writes it again to a new file.
      if (event === undefined || event === 'sealed') {
        const kept = await reading(files, taken, (fd) =>
          new DamagedFiles(files, root).keep(path.basename(taken), fd, { offset, size }),
        );
        if (kept !== undefined) requeued.unreadable.push(kept);
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
