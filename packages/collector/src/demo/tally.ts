/** What a demonstration did: counted as it happens, in memory that does not grow. */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { ODDITIES, type OddEvent, type Oddity, type OddRun } from './oddities.js';
import type { PlannedRun } from './planned-run.js';
import { SCENARIOS } from './scenarios.js';

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
  readonly oddities = Object.fromEntries(Object.keys(ODDITIES).map((name) => [name, 0])) as Record<
    Oddity,
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
  began(scenario: string, runs: readonly OddRun[], until: number): void {
    const tally = this.#scenario(scenario);
    tally.runs += runs.length;
    this.runs += runs.length;
    for (const { oddities } of runs) for (const oddity of oddities) this.oddities[oddity]++;
    // Of runs within each other the first is the one that was asked for.
    const [first] = runs;
    if (first !== undefined) this.#consider(scenario, tally, first, until);
  }

  sent({ run, planned, sending, oddities }: OddEvent): void {
    this.sendings++;
    for (const oddity of oddities) this.oddities[oddity]++;
    if (sending !== 'first') return;
    this.kinds[planned.kind]++;
    this.#scenario(run.scenario).events++;
  }

  notYet({ sending }: OddEvent): void {
    if (sending === 'first') this.later++;
  }

  /** All five kinds come before anything else; then the more events, the better; nothing odd. */
  #consider(scenario: string, tally: ScenarioTally, { oddities, events }: OddRun, until: number): void {
    if (oddities.length > 0 || events.some(({ at, oddities: odd }) => at >= until || odd.length > 0)) return;
    const interest = 1000 * new Set(events.map(({ planned }) => planned.kind)).size + events.length;
    if (interest <= (this.#interest.get(scenario) ?? 0)) return;
    this.#interest.set(scenario, interest);
    const { runId } = (events[0] as OddEvent).run satisfies PlannedRun;
    tally.example = { runId, events: events.length };
  }

  #scenario(name: string): ScenarioTally {
    const tally = this.scenarios.get(name);
    if (tally === undefined) throw new Error(`there is no scenario ${name}`);
    return tally;
  }
}
