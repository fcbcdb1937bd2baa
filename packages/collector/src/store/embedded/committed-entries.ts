/**
 * What this process has committed, read again for the sequencer. It is read by the descriptor that it was written by: a
 * segment that another hand removes or replaces is still read to its end. Everything up to the log's end is durable, so
 * a frame that does not hold is damage, and there is no tail to judge.
 */
import { leafHash } from '../../tree/merkle.js';
import { type Committed, type CommittedEntry, type Cursor, StoreDamaged } from '../contract/events.js';
import { checksumHolds, frameCommitment, frameEnvelope, frameSequence, plausibleSize } from './frame.js';
import type { SegmentLog } from './segment-log.js';

/** Small enough to stay in a core's own cache while its frames are hashed. */
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

/** The frames that are read, and how far they are passed. */
class Passage {
  #window: Buffer = Buffer.allocUnsafe(WINDOW_BYTES);
  /** The window holds the log's bytes [at, at + held). */
  #at = 0;
  #held = 0;
  readonly #entry = new Entry();

  /** Of the newest entry that was passed. */
  #passed = 0;

  constructor(
    private readonly log: SegmentLog,
    private address: number,
    private sequence: number,
    private readonly end: number,
  ) {}

  get cursor(): Cursor {
    return { sequence: this.sequence, at: this.#passed };
  }

  /** @param from the first sequence that is wanted. */
  *batch(from: number): Generator<CommittedEntry, void> {
    const bound = this.address + BATCH_BYTES;
    for (let entries = 0; entries < BATCH_ENTRIES && this.address < Math.min(bound, this.end); entries++) {
      const size = this.#frameSize();
      const offset = this.address - this.#at;
      if (this.sequence >= from) {
        yield this.#entry.at(this.sequence, this.#window, offset);
      }
      this.#passed = this.address;
      this.address += size;
      this.sequence++;
    }
  }

  get ended(): boolean {
    return this.address >= this.end;
  }

  /** The size of the frame that is due; on return the window has all of it. */
  #frameSize(): number {
    let offset = this.address - this.#at;
    let size = plausibleSize(this.#window, offset, this.#held);
    if (size === 0 || offset + size > this.#held) {
      this.#move();
      offset = 0;
      size = plausibleSize(this.#window, 0, this.#held);
      if (size > this.#held && size <= this.end - this.address) {
        this.#window = Buffer.allocUnsafe(size);
        this.#move();
      }
    }
    const isWhole = size > 0 && offset + size <= this.#held && checksumHolds(this.#window, offset, size);
    if (isWhole && frameSequence(this.#window, offset) === this.sequence) return size;
    const { sequence } = this;
    const { file, offset: at } = this.log.placeOf(this.address);
    throw new StoreDamaged(
      { where: `${file} at byte ${at}`, sequence },
      'a frame does not hold what was written',
    );
  }

  #move(): void {
    this.#at = this.address;
    this.#held = this.log.read(this.address, this.#window);
  }
}

export class CommittedEntries implements Committed {
  constructor(private readonly log: SegmentLog) {}

  get entries(): number {
    return this.log.nextSequence - 1;
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- the page cache needs no wait; a database would.
  async *pass(from: Cursor): AsyncGenerator<Iterable<CommittedEntry>, Cursor> {
    // Nothing is behind the log's end, and nothing has to be looked up for it.
    if (from.sequence >= this.log.nextSequence) return from;
    const { address, sequence } = this.log.before(from);
    const passage = new Passage(this.log, address, sequence, this.log.end);
    while (!passage.ended) yield passage.batch(from.sequence);
    return passage.cursor;
  }
}
