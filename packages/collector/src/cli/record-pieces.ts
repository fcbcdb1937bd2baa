/** Records as pieces of a file, or of a file a day. The same in a thread of its own as in the main one. */
import type { AssembledRun } from '../records/assemble.js';
import type { FileFormat, Piece, PieceBuilder } from '../records/exports/record-encoder.js';
import type { EventBody } from '../records/event-body.js';
import { beganBySender, type Clock } from '../records/report/run-moments.js';

/** Readers of dates know no others; with an offset a sender can get beyond them. */
const HAS_YEAR = /^(?!0000)\d{4}-/;

/** Neighbours of one file. */
export interface PlacedPiece extends Piece {
  /** The UTC day, such as 2026-01-31; empty when all goes to one file. */
  readonly day: string;
  readonly events: number;
}

/** So many days are kept apart in memory. */
const MOST_DAYS = 64;

interface DayPiece {
  readonly builder: PieceBuilder<EventBody>;
  records: number;
  events: number;
}

export class PieceMaker {
  #done: PlacedPiece[] = [];
  /** By the day. */
  readonly #days = new Map<string, DayPiece>();
  /** Builders that nothing is in: they keep their memory. */
  readonly #free: PieceBuilder<EventBody>[] = [];

  /** @param daysBy the clock whose days the files are of; undefined when all goes to one file. */
  constructor(
    private readonly format: FileFormat,
    private readonly daysBy: Clock | undefined,
    private readonly wanted: (run: AssembledRun) => boolean,
  ) {}

  add(run: AssembledRun): void {
    if (!this.wanted(run)) return;
    const piece = this.#of(this.daysBy === undefined ? '' : dayOf(run, this.daysBy));
    piece.builder.add(run);
    piece.records++;
    piece.events += run.metadata.events.length;
  }

  /** All pieces of what was added since the last time: of each day in order. */
  take(): PlacedPiece[] {
    this.#end();
    const done = this.#done;
    this.#done = [];
    return done;
  }

  #of(day: string): DayPiece {
    const known = this.#days.get(day);
    if (known !== undefined) return known;
    if (this.#days.size === MOST_DAYS) this.#end();
    const piece = { builder: this.#free.pop() ?? this.format.builder(), records: 0, events: 0 };
    this.#days.set(day, piece);
    return piece;
  }

  #end(): void {
    for (const [day, { builder, records, events }] of this.#days) {
      if (records > 0) this.#done.push({ ...builder.take(), day, events });
      this.#free.push(builder);
    }
    this.#days.clear();
  }
}

/** The UTC day on which the collector had the first event, or on which the record began by its sender's clock. */
function dayOf(run: AssembledRun, clock: Clock): string {
  const received = run.metadata.first_received_at.slice(0, 'YYYY-MM-DD'.length);
  if (clock === 'received') return received;
  const [day = ''] = new Date(beganBySender(run)).toISOString().split('T');
  return HAS_YEAR.test(day) ? day : received;
}
