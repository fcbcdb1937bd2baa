/**
 * What was captured when the process ends and the spool has not got: it is not open yet, say. Nothing can be awaited any
 * more, so it is written by calls that wait for the disk, into a part of its own, without a lock. An owner stands in it
 * until it is whole: anyone who finds it before that, after a crash, takes it for one of another host and waits.
 */
import fs from 'node:fs';
import path from 'node:path';
import type { EventKind } from '@clinical-events/protocol';
import { SpoolFull, SpoolKeyWrong, type SpoolOptions } from './contract.js';
import { HOST } from './files.js';
import { encodeEnd, encodeFrame, frameSize } from './frame.js';
import { DRAFT, OWNER, placeOf, refuseShared } from './process-directory.js';
import {
  decodeSegmentHeader,
  encodeSegmentHeader,
  newSeries,
  sealOf,
  SEGMENT_HEADER_BYTES,
  segmentId,
  segmentNameOf,
  SERIES_NAME,
  WaitingSegment,
} from './segment.js';

const SEGMENT_BYTES = 16 << 20;

export interface UnspooledEvent {
  readonly kind: EventKind;
  readonly body: Uint8Array;
  /** Unix time in milliseconds. */
  readonly capturedAt: number;
}

type Place = Pick<SpoolOptions, 'directory' | 'durability' | 'key'> & { readonly maxBytes: number };

/**
 * Writes the events, durable as the mode says, for the next spool on the directory. Does not throw.
 * @returns how many, from the first, are kept, and why not all.
 */
export function crashFlush(
  place: Place,
  events: readonly UnspooledEvent[],
): { kept: number; error: unknown } {
  let kept = 0;
  try {
    const { root, key } = placeOf(place);
    const first = fs.mkdirSync(root, { recursive: true, mode: 0o700 });
    const { uid, mode } = fs.statSync(root);
    refuseShared(root, { uid, mode: mode & 0o777 });
    let room = place.maxBytes - storedBytes(root, key);
    const durable = place.durability === 'fsync';
    const series = newSeries();
    const home = makeHome(root, series);
    try {
      for (let number = 0; kept < events.length; number++) {
        const segment = new WaitingSegment(
          home,
          segmentId(series, number),
          key && keyed(key, series, number),
        );
        const { bytes, count } = encodeSegment(segment, events, kept);
        room -= bytes.length;
        if (room < 0) throw new SpoolFull(`the spool holds ${place.maxBytes} bytes and takes no more`);
        writeFile(segment.path, bytes, durable);
        if (durable) syncDirectory(home);
        kept += count;
      }
    } finally {
      fs.rmSync(path.join(home, OWNER));
      if (kept === 0) fs.rmdirSync(home);
      if (durable) syncNames(root, first);
    }
    return { kept, error: undefined };
  } catch (error) {
    return { kept, error };
  }
}

const keyed = (key: Uint8Array, series: string, number: number) => sealOf(key, segmentId(series, number));

/**
 * What all segments take that are there, and the quarantine.
 * @throws SpoolKeyWrong when the key does not open one of them: what is written now would not be read with the same key.
 */
function storedBytes(root: string, key: Uint8Array | undefined): number {
  let bytes = 0;
  const quarantine = path.join(root, 'quarantine');
  for (const file of quietly(() => fs.readdirSync(quarantine)) ?? []) {
    bytes += quietly(() => fs.lstatSync(path.join(quarantine, file)).size) ?? 0;
  }
  for (const series of fs.readdirSync(root).filter((name) => SERIES_NAME.test(name))) {
    const directory = path.join(root, series);
    for (const file of quietly(() => fs.readdirSync(directory)) ?? []) {
      if (segmentNameOf(file) === undefined) continue;
      const found = quietly(() => readHead(path.join(directory, file)));
      const header = found && decodeSegmentHeader(found.head);
      bytes += found?.size ?? 0;
      if (typeof header !== 'object' || !header.keyCheck || !key) continue;
      if (!sealOf(key, header.id).check.equals(header.keyCheck)) {
        throw new SpoolKeyWrong(`${directory} is sealed, and not by the key that was given`);
      }
    }
  }
  return bytes;
}

/** Without waiting for the other end of what is no file. */
function readHead(file: string): { head: Buffer; size: number } | undefined {
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = fs.constants;
  const fd = fs.openSync(file, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  try {
    const stat = fs.fstatSync(fd);
    if (!stat.isFile()) return undefined;
    const head = Buffer.alloc(SEGMENT_HEADER_BYTES);
    return { head: head.subarray(0, fs.readSync(fd, head, 0, head.length, 0)), size: stat.size };
  } finally {
    fs.closeSync(fd);
  }
}

/** Under its name it is never seen without an owner. */
function makeHome(root: string, series: string): string {
  const draft = path.join(root, `${DRAFT}${series}`);
  const home = path.join(root, series);
  fs.mkdirSync(draft, { mode: 0o700 });
  fs.writeFileSync(path.join(draft, OWNER), `${HOST}\n${process.pid}\n`, { flag: 'wx', mode: 0o600 });
  fs.renameSync(draft, home);
  return home;
}

/** A whole segment of as many events as it takes, from the one at `from` on, and at least one. */
function encodeSegment(
  segment: WaitingSegment,
  events: readonly UnspooledEvent[],
  from: number,
): { bytes: Buffer; count: number } {
  const { id, context } = segment;
  let size = SEGMENT_HEADER_BYTES;
  let count = 0;
  for (const { body } of events.slice(from)) {
    const more = frameSize(body.length, context);
    if (count > 0 && size + more > SEGMENT_BYTES) break;
    size += more;
    count++;
  }
  const frames = Buffer.alloc(size);
  encodeSegmentHeader(id, context.seal).copy(frames);
  let at = SEGMENT_HEADER_BYTES;
  for (let next = 0; next < count; next++) {
    const { kind, capturedAt, body } = events[from + next] as UnspooledEvent;
    encodeFrame(frames, at, context, kind, capturedAt, next, body);
    at += frameSize(body.length, context);
  }
  const end = encodeEnd(context, count, Date.now());
  return { bytes: Buffer.concat([frames, end]), count };
}

/** On return the file is there whole; when it throws, it is not there. */
function writeFile(file: string, bytes: Buffer, durable: boolean): void {
  const fd = fs.openSync(file, 'wx', 0o600);
  try {
    fs.writeFileSync(fd, bytes);
    if (durable) fs.fdatasyncSync(fd);
  } catch (error) {
    fs.rmSync(file);
    throw error;
  } finally {
    fs.closeSync(fd);
  }
}

/** On return the names in `root` are on stable storage, and those above it from the first that was made. */
function syncNames(root: string, first: string | undefined): void {
  syncDirectory(root);
  if (first === undefined) return;
  for (let made = root; ; made = path.dirname(made)) {
    syncDirectory(path.dirname(made));
    if (made === path.resolve(first)) break;
  }
}

function syncDirectory(directory: string): void {
  const fd = fs.openSync(directory, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** For what another process may take away meanwhile. */
function quietly<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch {
    return undefined;
  }
}
