/**
 * At the end of the process, writes the captured events that no open spool has. The events are written
 * synchronously to a new part without a lock. Its `owner` is removed last: after a crash before that, other
 * processes wait three minutes before they adopt it.
 */
import fs from 'node:fs';
import path from 'node:path';
import type { EventKind } from '@clinical-events/protocol';
import { HOST } from './files.js';
import { DRAFT, OWNER, placeOf, refuseShared } from './process-directory.js';
import {
  decodeSegmentHeader,
  encodeEnd,
  encodeFrame,
  encodeSegmentHeader,
  frameSize,
  newSeries,
  sealOf,
  SEGMENT_HEADER_BYTES,
  segmentId,
  segmentNameOf,
  SERIES_NAME,
  WaitingSegment,
} from './segment.js';
import { MAX_BYTES, SpoolFull, SpoolKeyWrong, type SpoolOptions, SpoolUnwritable } from './spool.js';

const SEGMENT_BYTES = 16 << 20;

export interface UnspooledEvent {
  readonly kind: EventKind;
  readonly body: Uint8Array;
  /** Unix time in milliseconds. */
  readonly capturedAt: number;
}

type Place = Pick<SpoolOptions, 'directory' | 'durability' | 'key' | 'maxBytes'>;

/**
 * Writes the events for the next spool on the directory, as durable as the mode says. Does not throw.
 * @returns the number of events kept, from the first, and the error if some are not.
 */
export function crashFlush(
  place: Place,
  events: readonly UnspooledEvent[],
): { kept: number; error: unknown } {
  let kept = 0;
  try {
    if (place.durability === 'memory') throw new SpoolUnwritable('the spool is in memory only');
    const { maxBytes = MAX_BYTES } = place;
    const { root, key } = placeOf(place);
    const first = fs.mkdirSync(root, { recursive: true, mode: 0o700 });
    const { uid, mode } = fs.statSync(root);
    refuseShared(root, { uid, mode: mode & 0o777 });
    let room = maxBytes - storedBytes(root, key);
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
        if (room < 0) throw new SpoolFull(`the spool has reached its limit of ${maxBytes} bytes`);
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
 * Size of all segments and of the quarantine.
 * @throws SpoolKeyWrong if the key does not open a segment: events with this key could not be read together
 * with it.
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
        throw new SpoolKeyWrong(`${directory} is encrypted with another key`);
      }
    }
  }
  return bytes;
}

/** Undefined if it is not a regular file. Opening a pipe does not block. */
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

/** Renames the directory only when it has an owner. */
function makeHome(root: string, series: string): string {
  const draft = path.join(root, `${DRAFT}${series}`);
  const home = path.join(root, series);
  fs.mkdirSync(draft, { mode: 0o700 });
  fs.writeFileSync(path.join(draft, OWNER), `${HOST}\n${process.pid}\n`, { flag: 'wx', mode: 0o600 });
  fs.renameSync(draft, home);
  return home;
}

/** A complete segment of the events from index `from` on: at least one, and no more than fit. */
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

/** Writes the whole file, or none. */
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

/** Flushes `root` and its parents, up to the parent of `first`, the topmost directory that was created. */
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

/** Undefined if `act` throws, because another process removed the file meanwhile. */
function quietly<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch {
    return undefined;
  }
}
