/**
 * Sampling: decides for each event whether to capture, hold or omit it. A run and its nested runs share one
 * random decision, made when the outermost run starts. A risk, an outcome or feedback reverses it later, and
 * then the held events of the run are captured too. Outcomes and feedback are always captured.
 */
import { performance } from 'node:perf_hooks';
import type { EventKind, EventOf, ModelInstance } from '@clinical-events/protocol';
import { isDroppedPromise } from './hostile-values.js';

const WINDOW = { runs: 1000, ms: 600_000, bytes: 16 << 20 };

/** Approximate memory of a held event in addition to its bytes. */
const HELD_OVERHEAD_BYTES = 512;

interface Held {
  readonly event: Pick<JudgedEvent, 'kind' | 'model'>;
  readonly bytes: number;
  /** Captures the event. */
  readonly release: () => void;
}

/** The sampling state of a run and its nested runs. */
export interface SampledRun {
  /** The outermost run is first. */
  readonly runIds: unknown[];
  /** Model of the outermost run. */
  readonly model: ModelInstance;
  readonly startedAt: number;
  /** Added to the starts of its runs. */
  readonly marks: Readonly<Record<string, unknown>>;
  state: 'captured' | 'held' | 'left out';
  risky: boolean;
  held: Held[];
}

export interface Decision {
  readonly decision: SampledRun['state'];
  /** `sampling` in system_metadata. */
  readonly marks: Readonly<Record<string, unknown>> | undefined;
}

/** The decision for unknown runs, for example of an earlier process. */
const ALWAYS: Decision = { decision: 'captured', marks: undefined };

export interface SamplerParts {
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Returns a number from 0 to below 1. */
  readonly random?: () => number;
  /** Monotonic clock in milliseconds. */
  readonly now?: () => number;
}

export class Sampler {
  readonly omissions = new Omissions();
  readonly #sampling: Sampling;
  readonly #window: typeof WINDOW;
  readonly #parts: Required<SamplerParts>;
  readonly #changes: ModelChanges;
  /**
   * The runs in the window, oldest first. A risk, an outcome or feedback still causes them to be captured.
   * Includes selected runs.
   */
  readonly #inWindow = new Set<SampledRun>();
  readonly #byRunId = new Map<unknown, SampledRun>();
  #heldBytes = 0;

