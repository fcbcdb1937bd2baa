/**
 * Everything that happens in a demonstration, in the order in which it happens: the runs of all scenarios, what goes
 * wrong with them, and outcomes that come weeks later.
 *
 * An episode depends on nothing but the plan, its scenario and its number. So an event that has to wait is not kept:
 * when its time has come, its episode is made again. Memory hardly grows with the number of runs: sixteen bytes for an
 * event that waits.
 */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { ANOMALIES, type SentEvent, type SentRun, type Anomaly, withAnomalies } from './anomalies.js';
import type { Period, PlannedRun } from './planned-run.js';
import { Random } from './random.js';
import type { Scenario } from './scenario.js';
import { SCENARIOS } from './scenarios.js';

/**
 * Events whose time has not come, the earliest first: a binary heap of numbers. An event that waits takes sixteen
 * bytes, because it is not kept but made again from its number.
 */
class WaitingEvents {
  #times = new Float64Array(1024);
  #numbers = new Float64Array(1024);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** When the earliest is due; Infinity when none waits. */
  get due(): number {
    return this.#size === 0 ? Infinity : (this.#times[0] as number);
  }

  /** @param number is whole and tells the event. Of events of the same time, the lower number comes first. */
  add(time: number, number: number): void {
    if (this.#size === this.#times.length) this.#grow();
    let place = this.#size++;
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (!this.#isBefore(time, number, above)) break;
      this.#move(above, place);
      place = above;
    }
    this.#times[place] = time;
    this.#numbers[place] = number;
  }

  /** Takes the earliest out. @returns its number. There has to be one. */
  take(): number {
    const taken = this.#numbers[0] as number;
    const last = --this.#size;
    const [time, number] = [this.#times[last] as number, this.#numbers[last] as number];
    let place = 0;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= last) break;
      const other = below + 1;
      if (
        other < last &&
        this.#isBefore(this.#times[other] as number, this.#numbers[other] as number, below)
      ) {
        below = other;
      }
      if (this.#isBefore(time, number, below)) break;
      this.#move(below, place);
      place = below;
    }
    this.#times[place] = time;
    this.#numbers[place] = number;
    return taken;
  }

  #isBefore(time: number, number: number, place: number): boolean {
    const there = this.#times[place] as number;
    return time < there || (time === there && number < (this.#numbers[place] as number));
  }

  #move(from: number, to: number): void {
    this.#times[to] = this.#times[from] as number;
    this.#numbers[to] = this.#numbers[from] as number;
  }

  #grow(): void {
    const [times, numbers] = [this.#times, this.#numbers];
    this.#times = new Float64Array(2 * times.length);
    this.#numbers = new Float64Array(2 * numbers.length);
    this.#times.set(times);
    this.#numbers.set(numbers);
  }
}

/** All that a demonstration depends on: the same plan gives the same events, to the byte. */
export interface DemoPlan {
  readonly seed: string;
  readonly runs: number;
  readonly period: Period;
}

/** With this one, 200 runs over 30 days show every anomaly and every kind of event, whatever day it is. */
export const DEFAULT_SEED = '35';
/** Episodes that are kept as they are, because most of their events are due within minutes. */
const KEPT = 2048;
/** Events of one episode at most, all its runs and repeats together. */
const PLACES = 256;
const LANES = 8;
/** When in the period the models are exchanged, and how much of it that takes. */
const CHANGE = { at: 0.5, takes: 0.06 };
/** How many runs there are to a patient. */
const RUNS_A_PATIENT = 4;
const FEWEST_PATIENTS = 40;

/** A scenario with its episodes, of which one is next. */
interface Lane {
  readonly scenario: Scenario;
  readonly episodes: number;
  readonly startOf: (number: number, shift: number) => number;
  next: number;
  /** When the next episode starts; Infinity after the last. */
  nextAt: number;
}

export class DemoScript {
  /** What has happened so far. */
  readonly tally = new Tally();
  readonly #plan: DemoPlan;
  readonly #lanes: readonly Lane[];
  /** What happens depends on the seed alone, so that a seed that was looked at shows the same another day. */
  readonly #sources: (stream: number, number: number) => Random;
  /** Ids depend on all of the plan: other events under the same ids would be conflicts. */
  readonly #ids: (stream: number, number: number) => Random;
  readonly #waiting = new WaitingEvents();
  readonly #kept = new Map<number, readonly SentEvent[]>();

