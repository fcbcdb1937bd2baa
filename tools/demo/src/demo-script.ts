/**
 * Everything that happens in a demonstration, in chronological order: the runs of all scenarios, what goes
 * wrong with them, and outcomes that come weeks later.
 *
 * An episode depends only on the plan, its scenario and its number. So only the number of a future event is
 * kept, and its episode is made again when the time has come. Memory hardly grows with the number of runs.
 */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { ANOMALIES, type Anomaly, type SentEvent, type SentRun, withAnomalies } from './anomalies.js';
import { MINUTE, type Period } from './planned-run.js';
import { Random } from './random.js';
import type { Scenario } from './scenario.js';
import { SCENARIOS } from './scenarios.js';

/** Everything that a demonstration depends on: the same plan gives the same events, byte for byte. */
export interface DemoPlan {
  readonly seed: string;
  readonly runs: number;
  readonly period: Period;
}

/** With this seed, 200 runs over 30 days show every anomaly and every kind of event, on any day. */
export const DEFAULT_SEED = '35';
/** Number of episodes kept, because most of their events follow within minutes. */
const KEPT = 2048;
/** Maximum number of events of one episode, including all its runs and repeats. */
const PLACES = 256;
const LANES = 8;
/** When the models are replaced and how long that takes, as shares of the period. */
const CHANGE = { at: 0.5, takes: 0.06 };
const RUNS_A_PATIENT = 4;
const FEWEST_PATIENTS = 40;

/** A scenario with its episodes. */
interface Lane {
  readonly scenario: Scenario;
  readonly place: number;
  readonly episodes: number;
  readonly startOf: (number: number, shift: number) => number;
  next: number;
}

export class DemoScript {
  /** The counts so far. */
  readonly tally = new Tally();
  readonly #plan: DemoPlan;
  readonly #lanes: readonly Lane[];
  /** Depends on the seed alone, so that a seed gives the same runs on any day. */
  readonly #sources: (stream: number, number: number) => Random;
  /** Ids depend on the whole plan: other events under the same ids would be conflicts. */
  readonly #ids: (stream: number, number: number) => Random;
  /** The numbers of the events that wait, by their minute. */
  readonly #waiting = new Map<number, number[]>();
  readonly #kept = new Map<number, readonly SentEvent[]>();

  constructor(plan: DemoPlan) {
    const { seed, runs, period } = plan;
    this.#plan = plan;
    this.#sources = Random.family(seed);
    this.#ids = Random.family(`${seed}\n${runs}\n${period.since}\n${period.until}`);
    this.#lanes = episodesOf(runs).map(([scenario, episodes], place) => {
      return { scenario, place, episodes, startOf: scenario.schedule(period, episodes), next: 0 };
    });
  }

  /** Yields the events in chronological order, up to the end of the period. Must be called only once. */
  *events(): Generator<SentEvent, void> {
    const { since, until } = this.#plan.period;
    for (let minute = Math.floor(since / MINUTE); minute * MINUTE < until; minute++) {
      for (const lane of this.#lanes) while (this.#nextStart(lane) < (minute + 1) * MINUTE) this.#begin(lane);
      const numbers = this.#waiting.get(minute) ?? [];
      this.#waiting.delete(minute);
      const events = numbers.map((number) => [number, this.#made(number)] as const);
      events.sort(([a, { at }], [b, { at: other }]) => at - other || a - b);
      for (const [, event] of events) {
        this.tally.sent(event);
        yield event;
      }
    }
  }

  #nextStart({ place, startOf, next, episodes }: Lane): number {
    return next < episodes ? Math.floor(startOf(next, this.#sources(2 * place, next).fraction())) : Infinity;
  }

  /** Plans the next episode: its events wait for their time, and those after the period are dropped. */
  #begin(lane: Lane): void {
    const { until } = this.#plan.period;
    const key = lane.next * LANES + lane.place;
    const runs = this.#episode(lane, lane.next++);
    for (const [place, event] of this.#keep(key, runs).entries()) {
      if (event.at >= until) {
        this.tally.notYet(event);
        continue;
      }
      const minute = Math.floor(event.at / MINUTE);
      const numbers = this.#waiting.get(minute);
      if (numbers === undefined) this.#waiting.set(minute, [key * PLACES + place]);
      else numbers.push(key * PLACES + place);
    }
    this.tally.began(lane.scenario.name, runs, until);
  }

  #made(number: number): SentEvent {
    const key = Math.floor(number / PLACES);
    const episode = () => this.#episode(this.#lanes[key % LANES] as Lane, Math.floor(key / LANES));
    const events = this.#kept.get(key) ?? this.#keep(key, episode());
    return events[number % PLACES] as SentEvent;
  }

  #keep(key: number, runs: readonly SentRun[]): readonly SentEvent[] {
    const events = runs.flatMap((run) => run.events);
    if (events.length > PLACES) throw new Error('an episode has too many events to number');
    this.#kept.set(key, events);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT && oldest !== undefined) this.#kept.delete(oldest);
    return events;
  }

  #episode({ scenario, place, episodes, startOf }: Lane, number: number): readonly SentRun[] {
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
}