  /** @throws RangeError for invalid options. */
  constructor(sampling: Sampling, parts: SamplerParts) {
    if (!isObject(sampling)) throw new RangeError('sampling must be an object, such as { rate: 0.5 }');
    const { rate = 1, afterModelChange, window = {}, risk } = sampling;
    for (const [name, part] of Object.entries({ afterModelChange, window })) {
      if (part !== undefined && !isObject(part))
        throw new RangeError(`${name} of sampling must be an object`);
    }
    for (const share of [rate, afterModelChange?.rate ?? 1]) {
      if (!isSize(share) || share > 1) throw new RangeError('a rate of sampling must be from 0 to 1');
    }
    if (afterModelChange && !isSize(afterModelChange.ms)) {
      throw new RangeError('ms of afterModelChange must be at least 0');
    }
    if (risk !== undefined && typeof risk !== 'function') throw new RangeError('risk must be a function');
    this.#sampling = sampling;
    this.#window = { ...WINDOW, ...window };
    if (!Object.values(this.#window).every(isSize)) {
      throw new RangeError('the sizes of a sampling window must be at least 0');
    }
    this.#parts = { random: Math.random, now: () => performance.now(), ...parts };
    this.#changes = new ModelChanges(this.#parts.now);
  }

  /** Begins a run. A nested run shares the decision of its outer run. */
  begin(runId: string, model: ModelInstance, outer?: SampledRun): SampledRun {
    const run = outer ?? this.#decide(model);
    // Without a risk predicate nothing is held: outcomes and feedback usually come after the window.
    if (this.#sampling.risk && !outer) this.#inWindow.add(run);
    if (this.#inWindow.has(run)) {
      run.runIds.push(keyOf(runId));
      this.#byRunId.set(keyOf(runId), run);
    }
    return run;
  }

  /** The run with this id, if it is in the window, for events that name a run by its id only. */
  runInWindow(runId: string): SampledRun | undefined {
    return this.#byRunId.get(keyOf(runId));
  }

  /** Decides on an event. The caller then passes held events to `hold`, and omitted ones to `leaveOut`. */
  judge(run: SampledRun | undefined, event: JudgedEvent): Decision {
    this.expire();
    if (!run) return ALWAYS;
    const { kind } = event;
    const start = kind === 'inference-start' ? run.marks : undefined;
    const turned = !run.risky && this.#isRisky(event);
    if (turned) run.risky = true;
    if (!turned && kind !== 'outcome' && kind !== 'user-feedback')
      return { decision: run.state, marks: start };
    // Selected runs are marked too: all runs with a trigger are captured, the others in proportion to the
    // rate.
    const marks = this.#inWindow.has(run) ? { ...start, trigger: turned ? 'risk' : kind } : start;
    this.#capture(run);
    return { decision: 'captured', marks };
  }

  /** Keeps an event until its run is captured or leaves the window. */
  hold(run: SampledRun, { kind, model }: JudgedEvent, bytes: number, release: () => void): void {
    const held = { event: { kind, model }, bytes: bytes + HELD_OVERHEAD_BYTES, release };
    run.held.push(held);
    this.#heldBytes += held.bytes;
    this.expire();
  }

  leaveOut({ kind, model }: Pick<JudgedEvent, 'kind' | 'model'>): void {
    this.omissions.add(kind, model);
  }

  /** Removes runs beyond the window, and counts their omitted events. */
  expire(): void {
    const { runs, ms, bytes } = this.#window;
    const now = this.#parts.now();
    for (const run of this.#inWindow) {
      if (this.#inWindow.size <= runs && this.#heldBytes <= bytes && now - run.startedAt < ms) break;
      this.#drop(run);
    }
  }

  /** Removes all runs, and counts their omitted events. */
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
      failure = 'returned a promise; it must return a boolean';
    } catch {
      // The error is not reported, because it may contain values of the event.
      failure = 'threw an error';
    }
    this.#parts.onTrouble(`the risk function ${failure}; the run is captured`, undefined);
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

/** UUIDs are compared case-insensitively. Invalid ids are refused later. */
function keyOf(runId: unknown): unknown {
  return typeof runId === 'string' ? runId.toLowerCase() : runId;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

function isSize(value: unknown): boolean {
  return typeof value === 'number' && value >= 0;
}

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

/** An event as passed to the risk function, before validation. */
export type JudgedEvent = {
  [K in EventKind]: {
    readonly kind: K;
    readonly eventId: string;
    readonly runId: string;
    /** Model of its run. */
    readonly model: ModelInstance;
    readonly payload: Readonly<Payloads[K]>;
  };
}[EventKind];

export interface Sampling {
  /** Random share of runs to capture, from 0 to 1; default 1. */
  readonly rate?: number;
  /**
   * Whether this event makes its run risky, so that the run is captured with its earlier events in the
   * window. Called for each event until it returns true. An exception or a promise counts as true.
   */
  readonly risk?: (event: JudgedEvent) => boolean;
  /** Limits of held events of runs that were not selected: default 1,000 runs, 10 minutes, 16 MiB. */
  readonly window?: { readonly runs?: number; readonly ms?: number; readonly bytes?: number };
  /** A different rate (default 1) for `ms` milliseconds after the process first sees a version of a model. */
  readonly afterModelChange?: { readonly ms: number; readonly rate?: number };
}

/** Counts of omitted runs and events since the last report (docs/reference/sampling.md). */
export interface NotCaptured {
  /** Time of the last report, RFC 3339. */
  readonly since: string;
  /** Runs whose start was omitted. `events` also counts events of other runs. */
  readonly runs: number;
  readonly events: number;
  /** Counts by model, for the first 32 models. */
  readonly models: readonly {
    readonly model_id?: string;
    readonly model_version?: string;
    readonly runs: number;
    readonly events: number;
  }[];
}

const MOST_MODELS = 32;

interface Count {
  readonly model: { readonly model_id?: string; readonly model_version?: string };
  runs: number;
  events: number;
}

/** Counts omitted runs and events until they are reported. */
class Omissions {
  #since = new Date();
  #runs = 0;
  #events = 0;
  #models = new Map<string, Count>();

  /** Whether there are counts to report. */
  get some(): boolean {
    return this.#events > 0;
  }

  /** Time of the last report. */
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

  /** Returns the counts, and resets them. */
  take(): NotCaptured {
    const models = [...this.#models.values()].map(({ model, runs, events }) => ({ ...model, runs, events }));
    const taken = { since: this.#since.toISOString(), runs: this.#runs, events: this.#events, models };
    this.#since = new Date();
    this.#runs = 0;
    this.#events = 0;
    this.#models = new Map();
    return taken;
  }

  /** Adds counts whose report was not captured. */
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

const MOST_VERSIONS = 1000;

/** Remembers when each version of a model was first seen. */
export class ModelChanges {
  readonly #firstSeen = new Map<string, number>();
  readonly #now: () => number;

  /** @param now monotonic clock in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Milliseconds since this version was first seen. */
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

/** Other values may have a toJSON that throws; their events are refused later. */
function nameOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
