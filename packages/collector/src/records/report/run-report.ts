/**
 * The records of a period, counted: by kind and step, by organisation, by model and version. A run is counted once, in
 * the period in which it began; an event on the day on which it came, whenever its run began.
 *
 * Memory is bounded: the first 500 pairs of model and version are told apart, and the first 200 organisations; what
 * comes after them is summed, and said to be. Of a name, the first 120 characters are looked at.
 */
import { EVENT_KINDS, type ClinicalRecord, type EventKind } from '@clinical-events/protocol';
import { stepAt, stepsOf, type PeriodSteps } from './period-steps.js';
import { momentsOf, type Clock, type RunMoments } from './run-moments.js';
import { RunTally } from './run-tally.js';

const MOST_VERSIONS = 500;
const MOST_ORGANISATIONS = 200;
const NAME_LENGTH = 120;

/** Times in milliseconds since 1970. */
export interface ReportPeriod {
  readonly since: number;
  /** Not part of it. */
  readonly until: number;
  readonly clock: Clock;
  /** When the log ends: a run is as old as it was then. */
  readonly asOf: number;
}

export interface VersionTally {
  /** Null where the run has no start that says so. */
  readonly modelId: string | null;
  readonly version: string | null;
  readonly tally: RunTally;
}

export class RunReport {
  readonly steps: PeriodSteps;
  readonly all: RunTally;
  /** Of the models and versions that were one too many to be told apart. */
  readonly untold: RunTally;
  /** Runs that began before the period, or after it, and have events in it. */
  otherRuns = 0;
  otherRunsEvents = 0;
  untoldOrganisations = { runs: 0, events: 0 };
  readonly eventsBySteps: Readonly<Record<EventKind, number[]>>;
  readonly organisations = new Map<string, { runs: number; events: number }>();
  readonly #versions = new Map<string, VersionTally>();

  constructor(readonly period: ReportPeriod) {
    this.steps = stepsOf(period.since, period.until);
    this.all = this.#tally();
    this.untold = this.#tally();
    const bySteps = EVENT_KINDS.map((kind) => [kind, this.steps.starts.map(() => 0)]);
    this.eventsBySteps = Object.fromEntries(bySteps) as Record<EventKind, number[]>;
  }

  /** In the order of their first run. */
  get versions(): Iterable<VersionTally> {
    return this.#versions.values();
  }

  add(record: ClinicalRecord): void {
    const moments = momentsOf(record, this.period.clock);
    const events = this.#countEvents(record, moments);
    const begins = this.#isWithin(moments.began);
    if (events === 0 && !begins) return;
    if (!begins) {
      this.otherRuns++;
      this.otherRunsEvents += events;
    }
    const organisation = this.#organisation(record.metadata.organisation);
    organisation.events += events;
    if (begins) organisation.runs++;
    const step = stepAt(this.steps, moments.began);
    for (const tally of [this.all, this.#tallyOf(record)]) {
      tally.events += events;
      if (begins) tally.addRun(record, moments, step, this.period.asOf);
    }
  }

  /** @returns how many are of the period. */
  #countEvents({ metadata }: ClinicalRecord, { events }: RunMoments): number {
    let within = 0;
    for (const [i, { kind }] of metadata.events.entries()) {
      const at = events[i] ?? NaN;
      if (!this.#isWithin(at)) continue;
      within++;
      const bySteps = this.eventsBySteps[kind];
      const step = stepAt(this.steps, at);
      bySteps[step] = (bySteps[step] ?? 0) + 1;
    }
    return within;
  }

  #isWithin(at: number): boolean {
    return at >= this.period.since && at < this.period.until;
  }

  #tally(): RunTally {
    return new RunTally(this.steps.starts.length);
  }

  #organisation(name: string): { runs: number; events: number } {
    const known = this.organisations.get(name);
    if (known !== undefined) return known;
    if (this.organisations.size === MOST_ORGANISATIONS) return this.untoldOrganisations;
    const added = { runs: 0, events: 0 };
    this.organisations.set(name, added);
    return added;
  }

  #tallyOf({ model }: ClinicalRecord): RunTally {
    const modelId = nameOf(model?.model_id);
    const version = nameOf(model?.model_version);
    const key = JSON.stringify([modelId, version]);
    const known = this.#versions.get(key);
    if (known !== undefined) return known.tally;
    if (this.#versions.size === MOST_VERSIONS) return this.untold;
    const tally = this.#tally();
    this.#versions.set(key, { modelId, version, tally });
    return tally;
  }
}

/** Nothing is said of a model where the payload of the start cannot be read, or where a sender left it out. */
function nameOf(name: unknown): string | null {
  if (typeof name !== 'string' || name === '') return null;
  return name.length > NAME_LENGTH ? `${name.slice(0, NAME_LENGTH)}…` : name;
}
