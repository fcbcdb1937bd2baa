/** What a spool holds, for people to see: nothing is taken, moved or removed, and no one is held up. */
import path from 'node:path';
import { examine, examineBlind, survey } from './adoption.js';
import { errorCode, nodeFiles, type SpoolFiles } from './files.js';
import { type Holder, Neighbours } from './process-directory.js';
import {
  type QuarantinedEvent,
  type QuarantinedLine,
  quarantinedLines,
  quarantineFiles,
} from './quarantine.js';
import { DamagedBytes, FrameCount, type KeptDamage, type LostBytes, walk } from './segment-reader.js';
import { SERIES_NAME, WaitingSegment } from './segment.js';

const MOST_REASONS = 100;
/** What codes look like in the protocol's table. */
const CODE = /^[a-z][a-z0-9_]{0,63}$/;

/** The sub-directory of one process. */
interface InspectedPart {
  readonly path: string;
  /** The process that writes to it, or may: then the numbers are those of a moment ago. Undefined when no one does. */
  readonly holder: Holder | undefined;
  readonly segments: number;
  /** Undefined when they cannot all be counted; then `problem` says why. */
  readonly waiting: number | undefined;
  readonly waitingBytes: number | undefined;
  /** When the first event of the oldest segment was captured, RFC 3339. */
  readonly oldest: string | undefined;
  /** What cannot be read of it. */
  readonly problem: string | undefined;
}

interface InspectedQuarantine {
  readonly path: string;
  readonly events: number;
  /** Events among them that the key does not open, so that no reason is known. */
  readonly sealed: number;
  /** Lines that are none of the quarantine's. */
  readonly unreadable: number;
  readonly reasons: readonly { readonly status: string; readonly code: string; readonly events: number }[];
}

export interface InspectedSpool {
  readonly parts: readonly InspectedPart[];
  readonly quarantine: readonly InspectedQuarantine[];
  readonly damaged: readonly KeptDamage[];
}

/** Of a spool's names, those that stand for themselves. */
const NAMES: readonly string[] = ['quarantine', 'damaged'];

/** Whether the directory is empty, or has anything in it that a spool would put there. @throws the system's error. */
export async function looksLikeSpool(directory: string, files: SpoolFiles = nodeFiles): Promise<boolean> {
  const names = await files.list(path.resolve(directory));
  return (
    names.length === 0 ||
    names.some((name) => SERIES_NAME.test(name.replace(/^new-/, '')) || NAMES.includes(name))
  );
}

/** The paths of the parts, in the order in which they were begun. @throws the system's error. */
async function partsOf(directory: string, files: SpoolFiles = nodeFiles): Promise<string[]> {
  const root = path.resolve(directory);
  return (await files.list(root))
    .filter((name) => SERIES_NAME.test(name))
    .map((name) => path.join(root, name));
}

/** @throws the system's error when the directory cannot be read. */
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
      // Taken over meanwhile: it is found elsewhere.
      if (errorCode(error) === 'ENOENT') continue;
      const problem = `${part} cannot be looked at (${errorCode(error) ?? 'unknown'})`;
      parts.push({ path: part, holder: undefined, segments: 0, ...UNKNOWN, problem });
    }
  }
  const quarantine: InspectedQuarantine[] = [];
  for (const file of await quarantineFiles(files, root)) {
    quarantine.push(await inspectQuarantine(files, file, key));
  }
  return { parts, quarantine, damaged: await new DamagedBytes(files, root).all() };
}

const UNKNOWN = { waiting: undefined, waitingBytes: undefined, oldest: undefined };

/** Sealed events are counted without the key: only what is in a frame is sealed. */
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
      // Finished meanwhile.
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

async function inspectQuarantine(
  files: SpoolFiles,
  file: string,
  key: Uint8Array | undefined,
): Promise<InspectedQuarantine> {
  const reasons = new Map<string, { status: string; code: string; events: number }>();
  const found = { events: 0, sealed: 0, unreadable: 0 };
  for await (const { event } of readableLines(files, file, key)) {
    if (event === undefined) {
      found.unreadable++;
      continue;
    }
    found.events++;
    if (event === 'sealed') {
      found.sealed++;
      continue;
    }
    const { status, code } = reasonOf(event.refusal);
    const name = JSON.stringify([status, code]);
    const reason = reasons.get(name);
    if (reason) reason.events++;
    // Of a file that someone has filled with reasons of his own, the first ones will do.
    else if (reasons.size < MOST_REASONS) reasons.set(name, { status, code, events: 1 });
  }
  return { path: file, ...found, reasons: [...reasons.values()] };
}

