/**
 * Decides event by event: capture, hold or leave out. A run and the runs nested in it share one decision. Chance
 * decides at the start; a risk, an outcome or feedback may turn it later, and then what is held of the run follows.
 * Outcomes and feedback themselves are always captured: what became of a patient is never left to chance.
 */
import { performance } from 'node:perf_hooks';
import type { EventKind, EventOf, ModelInstance } from '@clinical-events/protocol';
import { isDroppedPromise } from './hostile-values.js';

const WINDOW = { runs: 1000, ms: 600_000, bytes: 16 << 20 };

/** What a held event takes beside its bytes, about. */
const HELD_OVERHEAD_BYTES = 512;

interface Held {
  readonly event: Pick<JudgedEvent, 'kind' | 'model'>;
  readonly bytes: number;
  /** Captures it after all. */
  readonly release: () => void;
}

/** A run with the runs nested in it, as far as sampling is concerned. */
export interface SampledRun {
  /** The outermost run's first. */
  readonly runIds: unknown[];
  /** Of the outermost run. */
  readonly model: ModelInstance;
  readonly startedAt: number;
  /** What its starts carry. */
  readonly marks: Readonly<Record<string, unknown>>;
  state: 'captured' | 'held' | 'left out';
  risky: boolean;
  held: Held[];
}

export interface Decision {
  readonly fate: SampledRun['state'];
  /** What goes into system_metadata under `sampling`. */
  readonly marks: Readonly<Record<string, unknown>> | undefined;
}

/** For runs of which nothing is known here, such as those of an earlier process. */
const ALWAYS: Decision = { fate: 'captured', marks: undefined };

export interface SamplerParts {
  readonly onTrouble: (what: string, error: unknown) => void;
  /** From 0 to below 1. */
  readonly random?: () => number;
  /** A clock that is never set, in milliseconds. */
  readonly now?: () => number;
}

export class Sampler {
  readonly omissions = new Omissions();
  readonly #sampling: Sampling;
  readonly #window: typeof WINDOW;
  readonly #parts: Required<SamplerParts>;
  readonly #changes: ModelChanges;
  /** Runs that a risk, an outcome or feedback may still bring in whole, selected ones among them; oldest first. */
  readonly #inWindow = new Set<SampledRun>();
  readonly #byRunId = new Map<unknown, SampledRun>();
  #heldBytes = 0;

