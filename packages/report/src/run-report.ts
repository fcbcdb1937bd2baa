/**
 * Counts the records of a period by kind and step, organisation, model and version. A run is counted once, in
 * the period in which it began; an event on its own day. Events of no run are counted separately, because
 * their model is not known.
 *
 * Memory is bounded: the first 500 pairs of model and version and the first 200 organisations are counted
 * separately, by the first 120 characters of their names; the others are summed.
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
  /** Whether the period begins with its first event. */
  readonly fromFirstEvent: boolean;
  /** The end, not part of the period. */
  readonly until: number;
  readonly clock: Clock;
  /** Only these models, as in the catalogue's filter; undefined for all. */
  readonly models?: readonly { readonly model: string; readonly version?: string }[] | undefined;
  /** The end of the log, up to which the age of a run is measured. */
  readonly asOf: number;
}

export interface OrganisationTally {
  runs: number;
  /** Events of runs. */
  events: number;
  eventsOfNoRun: number;
}

export interface VersionTally {
  /** Null if no inference-start names it. */
  readonly modelId: string | null;
  readonly version: string | null;
  readonly tally: RunTally;
}

type EventsBySteps = Readonly<Record<EventKind, number[]>>;

export class RunReport {
  readonly steps: PeriodSteps;
  /** The sum of the models and versions beyond the bound. */
  readonly uncounted: RunTally;
  /** Runs that began outside the period and have events in it. */
  otherRuns = 0;
  otherRunsEvents = 0;
  /** Events outside the period. */
  readonly outside = { before: 0, after: 0 };
  /** Readable events whose timestamp and receipt are more than a day apart. */
  readonly clocksApart = { events: 0, of: 0 };
  readonly uncountedOrganisations = noEvents();
  readonly eventsBySteps: EventsBySteps;
  readonly eventsOfNoRun: EventsBySteps;
  readonly organisations = new Map<string, OrganisationTally>();
  readonly #counted: VersionTally[] = [];
  readonly #versions = new Map<string | null, Map<string | null, VersionTally>>();
  /** The beginning of the first run before the period, by model and version. */
  readonly #before = new Map<string, number>();
  /** Number of events read, in the period and outside it. */
  eventsRead = 0;
  #firstStep = Infinity;

  constructor(readonly period: ReportPeriod) {
    this.steps = stepsOf(period.since, period.until);
    this.uncounted = this.#tally();
    this.eventsBySteps = this.#bySteps();
    this.eventsOfNoRun = this.#bySteps();
  }

  get versions(): Iterable<VersionTally> {
    return this.#counted;
  }

  get all(): RunTally {
    const all = this.#tally();
    for (const { tally } of this.#counted) all.merge(tally);
    all.merge(this.uncounted);
    return all;
  }

  /** Steps before the first event, which are left out. */
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

  /** The beginning of the version's first run, in the period or before it; infinite without one. */
  firstOf({ modelId, version, tally }: VersionTally): number {
    return Math.min(tally.first, this.#before.get(pairOf(modelId, version)) ?? Infinity);
  }

  /** Counts the calls of a requested model in a run of another model; the run itself is not counted. */
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

  /** @returns the number of events in the period. */
  #countEvents(run: CountedRun, into: EventsBySteps): number {
    const bySender = this.period.clock === 'sender';
    const { counts, times } = run.summary;
    const { first, last } = bySender ? times.sent : times.received;
    let [within, step] = [0, stepAt(this.steps, first)];
    if (this.#isWithin(first) && this.#isWithin(last) && step === stepAt(this.steps, last, step)) {
      // All events are in one step, as in most runs, so their times are not read.
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

/** @returns null if the name is missing or cannot be read. */
function nameOf(name: string | null): string | null {
  if (name === null || name === '') return null;
  if (name.length <= NAME_LENGTH) return name;
  return `${name.slice(0, NAME_LENGTH).replace(/[\ud800-\udbff]$/, '')}…`;
}
