/**
 * The events of a record, as its row has them: chunks one behind the other, in the order in which they came in.
 *
 *   chunk  how many entries, and these; the first one against zeros, each other against the one before it
 *   entry  kind, and 8 when the payload cannot be read; sequence; place, against the end of the place before; size;
 *          received_at; unless it cannot be read, the sender's time against received_at
 *
 * A record of two merged ones has chunks of both, so their sequences are in order within a chunk alone.
 */
import { CatalogueDamaged } from './catalogue-faults.js';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import type { Place } from '../store/event-log.js';
import type { LogBatch } from './log-batch.js';
import { PackedReader, type PackedWriter } from './packing.js';

/** An event of a record. Times in milliseconds since 1970. */
export interface EventEntry extends Place {
  readonly kind: EventKind;
  readonly sequence: number;
  readonly receivedAt: number;
  /** By the sender's clock; undefined when the payload cannot be read. */
  readonly sentAt: number | undefined;
}

const UNREADABLE = 8;

/**
 * @param indices of the events in the batch, in the order of their sequences.
 * @param sentAt of one of them, by its place among these.
 */
export function packEntries(
  writer: PackedWriter,
  batch: LogBatch,
  indices: readonly number[],
  sentAt: (place: number) => number | undefined,
): void {
  let [sequence, end, received] = [0, 0, 0];
  writer.count(indices.length);
  for (let place = 0; place < indices.length; place++) {
    const i = indices[place] ?? 0;
    const sent = sentAt(place);
    const [at, receivedAt, size] = [batch.places[i] ?? 0, batch.receivedAt[i] ?? 0, batch.sizes[i] ?? 0];
    writer.count(EVENT_KINDS.indexOf(batch.kind(i)) | (sent === undefined ? UNREADABLE : 0));
    writer.count((batch.sequences[i] ?? 0) - sequence);
    writer.count(at - end);
    writer.count(size);
    writer.signed(receivedAt - received);
    if (sent !== undefined) writer.signed(sent - receivedAt);
    sequence = batch.sequences[i] ?? 0;
    end = at + size;
    received = receivedAt;
  }
}

/**
 * @returns all entries, in the order of the log.
 * @throws CatalogueDamaged for what {@link packEntries} has not made.
 */
export function unpackEntries(chunks: readonly Uint8Array[]): EventEntry[] {
  const entries: EventEntry[] = [];
  const order = { isKept: true, before: 0 };
  for (const bytes of chunks) {
    eachEntry(new PackedReader(bytes), (kind, receivedAt, sentAt, size, at, sequence) => {
      if (sequence < order.before) order.isKept = false;
      order.before = sequence;
      entries.push({ kind, sequence, at, size, receivedAt, sentAt });
    });
  }
  return order.isKept ? entries : entries.sort((a, b) => a.sequence - b.sequence);
}

type Visit = (
  kind: EventKind,
  receivedAt: number,
  sentAt: number | undefined,
  size: number,
  at: number,
  sequence: number,
) => void;

/**
 * Goes through the entries of some chunks without an object for each, as they stand there.
 * @throws CatalogueDamaged for what {@link packEntries} has not made.
 */
export function eachEntry(reader: PackedReader, visit: Visit): void {
  while (!reader.isAtEnd) {
    let [sequence, end, receivedAt] = [0, 0, 0];
    for (let left = reader.count(); left > 0; left--) {
      const mark = reader.count();
      const kind = kindOf(mark);
      sequence += reader.count();
      const at = end + reader.count();
      const size = reader.count();
      receivedAt += reader.signed();
      const sentAt = (mark & UNREADABLE) === 0 ? receivedAt + reader.signed() : undefined;
      end = at + size;
      visit(kind, receivedAt, sentAt, size, at, sequence);
    }
  }
}

/**
 * The same for the times alone.
 * @throws CatalogueDamaged for what {@link packEntries} has not made.
 */
export function eachTime(
  reader: PackedReader,
  visit: (kind: EventKind, receivedAt: number, sentAt: number | undefined) => void,
): void {
  while (!reader.isAtEnd) {
    let receivedAt = 0;
    for (let left = reader.count(); left > 0; left--) {
      const mark = reader.count();
      const kind = kindOf(mark);
      reader.skip(3);
      receivedAt += reader.signed();
      visit(kind, receivedAt, (mark & UNREADABLE) === 0 ? receivedAt + reader.signed() : undefined);
    }
  }
}

function kindOf(mark: number): EventKind {
  const kind = EVENT_KINDS[mark & (UNREADABLE - 1)];
  if (kind === undefined) throw new CatalogueDamaged('an entry of no kind');
  return kind;
}

/** About how much log the events of some chunks take: the sum of their sizes. */
export function logBytesIn(bytes: Uint8Array): number {
  let sum = 0;
  eachEntry(new PackedReader(bytes), (_kind, _receivedAt, _sentAt, size) => (sum += size));
  return sum;
}
