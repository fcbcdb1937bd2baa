/**
 * Everything that happens in a demonstration, in the order in which it happens: the runs of all scenarios, what goes
 * wrong with them, and outcomes that come weeks later.
 *
 * An episode depends on nothing but the plan, its scenario and its number. So an event that has to wait is not kept:
 * when its time has come, its episode is made again. Memory hardly grows with the number of runs: sixteen bytes for an
 * event that waits.
 */
import { withOddities, type OddEvent, type OddRun } from './oddities.js';
import type { Period } from './period.js';
import { Random } from './random.js';
import type { Scenario } from './scenario.js';
import { SCENARIOS } from './scenarios.js';
import { Tally } from './tally.js';
import { WaitingEvents } from './waiting-events.js';

/** All that a demonstration depends on: the same plan gives the same events, to the byte. */
export interface DemoPlan {
  readonly seed: string;
  readonly runs: number;
  readonly period: Period;
}

/** With this one, 200 runs over 30 days show every oddity and every kind of event, whatever day it is. */
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
  readonly #kept = new Map<number, readonly OddEvent[]>();

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
  *events(): Generator<OddEvent, void> {
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

  #take(): OddEvent {
    const number = this.#waiting.take();
    const [key, at] = [Math.floor(number / PLACES), number % PLACES];
    const place = key % LANES;
    const events =
      this.#kept.get(key) ??
      this.#keep(key, this.#episode(this.#lanes[place] as Lane, place, Math.floor(key / LANES)));
    return events[at] as OddEvent;
  }

  #keep(key: number, runs: readonly OddRun[]): readonly OddEvent[] {
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
  #episode({ scenario, episodes, startOf }: Lane, place: number, number: number): readonly OddRun[] {
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
    return scenario.plan(scene).map((run) => withOddities(run, random));
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
