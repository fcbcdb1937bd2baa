/**
 * Reads the committed entries of this process for the sequencer, through the descriptor that they were
 * written through: a segment that another process removes or replaces is still read to its end. All entries
 * are durable, so an invalid frame is damage, and there is no tail to judge.
 */
import { leafHash } from '../../tree/merkle.js';
import type { Committed, CommittedEntry, Cursor } from '../contract/events.js';
import { frameCommitment, frameEnvelope } from './frame.js';
import { readFrames } from './log-frames.js';
import type { SegmentLog } from './segment-log.js';

const WINDOW_BYTES = 256 << 10;
/** The largest batch of the ledger, so that the sequencer keeps up with it; about 3 ms of work. */
const BATCH_ENTRIES = 1024;
const BATCH_BYTES = 4 << 20;

class Entry implements CommittedEntry {
  sequence = 0;
  #frames: Buffer = Buffer.alloc(0);
  #offset = 0;

  at(sequence: number, frames: Buffer, offset: number): this {
    this.sequence = sequence;
    this.#frames = frames;
    this.#offset = offset;
    return this;
  }

  hashLeaf(target: Buffer, at: number): void {
    const envelope = frameEnvelope(this.#frames, this.#offset);
    leafHash(envelope, frameCommitment(this.#frames, this.#offset), target, at);
  }
}

export class CommittedEntries implements Committed {
  readonly #window = Buffer.allocUnsafe(WINDOW_BYTES);

  constructor(private readonly log: SegmentLog) {}

  get entries(): number {
    return this.log.nextSequence - 1;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- only a database needs to wait
  async *pass(from: Cursor): AsyncGenerator<Iterable<CommittedEntry>, Cursor> {
    if (from.sequence >= this.log.nextSequence) return from;
    const passage = new Passage(this.log, this.#window, from);
    while (!passage.ended) yield passage.batch(from.sequence);
    return passage.cursor;
  }
}

/** A pass up to the end of the log at its start. Each batch is a separate walk, because the log grows. */
class Passage {
  readonly #entry = new Entry();
  readonly #end: number;
  /** Address and sequence of the next entry. */
  #address: number;
  #sequence: number;
  /** Address of the last passed entry. */
  #passed = 0;

  constructor(
    private readonly log: SegmentLog,
    private readonly window: Buffer,
    from: Cursor,
  ) {
    ({ address: this.#address, sequence: this.#sequence } = log.before(from));
    this.#end = log.end;
  }

  get cursor(): Cursor {
    return { sequence: this.#sequence, at: this.#passed };
  }

  get ended(): boolean {
    return this.#address >= this.#end;
  }

  /** A batch, which must be consumed without a pause. @param wanted the first sequence to yield. */
  *batch(wanted: number): Generator<CommittedEntry, void> {
    const { files, segments } = this.log.written(this.#address);
    const from = { address: this.#address, sequence: this.#sequence };
    const bound = { address: from.address + BATCH_BYTES, sequence: from.sequence + BATCH_ENTRIES };
    const frames = readFrames(files, segments, { from, until: this.#end, window: this.window });
    for (const { buffer, offset, size, address, sequence } of frames) {
      if (address >= bound.address || sequence >= bound.sequence) return;
      if (sequence >= wanted) yield this.#entry.at(sequence, buffer, offset);
      this.#passed = address;
      this.#address = address + size;
      this.#sequence = sequence + 1;
    }
  }
}
