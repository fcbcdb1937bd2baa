/**
 * Finds events, and entries of the log's own, by their id, beside a running collector or without one.
 *
 * The id index says where to look. It is derived, so it may be missing, behind (a running collector holds the newest
 * part in its memory), damaged, or that of another copy of this ledger. What it says is believed only where the log
 * agrees, and what it does not cover is read from the log.
 */
import path from 'node:path';
import type { StoredEntry } from '../store.js';
import { EventReader, type Cursor } from './event-reader.js';
import { exists, type Files } from './files.js';
import {
  checksumHolds,
  decodeFrame,
  frameEventId,
  frameOrganisation,
  frameSequence,
  HEADER_BYTES,
  plausibleSize,
} from './frame.js';
import { IdIndexError } from './id-index/id-index-error.js';
import { IdIndexReader } from './id-index/id-index-reader.js';
import { listSegments, SEGMENT_HEADER_BYTES, type Segment } from './segment.js';

export interface Sought {
  /** Lower-case text form. */
  readonly eventId: string;
  /** Only the event of this organisation. */
  readonly organisation?: string | undefined;
  /**
   * The organisations that are looked for through the index when none is asked for: it knows events by id and
   * organisation only. When none of them has the event the log is read from its beginning.
   */
  readonly known: readonly string[];
}

export interface Findings {
  /** One of each organisation that has one, by their sequence and in memory of their own. */
  readonly events: readonly StoredEntry[];
  /** Behind the last event that can be read. If more were stored once, the end of the log is damaged. */
  readonly nextSequence: number;
}

/** The organisation of the log's own entries; no sender has it. */
const OF_THE_LOG = '';
/** Organisation and key id behind a frame's header. */
const SENDER_BYTES = 512;

/**
 * The events with this id.
 *
 * The hole: without `organisation`, an event of an organisation that is not among those known is not found when one
 * of theirs is, unless it is newer than the index.
 * @throws StoreDamaged when what has to be read does not hold what was written.
 */
export async function findEvents(
  dataDirectory: string,
  files: Files,
  { eventId, organisation, known }: Sought,
): Promise<Findings> {
  // Before the segments are looked at: an index only grows, and would speak of events that came since.
  const index = openIndex(dataDirectory);
  try {
    const organisations = organisation === undefined ? [...known, OF_THE_LOG] : [organisation];
    const indexed = index && new IndexedLog(dataDirectory, files, index).find(eventId, organisations);
    const range = { eventId, ...(organisation !== undefined && { organisation }) };
    const reader = new EventReader(dataDirectory, files);
    if (indexed !== undefined) {
      const newer = readAll(reader.entries({ ...range, from: indexed.nextSequence }));
      const events = [...indexed.events, ...newer.events];
      if (events.length > 0 || organisation !== undefined) return { ...newer, events };
    }
    return readAll(reader.entries(range));
  } finally {
    await index?.close();
  }
}

function readAll(scan: Generator<StoredEntry, Cursor>): Findings {
  const events: StoredEntry[] = [];
  for (;;) {
    const next = scan.next();
    if (next.done) return { events, nextSequence: next.value.nextSequence };
    events.push(kept(next.value));
  }
}

function openIndex(dataDirectory: string): IdIndexReader | undefined {
  const directory = path.join(dataDirectory, 'index');
  return exists(directory) ? IdIndexReader.read({ directory }) : undefined;
}

/** The log as far as the index covers it. */
class IndexedLog {
  readonly #segments: readonly Segment[];

  constructor(
    dataDirectory: string,
    private readonly files: Files,
    private readonly index: IdIndexReader,
  ) {
    this.#segments = listSegments(files, path.join(dataDirectory, 'ledger'));
  }

  /**
   * What there is below `nextSequence`, the first event that the index does not cover.
   * @returns undefined when the index and the log do not agree: then the log has to be read.
   */
  find(eventId: string, organisations: readonly string[]): Findings | undefined {
    try {
      const nextSequence = this.#nextSequence();
      if (nextSequence === undefined) return undefined;
      const id = Buffer.from(eventId.replaceAll('-', ''), 'hex');
      const events: StoredEntry[] = [];
      for (const organisation of new Set(organisations)) {
        for (const address of this.#candidates(organisation, id)) {
          // The event is most likely just here: reading the log will name the damage, or show that there is none.
          const frame = this.#frameAt(address);
          if (frame === undefined) return undefined;
          const isIt = frameEventId(frame, 0).equals(id) && frameOrganisation(frame, 0) === organisation;
          if (isIt) events.push(decodeFrame(frame, 0));
        }
      }
      return { events: events.sort((a, b) => a.sequence - b.sequence), nextSequence };
    } catch (error) {
      if (error instanceof IdIndexError) return undefined;
      throw error;
    }
  }

  #candidates(organisation: string, id: Buffer): number[] {
    const { index } = this;
    const addresses: number[] = [];
    index.fingerprint(organisation, id, 0);
    return addresses.slice(0, index.find(index.hi, index.lo, addresses));
  }

  /** Of the first event behind the index; undefined when the newest event of a run is not where the run says. */
  #nextSequence(): number | undefined {
    const { index } = this;
    let covered = { to: 0, nextSequence: 1 };
    for (const { hi, lo, address } of index.newestOfRuns()) {
      const frame = this.#frameAt(address);
      if (frame === undefined) return undefined;
      index.fingerprint(frameOrganisation(frame, 0), frameEventId(frame, 0), 0);
      if (index.hi !== hi || index.lo !== lo) return undefined;
      covered = { to: address + frame.length, nextSequence: frameSequence(frame, 0) + 1 };
    }
    return covered.to === index.coveredTo ? covered.nextSequence : undefined;
  }

  /** The frame that begins at an address, or undefined when none does that can be read. */
  #frameAt(address: number): Buffer | undefined {
    const { files } = this;
    const segment = this.#segments.findLast(({ base }) => base <= address);
    if (segment === undefined) return undefined;
    const offset = address - segment.base + SEGMENT_HEADER_BYTES;
    const fd = files.open(segment.path, 'r');
    try {
      const header = Buffer.alloc(HEADER_BYTES + SENDER_BYTES);
      const held = files.read(fd, header, 0, header.length, offset);
      const size = plausibleSize(header, 0, held);
      if (size === 0 || size > files.size(fd) - offset) return undefined;
      const frame = Buffer.alloc(size);
      files.read(fd, frame, 0, size, offset);
      return checksumHolds(frame, 0, size) ? frame : undefined;
    } finally {
      files.close(fd);
    }
  }
}

/** A scan's views are overwritten by the next event. */
function kept(event: StoredEntry): StoredEntry {
  const salted = Buffer.from(event.salted);
  return {
    ...event,
    envelope: Buffer.from(event.envelope),
    commitment: Buffer.from(event.commitment),
    salted,
    body: salted.subarray(salted.length - event.body.length),
  };
}
