/** Writes down what is done, a little at a time, and one thing after the other. */
import { encodeMarks, type Mark } from './done-marks.js';
import type { SpoolFiles } from './files.js';
import type { OnTrouble } from './trouble.js';
import type { WaitingSegment } from './waiting-segment.js';

/**
 * Marks that may wait for a disk that takes none, some MiB. What is done beyond that is not noted: the next spool on the
 * directory sends it again, and the collector takes it for the repeat that it is.
 */
const MOST_MARKS = 1 << 17;

export class DoneNotes {
  readonly #files: SpoolFiles;
  readonly #onTrouble: OnTrouble;
  /** Those with marks that are not written down, and those for which that is on its way. */
  readonly #marked = new Set<WaitingSegment>();
  readonly #noting = new Set<WaitingSegment>();
  /** Those among the latter that were dropped meanwhile. */
  readonly #dropped = new Set<WaitingSegment>();
  #chores: Promise<void> = Promise.resolve();
  /** Marks that are not written down. */
  #unwritten = 0;

  constructor(files: SpoolFiles, onTrouble: OnTrouble) {
    this.#files = files;
    this.#onTrouble = onTrouble;
  }

  add(segment: WaitingSegment, mark: Mark): void {
    if (this.#unwritten >= MOST_MARKS) return;
    this.#unwritten++;
    segment.marks.push(mark);
    this.#marked.add(segment);
  }

  /** What is done in the segment needs no writing down any more. */
  drop(segment: WaitingSegment): void {
    this.#marked.delete(segment);
    this.#unwritten -= segment.marks.splice(segment.marksInFlight).length;
    if (segment.marksInFlight > 0) this.#dropped.add(segment);
  }

  /** Does this behind all that is under way; what goes wrong is told. */
  chore(failed: string, work: () => Promise<void>): void {
    this.#chores = this.#chores.then(work).catch((error: unknown) => this.#onTrouble(failed, error));
  }

  /** Has written down what is done by now. */
  write(): void {
    for (const segment of this.#marked) {
      // Once only, however long the disk does not answer.
      if (this.#noting.has(segment)) continue;
      this.#noting.add(segment);
      this.chore('what is done could not be noted', () => {
        this.#noting.delete(segment);
        return this.#mark(segment);
      });
    }
  }

  /** On return what was done before is written down, and all chores are done. */
  written(): Promise<void> {
    this.write();
    return this.#chores;
  }

  /** As `write`, at the end of the process. */
  writeNow(): void {
    for (const segment of this.#marked) {
      // A batch that is being written just now is written again as it is: both put the same bytes there.
      const { marks, marksInFlight, context } = segment;
      const batches = [marks.slice(0, marksInFlight), marks.slice(marksInFlight)].filter(
        (some) => some.length > 0,
      );
      const bytes = Buffer.concat(batches.map((some) => encodeMarks(some, context.checksumStart)));
      this.#files.writeNow(this.#files.openNow(segment.marksPath), bytes, segment.marksEnd);
    }
    this.#marked.clear();
  }

  async #mark(segment: WaitingSegment): Promise<void> {
    // It may have been dropped meanwhile.
    if (!this.#marked.delete(segment)) return;
    const marks = segment.marks.slice();
    segment.marksInFlight = marks.length;
    const batch = encodeMarks(marks, segment.context.checksumStart);
    try {
      const fd = await this.#files.open(segment.marksPath, 'write');
      try {
        await this.#files.write(fd, batch, segment.marksEnd);
      } finally {
        await this.#files.close(fd);
      }
    } catch (error) {
      if (this.#dropped.delete(segment)) this.#unwritten -= marks.length;
      else this.#marked.add(segment);
      throw error;
    } finally {
      segment.marksInFlight = 0;
    }
    this.#dropped.delete(segment);
    this.#unwritten -= segment.marks.splice(0, marks.length).length;
    segment.marksEnd += batch.length;
  }
}