/** Divides the runs among the scenarios. The first, whose episodes are single runs, takes the rest. */
function episodesOf(runs: number): readonly (readonly [Scenario, number])[] {
  const counts = SCENARIOS.map(({ share, runsAnEpisode }) => Math.floor((runs * share) / runsAnEpisode));
  const inEpisodes = SCENARIOS.map(({ runsAnEpisode }, i) => runsAnEpisode * (counts[i] as number));
  let left = runs - inEpisodes.reduce((sum, count) => sum + count);
  // Each scenario has one episode before any has two, if the runs suffice.
  for (const [i, { runsAnEpisode }] of SCENARIOS.entries()) {
    if (counts[i] !== 0 || left < runsAnEpisode) continue;
    counts[i] = 1;
    left -= runsAnEpisode;
  }
  return SCENARIOS.map(
    (scenario, i) => [scenario, (counts[i] as number) + (i === 0 ? left : 0)] as const,
  ).filter(([, count]) => count > 0);
}

export interface ScenarioTally {
  runs: number;
  /** Each event once, however often it is sent. */
  events: number;
  /** The run with the most to show and no anomaly; undefined without one. */
  example: { readonly runId: string; readonly interest: number } | undefined;
}

/** Counts what a demonstration does, in constant memory. */
export class Tally {
  readonly scenarios = new Map<string, ScenarioTally>(
    SCENARIOS.map(({ name }) => [name, { runs: 0, events: 0, example: undefined }]),
  );
  readonly kinds = zeros(EVENT_KINDS);
  readonly anomalies = zeros(Object.keys(ANOMALIES) as Anomaly[]);
  /** Number of sendings, including repeats and conflicts. */
  sendings = 0;
  /** Events that would happen after the end of the period. */
  later = 0;
  runs = 0;

  /** Events, each once. */
  get events(): number {
    return EVENT_KINDS.reduce((sum, kind) => sum + this.kinds[kind], 0);
  }

  /** Counts the runs of an episode. */
  began(scenario: string, runs: readonly SentRun[], until: number): void {
    const tally = this.#scenario(scenario);
    tally.runs += runs.length;
    this.runs += runs.length;
    for (const { anomalies } of runs) for (const anomaly of anomalies) this.anomalies[anomaly]++;
    // The first of nested runs is the one that a person started.
    const [first] = runs;
    if (first !== undefined) consider(tally, first, until);
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

  #scenario(name: string): ScenarioTally {
    const tally = this.scenarios.get(name);
    if (tally === undefined) throw new Error(`there is no scenario ${name}`);
    return tally;
  }
}

/** Prefers runs with all five kinds, then those with more events. */
function consider(tally: ScenarioTally, { anomalies, events }: SentRun, until: number): void {
  const [first] = events;
  if (first === undefined || anomalies.length > 0) return;
  if (events.some(({ at, anomalies: odd }) => at >= until || odd.length > 0)) return;
  const interest = 1000 * new Set(events.map(({ planned }) => planned.kind)).size + events.length;
  if (interest > (tally.example?.interest ?? 0)) tally.example = { runId: first.run.runId, interest };
}

function zeros<Name extends EventKind | Anomaly>(names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>;
}
