/**
 * Which runs are captured, when not all are. Whatever is left out is counted, and the counts go to the collector, so
 * that rates can be computed from what is there (docs/CLIENT_SPEC.md, "Sampling on the record").
 */
import type { EventKind, EventOf, ModelInstance } from '@clinical-events/protocol';

interface Payloads {
  'inference-start': Pick<
    EventOf<'inference-start'>,
    'model_instance' | 'user_identity' | 'target_identity' | 'inputs'
  >;
  'internal-artifact': Pick<EventOf<'internal-artifact'>, 'artifact'>;
  'human-output': Pick<EventOf<'human-output'>, 'output'>;
  outcome: Pick<EventOf<'outcome'>, 'outcome'>;
  'user-feedback': Pick<EventOf<'user-feedback'>, 'feedback'>;
}

/** An event as a predicate sees it: before it has been checked. */
export type JudgedEvent = {
  [K in EventKind]: {
    readonly kind: K;
    readonly eventId: string;
    readonly runId: string;
    /** Of the run that it belongs to. */
    readonly model: ModelInstance;
    readonly payload: Readonly<Payloads[K]>;
  };
}[EventKind];

export interface Sampling {
  /** The share of runs that is captured, by chance: from 0 to 1. 1, which is all, when it is not given. */
  readonly rate?: number;
  /**
   * Whether this event makes its run one that must be captured. The events before it follow out of the window. Asked
   * once for each event until it says so; one that throws, or returns a promise, has said so.
   */
  readonly risk?: (event: JudgedEvent) => boolean;
  /** What is held of runs that chance did not choose: the last 1,000 of them, for 10 minutes, in 16 MiB. */
  readonly window?: { readonly runs?: number; readonly ms?: number; readonly bytes?: number };
  /** For so long after a version of a model was first seen by this process, another share of its runs is captured: all. */
  readonly afterModelChange?: { readonly ms: number; readonly rate?: number };
}

/** What is told of the runs that were left out, since that was last told. */
export interface NotCaptured {
  /** RFC 3339: when that was. */
  readonly since: string;
  /** Runs whose start was left out, and events of them and of others. */
  readonly runs: number;
  readonly events: number;
  /** The same by model; models beyond the first 32 count in the sums only. */
  readonly models: readonly {
    readonly model_id?: string;
    readonly model_version?: string;
    readonly runs: number;
    readonly events: number;
  }[];
}