  constructor(plan: DemoPlan) {
    const { seed, runs, period } = plan;
    this.#plan = plan;
    this.#sources = Random.family(seed);
    this.#ids = Random.family(`${seed}\n${runs}\n${period.since}\n${period.until}`);
    this.#lanes = episodesOf(runs).map(([scenario, episodes]) => ({
      ...{ scenario, episodes, startOf: scenario.schedule(period, episodes), next: 0, nextAt: Infinity },
    }));
    for (const [place, lane] of this.#lanes.entries()) this.#look(lane, place);
  }

  /** The events in the order of time. Ends with the period; what would happen later never does. Once only. */
  *events(): Generator<SentEvent, void> {
    for (;;) {
      const [lane, place] = this.#earliest();
      while (this.#waiting.due < (lane?.nextAt ?? Infinity)) {
        const event = this.#take();
        this.tally.sent(event);
        yield event;
      }
      if (lane === undefined) return;
      this.#begin(lane, place);
    }
  }

  #earliest(): [Lane | undefined, number] {
    let [earliest, at]: [Lane | undefined, number] = [undefined, 0];
    for (const [place, lane] of this.#lanes.entries()) {
      if (lane.nextAt < (earliest?.nextAt ?? Infinity)) [earliest, at] = [lane, place];
    }
    return [earliest, at];
  }

  /** The episode starts: its events wait for their time, and those after the end of the period are dropped. */
  #begin(lane: Lane, place: number): void {
    const { until } = this.#plan.period;
    const key = lane.next * LANES + place;
    const runs = this.#episode(lane, place, lane.next);
    const events = this.#keep(key, runs);
    for (const [at, event] of events.entries()) {
      if (event.at < until) this.#waiting.add(event.at, key * PLACES + at);
      else this.tally.notYet(event);
    }
    this.tally.began(lane.scenario.name, runs, until);
    lane.next++;
    this.#look(lane, place);
  }

  #take(): SentEvent {
    const number = this.#waiting.take();
    const [key, at] = [Math.floor(number / PLACES), number % PLACES];
    const place = key % LANES;
    const events =
      this.#kept.get(key) ??
      this.#keep(key, this.#episode(this.#lanes[place] as Lane, place, Math.floor(key / LANES)));
    return events[at] as SentEvent;
  }

  #keep(key: number, runs: readonly SentRun[]): readonly SentEvent[] {
    const events = runs.flatMap((run) => run.events);
    if (events.length > PLACES) throw new Error('an episode has too many events to number');
    this.#kept.set(key, events);
    if (this.#kept.size > KEPT) {
      for (const oldest of this.#kept.keys()) {
        this.#kept.delete(oldest);
        break;
      }
    }
    return events;
  }

  /** The runs of an episode, made from nothing. */
  #episode({ scenario, episodes, startOf }: Lane, place: number, number: number): readonly SentRun[] {
    const { period, runs } = this.#plan;
    const random = this.#sources(2 * place, number);
    const ids = this.#ids(place, number);
    const startsAt = Math.floor(startOf(number, random.fraction()));
    const progress = (startsAt - period.since) / (period.until - period.since);
    const scene = {
      random,
      newId: () => ids.uuid(),
      shared: (shared: number) => this.#sources(2 * place + 1, shared),
      number,
      episodes,
      period,
      startsAt,
      newVersion: random.chance((progress - CHANGE.at) / CHANGE.takes + 0.5),
      patients: Math.max(FEWEST_PATIENTS, Math.ceil(runs / RUNS_A_PATIENT)),
    };
    return scenario.plan(scene).map((run) => withAnomalies(run, random));
  }

  #look(lane: Lane, place: number): void {
    const { next, episodes, startOf } = lane;
    lane.nextAt =
      next < episodes ? Math.floor(startOf(next, this.#sources(2 * place, next).fraction())) : Infinity;
  }
}

