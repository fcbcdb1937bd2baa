/** What a spool holds, for people to see: nothing is taken, moved or removed, and nobody is held up. */
import path from 'node:path';
import { examine, survey } from './adoption.js';
import { SpoolKeyWrong, SpoolUnwritable } from './contract.js';
import { errorCode } from './error-code.js';
import { nodeFiles, type SpoolFiles } from './files.js';
import { Neighbours, readOwner } from './process-directory.js';
import { quarantinedLines, quarantineFiles } from './quarantined.js';
import { SERIES_NAME, segmentNameOf } from './segment.js';
import { WaitingSegment } from './waiting-segment.js';

const MOST_REASONS = 100;
const LONGEST_REASON = 60;

/** The sub-directory of one process. */
interface InspectedPart {
  readonly path: string;
  /** The process that writes to it, or may: then the numbers are those of a moment ago. Undefined when nobody does. */
  readonly holder: { readonly pid: number | undefined; readonly here: boolean } | undefined;
  readonly segments: number;
  /** Undefined when they cannot be counted; then `problem` says why. */
  readonly waiting: number | undefined;
  readonly waitingBytes: number | undefined;
  /** When the first event of the oldest segment was captured, RFC 3339. */
  readonly oldest: string | undefined;
  readonly problem: string | undefined;
}

interface InspectedQuarantine {
  readonly path: string;
  readonly events: number;
  /** Events among them that the key does not open, so that no reason is known. */
  readonly sealed: number;
  /** Lines that are none of the quarantine's. */
  readonly unreadable: number;
  /** As the files say, which somebody may have changed: text of any kind. */
  readonly reasons: readonly { readonly status: string; readonly code: string; readonly events: number }[];
}

export interface InspectedSpool {
  readonly parts: readonly InspectedPart[];
  readonly quarantine: readonly InspectedQuarantine[];
  readonly damaged: readonly { readonly path: string; readonly bytes: number }[];
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
  const free = await new Neighbours(files, root, () => undefined).abandoned();
  const parts: InspectedPart[] = [];
  for (const part of await partsOf(root, files)) {
    const owner = free.includes(part) ? undefined : await readOwner(files, part);
    const holder = owner && { pid: owner.pid, here: owner.host === files.host };
    parts.push({ path: part, holder, ...(await contentsOf(files, part, key)) });
  }
  const quarantine: InspectedQuarantine[] = [];
  for (const file of await quarantineFiles(files, root)) {
    quarantine.push(await inspectQuarantine(files, file, key));
  }
  return { parts, quarantine, damaged: await damagedIn(files, path.join(root, 'damaged')) };
}

async function contentsOf(
  files: SpoolFiles,
  directory: string,
  key: Uint8Array | undefined,
): Promise<Omit<InspectedPart, 'path' | 'holder'>> {
  try {
    const { segments } = await examine(files, directory, key);
    let [waiting, waitingBytes] = [0, 0];
    let oldest = Infinity;
    for (const { name, id, seal } of segments) {
      const segment = new WaitingSegment(directory, id, seal, name);
      try {
        await survey(files, segment);
      } catch (error) {
        // Finished meanwhile.
        if (errorCode(error) === 'ENOENT') continue;
        throw error;
      }
      waiting += segment.unread.events;
      waitingBytes += segment.unread.bytes;
      if (segment.unread.events > 0) oldest = Math.min(oldest, segment.firstCapturedAt ?? Infinity);
    }
    const at = Number.isFinite(oldest) ? new Date(oldest).toISOString() : undefined;
    return { segments: segments.length, waiting, waitingBytes, oldest: at, problem: undefined };
  } catch (error) {
    if (!(error instanceof SpoolKeyWrong || error instanceof SpoolUnwritable)) throw error;
    const segments = (await files.list(directory)).filter((name) => segmentNameOf(name)).length;
    const unknown = { waiting: undefined, waitingBytes: undefined, oldest: undefined };
    return { segments, ...unknown, problem: error.message };
  }
}

async function inspectQuarantine(
  files: SpoolFiles,
  file: string,
  key: Uint8Array | undefined,
): Promise<InspectedQuarantine> {
  const reasons = new Map<string, { status: string; code: string; events: number }>();
  const found = { events: 0, sealed: 0, unreadable: 0 };
  for await (const { event } of quarantinedLines(files, file, key)) {
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

/** Status and code in short, whatever stands there; the code is empty when there is none. */
export function reasonOf(refusal: { readonly status: unknown; readonly code?: unknown }): {
  status: string;
  code: string;
} {
  const short = (value: unknown) =>
    ['string', 'number'].includes(typeof value) ? String(value).slice(0, LONGEST_REASON) : '';
  return { status: short(refusal.status), code: short(refusal.code) };
}

async function damagedIn(files: SpoolFiles, directory: string): Promise<{ path: string; bytes: number }[]> {
  const damaged = [];
  for (const name of await files.list(directory).catch(noneIfMissing)) {
    const file = path.join(directory, name);
    const fd = await files.open(file, 'read');
    try {
      damaged.push({ path: file, bytes: await files.size(fd) });
    } finally {
      await files.close(fd);
    }
  }
  return damaged;
}

function noneIfMissing(error: unknown): string[] {
  if (errorCode(error) === 'ENOENT') return [];
  throw error;
}
