/** What `collector runs` asks of the catalogue of runs, and what it gets. */
import type { Completeness, RecordedCall } from '@clinical-events/protocol';
import type { FeedbackWord, OutcomeWord } from '../records/report/closed-words.js';
import type { Clock } from '../records/report/run-moments.js';

/** Runs that match all that is given. Records without a run are none. */
export interface RunFilter {
  readonly organisation?: string;
  readonly target?: string;
  readonly user?: string;
  /** Any of these. A version of '' is that of a run whose version is not known. */
  readonly models?: readonly { readonly model: string; readonly version?: string }[];
  readonly application?: string;
  readonly outcome?: OutcomeWord;
  readonly feedback?: FeedbackAsked;
  readonly level?: 'incomplete';
  readonly hasConflict?: true;
  readonly failed?: true;
  /** Without an outcome, and begun before this instant. */
  readonly noOutcomeSince?: number;
  /** When the run began, by the clock. */
  readonly since?: number;
  readonly until?: number;
  /** That runs are picked and ordered by. */
  readonly clock: Clock;
}

/** `any`: of whatever sort. `none`: no feedback at all. */
export const FEEDBACK_ASKED = [
  ...(['thumbs-up', 'thumbs-down', 'rating', 'text', 'survey', 'other-words'] as const),
  ...(['any', 'none'] as const),
] as const;
type FeedbackAsked = (typeof FEEDBACK_ASKED)[number];

/** What a list says of a run. Names are as senders wrote them, null where no one has. Times in milliseconds since 1970. */
export interface ListedRun {
  readonly recordId: string;
  readonly organisation: string;
  readonly began: Readonly<Record<Clock, number>>;
  readonly lastReceivedAt: number;
  readonly events: number;
  readonly model: string | null;
  readonly version: string | null;
  readonly user: string | null;
  readonly target: string | null;
  readonly application: string | null;
  /** The last. */
  readonly outcome: OutcomeWord;
  readonly outcomesDiffer: boolean;
  /** How often each sort was given. */
  readonly feedback: Readonly<Partial<Record<FeedbackWord, number>>>;
  readonly thumbs: { readonly up: number; readonly down: number };
  /** From 0 to 5, as given. */
  readonly ratings: { readonly count: number; readonly sum: number };
  readonly level: Completeness['level'];
  readonly missing: readonly string[];
  /** A kind, or kind and rule with a colon between. */
  readonly conflicts: readonly string[];
  readonly ending: RecordedCall['ending'] | null;
  readonly status: number | null;
}

export interface RunCatalogue {
  /** Newest first. */
  runs(filter: RunFilter, limit: number): Iterable<ListedRun>;
  count(filter: RunFilter): number;
  /** The ids before and behind this one among those of all runs. */
  neighbours(recordId: string): readonly string[];
  close(): void;
}

interface CatalogueRequest {
  readonly dataDir: string;
  /** Where it is made instead of the data directory, which may be read-only. */
  readonly tempDir: string | undefined;
  /** Nothing is shown of how far it is. */
  readonly quiet: boolean;
  readonly signal: AbortSignal;
}

/** On return it covers every event that was durable when it was asked. */
export type OpenCatalogue = (request: CatalogueRequest) => Promise<RunCatalogue>;