/** Shares the runs out among the scenarios; what is left over goes to one whose episodes are single runs. */
function episodesOf(runs: number): readonly (readonly [Scenario, number])[] {
  const counts = SCENARIOS.map((scenario) => {
    const { share, runsAnEpisode } = scenario;
    return Math.floor((runs * share) / runsAnEpisode);
  });
  let left =
    runs - SCENARIOS.reduce((sum, { runsAnEpisode }, at) => sum + runsAnEpisode * (counts[at] ?? 0), 0);
  // One of each before two of any, as far as they reach.
  for (const [at, { runsAnEpisode }] of SCENARIOS.entries()) {
    if (counts[at] !== 0 || left < runsAnEpisode) continue;
    counts[at] = 1;
    left -= runsAnEpisode;
  }
  counts[0] = (counts[0] ?? 0) + left;
  return SCENARIOS.map((scenario, at) => [scenario, counts[at] ?? 0] as const).filter(
    ([, count]) => count > 0,
  );
}

/* What a demonstration did: counted as it happens, in memory that does not grow. */

export interface ScenarioTally {
  runs: number;
  /** Each event once, however often it is sent. */
  events: number;
  /** A run that has much to show and nothing wrong with it, or undefined when there is none. */
  example: { readonly runId: string; readonly events: number } | undefined;
}

export class Tally {
  readonly scenarios = new Map<string, ScenarioTally>(
    SCENARIOS.map(({ name }) => [name, { runs: 0, events: 0, example: undefined }]),
  );
  readonly kinds = Object.fromEntries(EVENT_KINDS.map((kind) => [kind, 0])) as Record<EventKind, number>;
  readonly anomalies = Object.fromEntries(Object.keys(ANOMALIES).map((name) => [name, 0])) as Record<
    Anomaly,
    number
  >;
  /** How often anything was sent, repeats and conflicts included. */
  sendings = 0;
  /** Events that would happen after the end of the period. */
  later = 0;
  runs = 0;
  readonly #interest = new Map<string, number>();

  /** Events, each once. */
  get events(): number {
    return EVENT_KINDS.reduce((sum, kind) => sum + this.kinds[kind], 0);
  }

  /** The runs of an episode have been planned. */
  began(scenario: string, runs: readonly SentRun[], until: number): void {
    const tally = this.#scenario(scenario);
    tally.runs += runs.length;
    this.runs += runs.length;
    for (const { anomalies } of runs) for (const anomaly of anomalies) this.anomalies[anomaly]++;
    // Of runs within each other the first is the one that was asked for.
    const [first] = runs;
    if (first !== undefined) this.#consider(scenario, tally, first, until);
  }

  sent({ run, planned, sending, anomalies }: SentEvent): void {
    this.sendings++;
    for (const anomaly of anomalies) this.anomalies[anomaly]++;
    if (sending !== 'first') return;
    this.kinds[planned.kind]++;
    this.#scenario(run.scenario).events++;
  }

  notYet({ sending }: SentEvent): void {
    if (sending === 'first') this.later++;
  }

  /** All five kinds come before anything else; then the more events, the better; nothing odd. */
  #consider(scenario: string, tally: ScenarioTally, { anomalies, events }: SentRun, until: number): void {
    if (anomalies.length > 0 || events.some(({ at, anomalies: odd }) => at >= until || odd.length > 0))
      return;
    const interest = 1000 * new Set(events.map(({ planned }) => planned.kind)).size + events.length;
    if (interest <= (this.#interest.get(scenario) ?? 0)) return;
    this.#interest.set(scenario, interest);
    const { runId } = (events[0] as SentEvent).run satisfies PlannedRun;
    tally.example = { runId, events: events.length };
  }

  #scenario(name: string): ScenarioTally {
    const tally = this.scenarios.get(name);
    if (tally === undefined) throw new Error(`there is no scenario ${name}`);
    return tally;
  }
}
