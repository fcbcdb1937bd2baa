/** The full check of a ledger on disk, for `collector doctor`: reads every byte, changes none. */
import { hash } from 'node:crypto';
import path from 'node:path';
import { StoreDamaged, type StoredEntry } from '../contract.js';
import { counted } from '../../quantity.js';
import { exists, type Files } from '../../files.js';
import { decodeFrame } from './frame.js';
import { IdIndexReader } from './id-index/run-directory.js';
import type { Tail } from './recovery.js';
import { endsTooEarly } from './segment-log.js';
import { readToEnd, type SegmentEnd } from './log-frames.js';
import { listSegments, type Segment } from './segment.js';

type Severity = 'ok' | 'warning' | 'damage';

export interface Finding {
  readonly severity: Severity;
  /** What was checked, one word or two. */
  readonly subject: string;
  readonly message: string;
}

/**
 * @returns how many entries the log holds, its own among them; undefined when it could not be read to its end.
 * @param onProgress bytes of events read so far, and of how many; room made ahead is not among them.
 * @param running whether a collector runs on the directory: it holds the newest part of the index in memory.
 * @param onOwn is told of each entry of the log's own.
 */
export function* inspectLedger(
  dataDirectory: string,
  files: Files,
  onProgress: (bytes: number, of: number) => void,
  running = false,
  onOwn: (entry: StoredEntry) => void = () => undefined,
): Generator<Finding, number | undefined> {
  const directory = path.join(dataDirectory, 'ledger');
  let segments: Segment[];
  try {
    // Without a ledger, an index may still tell that there was one.
    segments = exists(directory) ? listSegments(files, directory) : [];
  } catch (error) {
    if (!(error instanceof StoreDamaged)) throw error;
    yield { severity: 'damage', subject: 'segments', message: error.message };
    return undefined;
  }
  const total = usedBytes(files, segments);
  // Before the events: a running collector's index would otherwise speak of some that came after those read here.
  const index = lookAtIndex(dataDirectory);
  const blocks = readToEnd(files, segments);
  let [entries, own] = [0, 0];
  try {
    for (;;) {
      const next = blocks.next();
      if (next.done) {
        onProgress(total, total);
        yield {
          severity: 'ok',
          subject: 'events',
          message: `${counted(entries - own, 'event')} in ${counted(segments.length, 'segment')}, each checked`,
        };
        yield tailFinding(next.value.tail, segments);
        yield indexFinding(index, segments, next.value, running);
        return entries;
      }
      const { buffer, offsets, end, address } = next.value;
      for (const offset of offsets) {
        const event = decodeFrame(buffer, offset);
        entries++;
        if (typeof event.kind === 'number') {
          own++;
          onOwn(event);
        }
        if (event.payloadState !== 'plain') continue;
        if (hash('sha256', event.salted, 'buffer').equals(event.commitment)) continue;
        const place = `event ${event.sequence} (${event.eventId})`;
        const message = `the body of ${place} does not have the SHA-256 that it was stored with`;
        yield { severity: 'damage', subject: 'events', message };
      }
      // The end was looked for before, and a running collector has moved it since.
      onProgress(address + end, Math.max(address + end, total));
    }
  } catch (error) {
    if (!(error instanceof StoreDamaged)) throw error;
    yield {
      severity: 'damage',
      subject: 'events',
      message: `${error.message}; ${counted(entries - own, 'event')} before it ${entries - own === 1 ? 'is' : 'are'} whole`,
    };
    return undefined;
  }
}

const BLOCK_BYTES = 4096;

/**
 * About how many bytes of frames there are, in a few reads: behind the last frame of the last segment all is zeros,
 * and no frame has a block of zeros in it, so the last block that is not zeros is found by halving.
 */
function usedBytes(files: Files, segments: readonly Segment[]): number {
  const last = segments.at(-1);
  if (last === undefined) return 0;
  const fd = files.open(last.path, 'r');
  try {
    const block = Buffer.alloc(BLOCK_BYTES);
    let [used, blocks] = [0, Math.ceil(files.size(fd) / BLOCK_BYTES)];
    while (used < blocks) {
      const middle = (used + blocks) >> 1;
      const got = files.read(fd, block, 0, BLOCK_BYTES, middle * BLOCK_BYTES);
      if (block.subarray(0, got).every((byte) => byte === 0)) blocks = middle;
      else used = middle + 1;
    }
    return last.base + used * BLOCK_BYTES;
  } finally {
    files.close(fd);
  }
}

function tailFinding(tail: Tail, segments: readonly Segment[]): Finding {
  if (tail.state !== 'torn') return { severity: 'ok', subject: 'tail', message: 'ends behind a whole event' };
  return {
    severity: 'warning',
    subject: 'tail',
    message:
      `${counted(tail.bytes.length, 'byte')} at the end of ${path.basename(segments.at(-1)?.path ?? '')}, ` +
      'most likely of a batch that was never acknowledged; unless a collector is just writing them, ' +
      'the next start moves them to ledger/torn',
  };
}

type IndexState = { readonly coveredTo: number; readonly troubles: readonly string[] } | 'missing';

function lookAtIndex(dataDirectory: string): IndexState {
  const directory = path.join(dataDirectory, 'index');
  if (!exists(directory)) return 'missing';
  const troubles: string[] = [];
  const index = IdIndexReader.read({ directory, onError: (error) => troubles.push(String(error)) });
  const { coveredTo } = index;
  index.close().catch(() => undefined);
  return { coveredTo, troubles };
}

function indexFinding(
  index: IndexState,
  segments: readonly Segment[],
  end: SegmentEnd,
  running: boolean,
): Finding {
  const subject = 'id index';
  if (index === 'missing') {
    return { severity: 'warning', subject, message: 'missing; the next start rebuilds it from the events' };
  }
  const behind = end.address - index.coveredTo;
  if (behind < 0) {
    const file = path.basename(segments.at(-1)?.path ?? '');
    return { severity: 'damage', subject, message: endsTooEarly(file, end.offset, end.nextSequence).message };
  }
  if (index.troubles.length > 0) {
    return { severity: 'warning', subject, message: 'damaged in part; the next start rebuilds that part' };
  }
  if (behind > 0 && running) {
    const newest = `the newest ${behind} bytes are in the collector's memory`;
    return { severity: 'ok', subject, message: `in step: ${newest}` };
  }
  const rest = behind > 0 ? `; the next start adds the events of the last ${behind} bytes` : '';
  return {
    severity: 'ok',
    subject,
    message: `covers ${index.coveredTo} of ${end.address} bytes${rest}`,
  };
}
