/** The full check of a ledger on disk, for `collector doctor`: reads every byte, changes none. */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { StoreDamaged } from '../store.js';
import { EventReader } from './event-reader.js';
import type { Files } from './files.js';
import { decodeFrame } from './frame.js';
import { IdIndexReader } from './id-index/id-index-reader.js';
import { readFrames } from './segment-reader.js';
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
  const frames = readFrames(files, segments);
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
        yield tailFinding(
          new EventReader(dataDirectory, files).tail(segments, next.value),
          segments,
          next.value,
        );
        yield indexFinding(dataDirectory, next.value.address);
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

function tailFinding(
  tail: ReturnType<EventReader['tail']>,
  segments: readonly Segment[],
  end: { offset: number; nextSequence: number },
): Finding {
  const file = path.basename(segments.at(-1)?.path ?? '');
  if (tail?.state === 'damaged') {
    const reason = 'a frame does not hold what was written';
    const { message } = new StoreDamaged({ file, offset: end.offset, sequence: end.nextSequence }, reason);
    return { severity: 'damage', subject: 'tail', message };
  }
  if (tail?.state === 'torn') {
    return {
      severity: 'warning',
      subject: 'tail',
      message:
        `${tail.bytes.length} bytes of a batch that was never acknowledged stand at the end of ${file}; ` +
        'the next start moves them to ledger/torn',
    };
  }
  return { severity: 'ok', subject: 'tail', message: 'ends behind a whole event' };
}

function indexFinding(dataDirectory: string, logEnd: number): Finding {
  const directory = path.join(dataDirectory, 'index');
  const troubles: string[] = [];
  if (!fs.existsSync(directory)) {
    return {
      severity: 'warning',
      subject: 'id index',
      message: 'missing; the next start rebuilds it from the events',
    };
  }
  const index = IdIndexReader.read({ directory, onError: (error) => troubles.push(String(error)) });
  const behind = logEnd - index.coveredTo;
  if (troubles.length > 0 || behind < 0) {
    return {
      severity: 'warning',
      subject: 'id index',
      message: 'damaged in part; the next start rebuilds that part',
    };
  }
  const rest = behind > 0 ? `; the next start adds the events of the last ${behind} bytes` : '';
  return {
    severity: 'ok',
    subject: 'id index',
    message: `covers ${index.coveredTo} of ${logEnd} bytes${rest}`,
  };
}
