/**
 * The records of a period, counted: by kind and step, by organisation, by model and version. A run is counted once, in
 * the period in which it began; an event on the day on which it came, whenever its run began. Events that belong to no
 * run are counted by themselves: they are no run, and nobody can tell of which model they are.
 *
 * Memory is bounded: the first 500 pairs of model and version are told apart, and the first 200 organisations; what
 * comes after them is summed, and said to be. Of a name, the first 120 characters are looked at.
 */
import { EVENT_KINDS, type ClinicalRecord, type EventKind } from '@clinical-events/protocol';
import { modelVersionOf } from '../exports/record-columns.js';
import { stepAt, stepsOf, type PeriodSteps } from './period-steps.js';
import { areClocksApart, momentsOf, type Clock, type RunMoments } from './run-moments.js';
import { RunTally } from './run-tally.js';

const MOST_VERSIONS = 500;
const MOST_ORGANISATIONS = 200;
const NAME_LENGTH = 120;

/** Times in milliseconds since 1970. */
export interface ReportPeriod {
  readonly since: number;
  /** The days before the first event of the period are left out of it. */
  readonly fromFirstEvent: boolean;
  /** Not part of it. */
  readonly until: number;
  readonly clock: Clock;
  /** When the log ends: a run is as old as it was then. */
  readonly asOf: number;
}

export interface OrganisationTally {
  runs: number;
  /** Of runs. */
  events: number;
  eventsOfNoRun: number;
}

export interface VersionTally {
  /** Null where the run has no start that says so. */
  readonly modelId: string | null;
  readonly version: string | null;
  readonly tally: RunTally;
}

type EventsBySteps = Readonly<Record<EventKind, number[]>>;

export class RunReport {
  readonly steps: PeriodSteps;
  readonly all: RunTally;
  /** Of the models and versions that were one too many to be told apart. */
  readonly untold: RunTally;
  /** Runs that began before the period, or after it, and have events in it. */
  otherRuns = 0;
  otherRunsEvents = 0;
  /** Events of another time, of the records that were added. */
  readonly outside = { before: 0, after: 0 };
  /** Of the events that are counted and can be read, those for which the two clocks are more than a day apart. */
  readonly clocksApart = { events: 0, of: 0 };
  readonly untoldOrganisations = noEvents();
  /** Of runs, and of no run. */
  readonly eventsBySteps: EventsBySteps;
  readonly eventsOfNoRun: EventsBySteps;
  readonly organisations = new Map<string, OrganisationTally>();
  readonly #versions = new Map<string, VersionTally>();
  #firstStep = Infinity;

  constructor(readonly period: ReportPeriod) {
    this.steps = stepsOf(period.since, period.until);
    this.all = this.#tally();
    this.untold = this.#tally();
    this.eventsBySteps = this.#bySteps();
    this.eventsOfNoRun = this.#bySteps();
  }

  /** In the order of their first run. */
  get versions(): Iterable<VersionTally> {
    return this.#versions.values();
  }

  /** How many steps are left out at the beginning. */
  get leftOut(): number {
    return this.period.fromFirstEvent && this.#firstStep < Infinity ? this.#firstStep : 0;
  }

  add(record: ClinicalRecord): void {
    const moments = momentsOf(record, this.period.clock);
    if (record.metadata.run_id === null) {
      const events = this.#countEvents(record, moments, this.eventsOfNoRun);
      if (events > 0) this.#organisation(record.metadata.organisation).eventsOfNoRun += events;
      return;
    }
    const events = this.#countEvents(record, moments, this.eventsBySteps);
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
  #countEvents({ metadata }: ClinicalRecord, { events }: RunMoments, into: EventsBySteps): number {
    let within = 0;
    for (const [i, event] of metadata.events.entries()) {
      const { kind } = event;
      const at = events[i] ?? NaN;
      if (!this.#isWithin(at)) {
        this.outside[at < this.period.since ? 'before' : 'after']++;
        continue;
      }
      within++;
      const isApart = areClocksApart(event);
      if (isApart !== undefined) this.clocksApart.of++;
      if (isApart === true) this.clocksApart.events++;
      const bySteps = into[kind];
      const step = stepAt(this.steps, at);
      bySteps[step] = (bySteps[step] ?? 0) + 1;
      this.#firstStep = Math.min(this.#firstStep, step);
    }
    return within;
  }

  #isWithin(at: number): boolean {
    return at >= this.period.since && at < this.period.until;
  }

  #tally(): RunTally {
    return new RunTally(this.steps.starts.length);
  }

  #bySteps(): EventsBySteps {
    const bySteps = EVENT_KINDS.map((kind) => [kind, this.steps.starts.map(() => 0)]);
    return Object.fromEntries(bySteps) as EventsBySteps;
  }

  #organisation(name: string): OrganisationTally {
    const known = this.organisations.get(name);
    if (known !== undefined) return known;
    if (this.organisations.size === MOST_ORGANISATIONS) return this.untoldOrganisations;
    const added = noEvents();
    this.organisations.set(name, added);
    return added;
  }

  #tallyOf(record: ClinicalRecord): RunTally {
    const modelId = nameOf(record.model?.model_id);
    const version = nameOf(modelVersionOf(record));
    const key = JSON.stringify([modelId, version]);
    const known = this.#versions.get(key);
    if (known !== undefined) return known.tally;
    if (this.#versions.size === MOST_VERSIONS) return this.untold;
    const tally = this.#tally();
    this.#versions.set(key, { modelId, version, tally });
    return tally;
  }
}

function noEvents(): OrganisationTally {
  return { runs: 0, events: 0, eventsOfNoRun: 0 };
}

/** Nothing is said of a model where the payload of the start cannot be read, or where a sender left it out. */
function nameOf(name: unknown): string | null {
  if (typeof name !== 'string' || name === '') return null;
  return name.length > NAME_LENGTH ? `${name.slice(0, NAME_LENGTH)}…` : name;
}
