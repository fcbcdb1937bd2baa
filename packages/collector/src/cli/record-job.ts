/** What the main thread and those that make records say to each other. Nothing of a payload but finished pieces. */
import type { EventPlace } from '../store/event-places.js';
import type { RecordFilter } from './record-arguments.js';
import type { PlacedPiece } from './record-pieces.js';

export interface ThreadSettings {
  readonly dataDir: string;
  /** As `--format` names it. */
  readonly format: string;
  readonly filter: RecordFilter;
  readonly byDay: boolean;
}

/** Some runs, as they follow each other in the log. */
export interface Job {
  readonly windows: readonly JobWindow[];
}

export interface JobWindow {
  /** Addresses and sizes by turns. */
  readonly places: Float64Array;
  /** How many events each run has. */
  readonly counts: Uint32Array;
  /** Of the runs that others are nested in, or that are nested in each other in a circle, by place. */
  readonly links: readonly (readonly [run: number, children: readonly string[], cycle: readonly string[]])[];
}

/** To the thread: something to do, or where the events are that it asked for. */
export type Told =
  | { readonly job: Job }
  /** In the order of the question; undefined for an event that the log does not have. */
  | { readonly runs: readonly (string | null | undefined)[] };

/** The parents of a window's events that are not of their own run. */
export interface Question {
  readonly run: number;
  readonly window: number;
  readonly eventId: string;
}

/** From the thread. */
export type Answer =
  | { readonly questions: readonly Question[] }
  | { readonly pieces: readonly PlacedPiece[]; readonly passed: number };

export function placesIn({ places, counts }: JobWindow): { readonly places: EventPlace[] }[] {
  const runs: { places: EventPlace[] }[] = [];
  let at = 0;
  for (const count of counts) {
    const own: EventPlace[] = [];
    for (const end = at + 2 * count; at < end; at += 2) {
      own.push({ address: places[at] ?? 0, size: places[at + 1] ?? 0 });
    }
    runs.push({ places: own });
  }
  return runs;
}
