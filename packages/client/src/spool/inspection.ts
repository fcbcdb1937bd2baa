/** What a spool holds, for people to see: nothing is taken, moved or removed, and nobody is held up. */
import path from 'node:path';
import { examineBlind, survey } from './adoption.js';
import { DamagedBytes, type KeptDamage } from './damaged-bytes.js';
import { errorCode } from './error-code.js';
import { nodeFiles, type SpoolFiles } from './files.js';
import { Neighbours, type Holder } from './process-directory.js';
import { quarantinedLines, quarantineFiles, type QuarantinedLine } from './quarantined.js';
import { SERIES_NAME } from './segment.js';
import { WaitingSegment } from './waiting-segment.js';

const MOST_REASONS = 100;
/** What codes look like in the protocol's table. */
const CODE = /^[a-z][a-z0-9_]{0,63}$/;

/** The sub-directory of one process. */
interface InspectedPart {
  readonly path: string;
  /** The process that writes to it, or may: then the numbers are those of a moment ago. Undefined when nobody does. */
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
export async function partsOf(directory: string, files: SpoolFiles = nodeFiles): Promise<string[]> {
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
    // Of a file that somebody has filled with reasons of his own, the first ones will do.
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
