/**
 * The records of a period, counted: by kind and step, by organisation, by model and version. A run is counted once, in
 * the period in which it began; an event on the day on which it came, whenever its run began. Events that belong to no
 * run are counted by themselves: they are no run, and no one can tell of which model they are.
 *
 * Memory is bounded: the first 500 pairs of model and version are counted apart, and the first 200 organisations; what
 * comes after them is summed, and said to be. Of a name, the first 120 characters are looked at.
 */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { DAY_MS } from '@clinical-events/collector/quantity';
import { stepAt, stepsOf, type PeriodSteps, RunTally } from './run-tally.js';
import { type Clock } from '@clinical-events/collector/records/vocabulary';
import { type CountedRun } from '@clinical-events/collector/records/counted-run';

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
  /** Of these alone; undefined for all. As the catalogue's filter has them. */
  readonly models?: readonly { readonly model: string; readonly version?: string }[] | undefined;
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
  /** Of the models and versions that were too many to be counted apart. */
  readonly uncounted: RunTally;
  /** Runs that began before the period, or after it, and have events in it. */
  otherRuns = 0;
  otherRunsEvents = 0;
  /** Events of another time, of the records that were added. */
  readonly outside = { before: 0, after: 0 };
  /** Of the events that are counted and can be read, those for which the two clocks are more than a day apart. */
  readonly clocksApart = { events: 0, of: 0 };
  readonly uncountedOrganisations = noEvents();
  /** Of runs, and of no run. */
  readonly eventsBySteps: EventsBySteps;
  readonly eventsOfNoRun: EventsBySteps;
  readonly organisations = new Map<string, OrganisationTally>();
  /** In the order of their first runs; and by model and version. */
  readonly #counted: VersionTally[] = [];
  readonly #versions = new Map<string | null, Map<string | null, VersionTally>>();
  /** When the first run began before the period, by model and version; of as many as are counted apart. */
  readonly #before = new Map<string, number>();
  /** Of the period, and of any other time. */
  eventsRead = 0;
  #firstStep = Infinity;

  constructor(readonly period: ReportPeriod) {
    this.steps = stepsOf(period.since, period.until);
    this.uncounted = this.#tally();
    this.eventsBySteps = this.#bySteps();
    this.eventsOfNoRun = this.#bySteps();
  }

  /** In the order of their first run. */
  get versions(): Iterable<VersionTally> {
    return this.#counted;
  }

  /** Of all runs, as counted by now. */
  get all(): RunTally {
    const all = this.#tally();
    for (const { tally } of this.#counted) all.merge(tally);
    all.merge(this.uncounted);
    return all;
  }

  /** How many steps are left out at the beginning. */
  get leftOut(): number {
    return this.period.fromFirstEvent && this.#firstStep < Infinity ? this.#firstStep : 0;
  }

  add(run: CountedRun): void {
    const { clock, asOf } = this.period;
    if (!this.#isAsked(run)) {
      if (run.isRun && this.#isWithin(run.began[clock])) this.#addCallsAlone(run);
      return;
    }
    if (!run.isRun) {
      const events = this.#countEvents(run, this.eventsOfNoRun);
      if (events > 0) this.#organisation(run.organisation).eventsOfNoRun += events;
      return;
    }
    const events = this.#countEvents(run, this.eventsBySteps);
    const began = run.began[clock];
    const begins = this.#isWithin(began);
    if (began < this.period.since) this.#noteBefore(run, began);
    if (events === 0 && !begins) return;
    if (!begins) {
      this.otherRuns++;
      this.otherRunsEvents += events;
    }
    const organisation = this.#organisation(run.organisation);
    organisation.events += events;
    if (begins) organisation.runs++;
    const tally = this.#tallyOf(run);
    tally.events += events;
    if (!begins) return;
    tally.addRun(run, clock, stepAt(this.steps, began), asOf);
    const { call, tokens, counts } = run.summary;
    if (run.calls.length === 0) tally.addCall(counts['inference-start'] > 0, { ended: call, tokens });
    for (const each of run.calls)
      if (each.number === 0) tally.addCall(false, each);
      else if (this.#isAsked(each)) this.#tallyOf(each).addCall(true, each);
  }

  #noteBefore({ modelId, modelVersion }: CountedRun, began: number): void {
    const name = pairOf(nameOf(modelId), nameOf(modelVersion));
    const known = this.#before.get(name);
    if (known === undefined ? this.#before.size < MOST_VERSIONS : began < known)
      this.#before.set(name, began);
  }

  /** When the first run of the version began, in the period or before it; infinite without one. */
  firstOf({ modelId, version, tally }: VersionTally): number {
    return Math.min(tally.first, this.#before.get(pairOf(modelId, version)) ?? Infinity);
  }

  /** A run that is filed under another model has calls of one that is asked for: these are counted, and no run. */
  #addCallsAlone(run: CountedRun): void {
    for (const call of run.calls)
      if (call.number > 0 && this.#isAsked(call)) this.#tallyOf(call).addCall(true, call);
  }

  #isAsked({ modelId, modelVersion }: Pick<CountedRun, 'modelId' | 'modelVersion'>): boolean {
    return (
      this.period.models?.some(
        ({ model, version }) =>
          model === modelId && (version === undefined || version === (modelVersion ?? '')),
      ) ?? true
    );
  }

  /** @returns how many are of the period. */
  #countEvents(run: CountedRun, into: EventsBySteps): number {
    const bySender = this.period.clock === 'sender';
    const { counts, times } = run.summary;
    const { first, last } = bySender ? times.sent : times.received;
    let [within, step] = [0, stepAt(this.steps, first)];
    if (this.#isWithin(first) && this.#isWithin(last) && step === stepAt(this.steps, last, step)) {
      // All of one step, so that none of them has to be looked at: most runs are.
      for (const kind of EVENT_KINDS) {
        const bySteps = into[kind];
        bySteps[step] = (bySteps[step] ?? 0) + counts[kind];
        within += counts[kind];
      }
      this.eventsRead += within;
      this.clocksApart.of += within - times.unreadable;
      this.clocksApart.events += times.apart;
      this.#firstStep = Math.min(this.#firstStep, step);
      return within;
    }
    run.eachEvent((kind, receivedAt, sentAt) => {
      this.eventsRead++;
      const at = bySender ? (sentAt ?? receivedAt) : receivedAt;
      if (!this.#isWithin(at)) {
        this.outside[at < this.period.since ? 'before' : 'after']++;
        return;
      }
      within++;
      if (sentAt !== undefined) {
        this.clocksApart.of++;
        if (Math.abs(receivedAt - sentAt) > DAY_MS) this.clocksApart.events++;
      }
      const bySteps = into[kind];
      step = stepAt(this.steps, at, step);
      bySteps[step] = (bySteps[step] ?? 0) + 1;
      this.#firstStep = Math.min(this.#firstStep, step);
    });
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
    if (this.organisations.size === MOST_ORGANISATIONS) return this.uncountedOrganisations;
    const added = noEvents();
    this.organisations.set(name, added);
    return added;
  }

  #tallyOf(run: Pick<CountedRun, 'modelId' | 'modelVersion'>): RunTally {
    const modelId = nameOf(run.modelId);
    const version = nameOf(run.modelVersion);
    let versions = this.#versions.get(modelId);
    const known = versions?.get(version);
    if (known !== undefined) return known.tally;
    if (this.#counted.length === MOST_VERSIONS) return this.uncounted;
    if (versions === undefined)
      this.#versions.set(modelId, (versions = new Map<string | null, VersionTally>()));
    const tally = this.#tally();
    const made = { modelId, version, tally };
    versions.set(version, made);
    this.#counted.push(made);
    return tally;
  }
}

function pairOf(modelId: string | null, version: string | null): string {
  return JSON.stringify([modelId, version]);
}

function noEvents(): OrganisationTally {
  return { runs: 0, events: 0, eventsOfNoRun: 0 };
}

/** Nothing is said of a model where the payload of the start cannot be read, or where a sender left it out. */
function nameOf(name: string | null): string | null {
  if (name === null || name === '') return null;
  return name.length > NAME_LENGTH ? `${name.slice(0, NAME_LENGTH).replace(/[\ud800-\udbff]$/, '')}…` : name;
}