/** A file that cannot be read counts as a line that cannot. */
async function* readableLines(
  files: SpoolFiles,
  file: string,
  key: Uint8Array | undefined,
): AsyncGenerator<Pick<QuarantinedLine, 'event'>, void, undefined> {
  try {
    yield* quarantinedLines(files, file, key);
  } catch {
    yield { event: undefined };
  }
}

/**
 * Status and code, and nothing that is none: a server's words may be about a patient. The code is empty when there is
 * none.
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

/* All of a spool: every event, and whether every byte is what was written; nothing is changed, and no one is held up. */

interface SpoolFinding {
  /** Of the file or directory that it is about. */
  readonly path: string;
  readonly message: string;
}

export interface ReadSpool {
  readonly segments: number;
  /** Events whose frames hold, and how many of them are done. */
  readonly events: number;
  readonly done: number;
  /** Writes that were cut off before their events were acknowledged. */
  readonly cut: number;
  /** Events in quarantine, and how many of them the key does not open. */
  readonly quarantined: number;
  readonly sealed: number;
  readonly findings: readonly SpoolFinding[];
}

type Sums = { -readonly [K in keyof ReadSpool]: ReadSpool[K] } & { readonly findings: SpoolFinding[] };

/** What waits, or stands in quarantine. */
export interface MetEvent extends Pick<QuarantinedLine, 'offset' | 'size'> {
  /** Of the segment, or of the file of the quarantine. */
  readonly path: string;
  /** `refusal` is there in quarantine; otherwise as `QuarantinedLine` has it. */
  readonly event: (Omit<QuarantinedEvent, 'refusal'> & Partial<QuarantinedEvent>) | 'sealed' | undefined;
}

type Visit = (met: MetEvent) => void | Promise<void>;

/**
 * Reads every byte, part by part, and then what is in quarantine. What a living process does meanwhile may or may not be
 * seen.
 * @throws SpoolKeyWrong when the key does not open all segments; the errors of the file system, but for those of reading
 * a segment, which are findings; what `visit` throws.
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
    const examined = await examine(files, part, key);
    for (const { path: at, why } of examined.unfit) sums.findings.push({ path: at, message: `it ${why}` });
    for (const { name, id, seal, damagedHeader } of examined.segments) {
      const segment = new WaitingSegment(part, id, seal, name);
      if (damagedHeader) sums.findings.push({ path: segment.path, message: 'its header is damaged' });
      await readSegment(files, root, part, segment, sums, visit);
    }
  }
  for (const file of await quarantineFiles(files, root)) {
    for await (const { event, offset, size } of quarantinedLines(files, file, key)) {
      if (event === undefined) {
        const message = `${size} bytes at ${offset} are no line of a quarantine`;
        sums.findings.push({ path: file, message });
      } else sums.quarantined++;
      if (event === 'sealed') sums.sealed++;
      await visit?.({ path: file, offset, size, event });
    }
  }
  for (const { path: at, bytes, missing } of await new DamagedBytes(files, root).all()) {
    const message =
      missing === undefined
        ? `${bytes} bytes that were no event when they were read, and are kept here`
        : `events were missing when their segment was read: ${missing}`;
    sums.findings.push({ path: at, message });
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
  const walked = await walk(files, segment, (found, done) => {
    const { frame, offset, size } = found;
    if (!frame) {
      lost.push(found);
      return undefined;
    }
    count.meet(found, done);
    const { kind, body } = frame;
    if (!visit || kind === undefined || done.has(offset)) return undefined;
    const capturedAt = new Date(frame.capturedAt).toISOString();
    return visit({ path: segment.path, offset, size, event: { kind, capturedAt, body } });
  });
  if (!walked) return;
  sums.segments++;
  sums.events += count.events;
  sums.done += count.done;
  const tell = (message: string) => sums.findings.push({ path: segment.path, message });
  // The end of a segment that is being written may be half of a frame.
  const held = lost.at(-1)?.atEnd === true && (await isHeld(files, root, part));
  for (const bytes of lost) {
    if (bytes.atEnd && held) continue;
    if (count.isCut(bytes)) sums.cut++;
    else tell(`${bytes.size} bytes at ${bytes.offset} are no whole frame`);
  }
  if (count.missing > 0) tell(`${count.missing} of its events are missing`);
  if (walked.unreadable !== undefined) tell('some of it cannot be read');
}

async function isHeld(files: SpoolFiles, root: string, part: string): Promise<boolean> {
  return !(await new Neighbours(files, root, () => undefined).abandoned()).includes(part);
}
