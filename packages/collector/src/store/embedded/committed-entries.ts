/**
 * What this process has committed, read again for the sequencer by the descriptor that it was written by: a segment that
 * another hand removes or replaces is still read to its end. All of it is durable, so a frame that does not hold is
 * damage, and there is no tail to judge.
 */
import { leafHash } from '../../tree/merkle.js';
import type { Committed, CommittedEntry, Cursor } from '../contract/events.js';
import { frameCommitment, frameEnvelope } from './frame.js';
import { walk } from './log-frames.js';
import type { SegmentLog } from './segment-log.js';

const WINDOW_BYTES = 256 << 10;
/** As much as a batch of the ledger may have, so that the sequencer keeps up with it turn by turn; some 3 ms of work. */
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

  // eslint-disable-next-line @typescript-eslint/require-await -- the page cache needs no wait; a database would.
  async *pass(from: Cursor): AsyncGenerator<Iterable<CommittedEntry>, Cursor> {
    if (from.sequence >= this.log.nextSequence) return from;
    const passage = new Passage(this.log, this.#window, from);
    while (!passage.ended) yield passage.batch(from.sequence);
    return passage.cursor;
  }
}

/** One pass up to the end that the log had when it began. Each batch is a walk of its own, as the log grows meanwhile. */
class Passage {
  readonly #entry = new Entry();
  readonly #end: number;
  /** Of the entry that is due. */
  #address: number;
  #sequence: number;
  /** Address of the newest entry that was passed. */
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

  /** To be read to its end at once. @param wanted the first sequence that is. */
  *batch(wanted: number): Generator<CommittedEntry, void> {
    const { files, segments } = this.log.written(this.#address);
    const from = { address: this.#address, sequence: this.#sequence };
    const bound = { address: from.address + BATCH_BYTES, sequence: from.sequence + BATCH_ENTRIES };
    for (const block of walk(files, segments, { from, until: this.#end, window: this.window })) {
      const { buffer, offsets, end, address } = block;
      for (let i = 0; i < offsets.length; i++) {
        if (this.#address >= bound.address || this.#sequence >= bound.sequence) return;
        if (this.#sequence >= wanted) yield this.#entry.at(this.#sequence, buffer, offsets[i] ?? end);
        this.#passed = this.#address;
        this.#address = address + (offsets[i + 1] ?? end);
        this.#sequence++;
      }
    }
  }
}
