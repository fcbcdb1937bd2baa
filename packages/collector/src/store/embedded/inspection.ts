/** The full check of a ledger on disk, for `collector doctor`: reads every byte, changes none. */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { StoreDamaged } from '../store.js';
import { EventReader } from './event-reader.js';
import type { Files } from './files.js';
import { decodeFrame } from './frame.js';
import { IdIndexReader } from './id-index/id-index-reader.js';
import type { Tail } from './recovery.js';
import { endsTooEarly } from './segment-log.js';
import type { SegmentEnd } from './segment-reader.js';
import { listSegments, type Segment } from './segment.js';

export type Severity = 'ok' | 'warning' | 'damage';

export interface Finding {
  readonly severity: Severity;
  /** What was checked, one word or two. */
  readonly subject: string;
  readonly message: string;
}

/** @param onProgress bytes read so far, and of how many. */
export function* inspectLedger(
  dataDirectory: string,
  files: Files,
  onProgress: (bytes: number, of: number) => void,
): Generator<Finding> {
  const directory = path.join(dataDirectory, 'ledger');
  let segments: Segment[];
  try {
    segments = listSegments(files, directory);
  } catch (error) {
    if (!(error instanceof StoreDamaged)) throw error;
    yield { severity: 'damage', subject: 'segments', message: error.message };
    return;
  }
  const total = segments.reduce((bytes, segment) => bytes + fs.statSync(segment.path).size, 0);
  // Before the events: a running collector's index would otherwise speak of some that came after those read here.
  const index = lookAtIndex(dataDirectory);
  const frames = new EventReader(dataDirectory, files).frames(segments);
  let events = 0;
  try {
    for (;;) {
      const next = frames.next();
      if (next.done) {
        onProgress(total, total);
        yield {
          severity: 'ok',
          subject: 'events',
          message: `${events} in ${segments.length} segments, each checked`,
        };
        yield tailFinding(next.value.tail, segments);
        yield indexFinding(index, segments, next.value);
        return;
      }
      const { buffer, offset, address, size } = next.value;
      const event = decodeFrame(buffer, offset);
      if (event.payloadState === 'plain' && hash('sha256', event.body, 'hex') !== event.digest) {
        const place = `event ${event.sequence} (${event.eventId})`;
        yield {
          severity: 'damage',
          subject: 'events',
          message: `the body of ${place} does not have its SHA-256`,
        };
      }
      events++;
      if (events % 4096 === 0) onProgress(address + size, total);
    }
  } catch (error) {
    if (!(error instanceof StoreDamaged)) throw error;
    yield {
      severity: 'damage',
      subject: 'events',
      message: `${error.message}; ${events} events before it are whole`,
    };
  }
}

function tailFinding(tail: Tail, segments: readonly Segment[]): Finding {
  if (tail.state !== 'torn') return { severity: 'ok', subject: 'tail', message: 'ends behind a whole event' };
  return {
    severity: 'warning',
    subject: 'tail',
    message:
      `${tail.bytes.length} bytes of a batch that was never acknowledged stand at the end of ` +
      `${path.basename(segments.at(-1)?.path ?? '')}; unless a collector is just writing them, ` +
      'the next start moves them to ledger/torn',
  };
}

type IndexState = { readonly coveredTo: number; readonly troubles: readonly string[] } | 'missing';

function lookAtIndex(dataDirectory: string): IndexState {
  const directory = path.join(dataDirectory, 'index');
  if (!fs.existsSync(directory)) return 'missing';
  const troubles: string[] = [];
  const index = IdIndexReader.read({ directory, onError: (error) => troubles.push(String(error)) });
  const { coveredTo } = index;
  index.close().catch(() => undefined);
  return { coveredTo, troubles };
}

function indexFinding(index: IndexState, segments: readonly Segment[], end: SegmentEnd): Finding {
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
  const rest = behind > 0 ? `; the next start adds the events of the last ${behind} bytes` : '';
  return { severity: 'ok', subject, message: `covers ${index.coveredTo} of ${end.address} bytes${rest}` };
}