  /** @throws RangeError for what is no sampling: a rate that is none, a window without a size. */
  constructor(sampling: Sampling, parts: SamplerParts) {
    if (!isObject(sampling)) throw new RangeError('sampling is an object, such as { rate: 0.5 }');
    const { rate = 1, afterModelChange, window = {}, risk } = sampling;
    for (const [name, part] of Object.entries({ afterModelChange, window })) {
      if (part !== undefined && !isObject(part)) throw new RangeError(`${name} of sampling is an object`);
    }
    for (const share of [rate, afterModelChange?.rate ?? 1]) {
      if (!isSize(share) || share > 1) throw new RangeError('a rate of sampling is from 0 to 1');
    }
    if (afterModelChange && !isSize(afterModelChange.ms)) {
      throw new RangeError('ms of afterModelChange is a number of milliseconds, from 0 on');
    }
    if (risk !== undefined && typeof risk !== 'function') throw new RangeError('risk is a function');
    this.#sampling = sampling;
    this.#window = { ...WINDOW, ...window };
    if (!Object.values(this.#window).every(isSize)) {
      throw new RangeError('the sizes of a sampling window are from 0 on');
    }
    this.#parts = { random: Math.random, now: () => performance.now(), ...parts };
    this.#changes = new ModelChanges(this.#parts.now);
  }

  /** A run begins, perhaps nested in another: then that one's decision is its own. */
  begin(runId: string, model: ModelInstance, outer?: SampledRun): SampledRun {
    const run = outer ?? this.#decide(model);
    // Without a predicate nothing would ask for what is held but an outcome or feedback, and those mostly come too late.
    if (this.#sampling.risk && !outer) this.#inWindow.add(run);
    if (this.#inWindow.has(run)) {
      run.runIds.push(keyOf(runId));
      this.#byRunId.set(keyOf(runId), run);
    }
    return run;
  }

  /** The run with this id, if it is in the window: what is said of it by its id alone belongs to it. */
  runInWindow(runId: string): SampledRun | undefined {
    return this.#byRunId.get(keyOf(runId));
  }

  /** Decides about an event. One that is to be held is then given to `hold`, one that is left out to `leaveOut`. */
  judge(run: SampledRun | undefined, event: JudgedEvent): Decision {
    this.expire();
    if (!run) return ALWAYS;
    const { kind } = event;
    const start = kind === 'inference-start' ? run.marks : undefined;
    const turned = !run.risky && this.#isRisky(event);
    if (turned) run.risky = true;
    if (!turned && kind !== 'outcome' && kind !== 'user-feedback') return { fate: run.state, marks: start };
    // Marked in a run that chance has selected too, for as long as it would have brought in one that was not: such
    // runs are captured all, and others in proportion.
    const marks = this.#inWindow.has(run) ? { ...start, trigger: turned ? 'risk' : kind } : start;
    this.#capture(run);
    return { fate: 'captured', marks };
  }

  /** Keeps an event of so many bytes until its run is captured or has to go. */
  hold(run: SampledRun, { kind, model }: JudgedEvent, bytes: number, release: () => void): void {
    const held = { event: { kind, model }, bytes: bytes + HELD_OVERHEAD_BYTES, release };
    run.held.push(held);
    this.#heldBytes += held.bytes;
    this.expire();
  }

  leaveOut({ kind, model }: Pick<JudgedEvent, 'kind' | 'model'>): void {
    this.omissions.add(kind, model);
  }

  /** Lets go of the runs that the window has no room for any more, and counts what is left out. */
  expire(): void {
    const { runs, ms, bytes } = this.#window;
    const now = this.#parts.now();
    for (const run of this.#inWindow) {
      if (this.#inWindow.size <= runs && this.#heldBytes <= bytes && now - run.startedAt < ms) break;
      this.#drop(run);
    }
  }

  /** Lets go of all runs, and counts what is left out. */
  end(): void {
    for (const run of this.#inWindow) this.#drop(run);
  }

  #decide(model: ModelInstance): SampledRun {
    const { rate = 1, afterModelChange, risk } = this.#sampling;
    const changed = afterModelChange !== undefined && this.#changes.ageOf(model) < afterModelChange.ms;
    const share = changed ? (afterModelChange.rate ?? 1) : rate;
    const selected = this.#parts.random() < share;
    return {
      ...{ runIds: [], model, startedAt: this.#parts.now() },
      marks: { rate: share, selected, ...(changed && { after_model_change: true }) },
      state: selected ? 'captured' : risk ? 'held' : 'left out',
      risky: false,
      held: [],
    };
  }

  #isRisky(event: JudgedEvent): boolean {
    let failure: string;
    try {
      const answer: unknown = this.#sampling.risk?.(event);
      if (!isDroppedPromise(answer)) return Boolean(answer);
      failure = 'has returned a promise, and has to answer immediately';
    } catch {
      // Not the error itself: it may name values of the event.
      failure = 'has thrown';
    }
    this.#parts.onTrouble(`the predicate of risk ${failure}; the run is captured`, undefined);
    return true;
  }

  #capture(run: SampledRun): void {
    run.state = 'captured';
    for (const { release } of this.#letGo(run)) release();
  }

  #drop(run: SampledRun): void {
    if (run.state === 'held') run.state = 'left out';
    for (const { event } of this.#letGo(run)) this.leaveOut(event);
  }

  #letGo(run: SampledRun): readonly Held[] {
    this.#inWindow.delete(run);
    for (const runId of run.runIds) this.#byRunId.delete(runId);
    const { held } = run;
    run.held = [];
    for (const { bytes } of held) this.#heldBytes -= bytes;
    return held;
  }
}

/** Ids compare as UUIDs, whatever their case. What a caller gives in place of one is refused later. */
function keyOf(runId: unknown): unknown {
  return typeof runId === 'string' ? runId.toLowerCase() : runId;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function isSize(value: unknown): boolean {
  return typeof value === 'number' && value >= 0;
}

/*
 * Which runs are captured, when not all are. Whatever is left out is counted, and the counts go to the collector, so
 * that rates can be computed from what is there (docs/reference/sampling.md).
 */

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

/* Counts what was left out, until it has been told. */

const MOST_MODELS = 32;

interface Count {
  readonly model: { readonly model_id?: string; readonly model_version?: string };
  runs: number;
  events: number;
}

class Omissions {
  #since = new Date();
  #runs = 0;
  #events = 0;
  #models = new Map<string, Count>();

  /** Whether there is anything to tell. */
  get some(): boolean {
    return this.#events > 0;
  }

  /** When it was last told. */
  get since(): Date {
    return this.#since;
  }

  add(kind: EventKind, { model_id, model_version }: ModelInstance): void {
    const runs = kind === 'inference-start' ? 1 : 0;
    const named = {
      ...(typeof model_id === 'string' && { model_id }),
      ...(typeof model_version === 'string' && { model_version }),
    };
    this.#add(named, runs, 1);
    this.#runs += runs;
    this.#events++;
  }

  /** All that was counted; from now on it counts as told. */
  take(): NotCaptured {
    const models = [...this.#models.values()].map(({ model, runs, events }) => ({ ...model, runs, events }));
    const taken = { since: this.#since.toISOString(), runs: this.#runs, events: this.#events, models };
    this.#since = new Date();
    this.#runs = 0;
    this.#events = 0;
    this.#models = new Map();
    return taken;
  }

  /** It could not be told after all. */
  putBack({ since, runs, events, models }: NotCaptured): void {
    this.#since = new Date(since);
    this.#runs += runs;
    this.#events += events;
    for (const { runs: ofModel, events: eventsOfModel, ...model } of models) {
      this.#add(model, ofModel, eventsOfModel);
    }
  }

  #add(model: Count['model'], runs: number, events: number): void {
    const name = JSON.stringify([model.model_id, model.model_version]);
    let count = this.#models.get(name);
    if (!count) {
      if (this.#models.size === MOST_MODELS) return;
      count = { model, runs: 0, events: 0 };
      this.#models.set(name, count);
    }
    count.runs += runs;
    count.events += events;
  }
}

/* When each version of a model was first seen. A version that comes back has not changed again. */

const MOST_VERSIONS = 1000;

export class ModelChanges {
  readonly #firstSeen = new Map<string, number>();
  readonly #now: () => number;

  /** @param now a clock that is never set, in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** For how many milliseconds this version has been known. */
  ageOf({ model_id, model_version }: ModelInstance): number {
    const name = JSON.stringify([nameOf(model_id), nameOf(model_version)]);
    const now = this.#now();
    const seen = this.#firstSeen.get(name);
    if (seen !== undefined) return now - seen;
    for (const oldest of this.#firstSeen.keys()) {
      if (this.#firstSeen.size < MOST_VERSIONS) break;
      this.#firstSeen.delete(oldest);
    }
    this.#firstSeen.set(name, now);
    return 0;
  }
}

/** Anything else may have a toJSON that throws, and makes an event that is refused. */
function nameOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
