/**
 * A scenario describes as data what a kind of clinical AI does all day (one JSON file in `scenarios/`).
 *
 * A scenario has steps, which an episode carries out in order. In a value, a text is a template (`{name}`,
 * `{name:.2}` with two decimals, `{name:04}` with leading zeros), and an object with one `$` member is an
 * operation of {@link OPERATIONS}. Random numbers are drawn in the order of the file, so a change of the
 * order changes all events.
 */
import { DAY, HOUR, MINUTE, type Period, PlannedRun, SECOND, type Sender } from './planned-run.js';
import { type Random, nextOfficeHour, spread, workingWeek } from './random.js';

type Value = string | number | boolean | null | readonly Value[] | { readonly [name: string]: Value };

interface Model {
  readonly id: string;
  /** The versions before and after the change of models; a model that does not change has one. */
  readonly versions: readonly [before: string, after?: string];
}

/** The form of a scenario's file. */
export interface ScenarioFile {
  readonly name: string;
  readonly title: string;
  /** Share of all runs. */
  readonly share: number;
  /** Number of related runs in each episode. */
  readonly runsAnEpisode: number;
  /** The summary names the first one. */
  readonly models: Readonly<Record<string, Model>>;
  /** A list has one sender per bed, in turn. */
  readonly senders: Readonly<Record<string, Sender | readonly Sender[]>>;
  /** How busy each hour of the day is, and the share that remains on Saturdays and Sundays. */
  readonly week?: { readonly hours: readonly number[]; readonly weekend: number };
  /**
   * Episodes are hourly in each bed; `shared` is drawn once for a patient, who stays for this number of
   * `episodes`.
   */
  readonly stays?: { readonly episodes: number; readonly shared: Value };
  /** Values of the templates. */
  readonly lists: Readonly<Record<string, readonly Value[]>>;
  readonly steps: readonly Step[];
}

type Step =
  | { readonly let: Readonly<Record<string, Value>> }
  | { readonly if: Value; readonly then: readonly Step[]; readonly else?: readonly Step[] }
  | { readonly each: string; readonly in: Value; readonly do: readonly Step[] }
  /** Takes the steps of another run. */
  | { readonly run: string; readonly do: readonly Step[] }
  | EventStep;

interface EventStep {
  readonly event: 'inference-start' | 'internal-artifact' | 'human-output' | 'outcome' | 'user-feedback';
  readonly by: string;
  readonly at: Value;
  /** The variable that gets the id of the event. */
  readonly as?: string;
  readonly parent?: Value;
  readonly latency?: Value;
  /** The id of this event is the run's only id; the event does not name a run. */
  readonly namesRun?: true;
  /** The payload. */
  readonly with: Readonly<Record<string, Value>>;
}

/** Everything that the events of an episode depend on. */
export interface Scene {
  readonly random: Random;
  readonly newId: () => string;
  /** A random source that several episodes share, selected by a common number. */
  readonly shared: (number: number) => Random;
  /** The number of the episode, from 0, and the number of all episodes of the scenario. */
  readonly number: number;
  readonly episodes: number;
  readonly period: Period;
  readonly startsAt: number;
  /** Whether the model has been replaced, which takes some days in the middle of the period. */
  readonly newVersion: boolean;
  /** Patients whom the hospital knows. */
  readonly patients: number;
}

/** An episode while it is played. */
interface Stage {
  readonly scene: Scene;
  readonly random: Random;
  readonly models: ScenarioFile['models'];
  readonly values: Record<string, unknown>;
}

type Evaluate = (stage: Stage) => unknown;
type Play = (stage: Stage, runs: PlannedRun[], run: PlannedRun) => void;

/** What the operations do with their operands, which are evaluated from left to right. */
const OPERATIONS: Readonly<Record<string, (stage: Stage, ...operands: never[]) => unknown>> = {
  chance: ({ random }, probability: number) => random.chance(probability),
  fraction: ({ random }) => random.fraction(),
  between: ({ random }, low: number, high: number) => random.between(low, high),
  integer: ({ random }, low: number, high: number) => random.integer(low, high),
  normal: ({ random }, mean: number, deviation: number) => mean + deviation * random.normal(),
  logNormal: ({ random }, median: number, spread: number) => random.logNormal(median, spread),
  pick: ({ random }, list: readonly unknown[]) => random.pick(list),
  some: ({ random }, list: readonly unknown[], count: number) => random.some(list, count),
  version: ({ scene }, before: unknown, after: unknown) => (scene.newVersion ? after : before),
  model: ({ scene, models }, name: string) => modelInstance(models[name] as Model, scene.newVersion),
  sum: (_, ...terms: number[]) => terms.reduce((sum, term) => sum + term),
  minus: (_, from: number, term: number) => from - term,
  times: (_, ...factors: number[]) => factors.reduce((product, factor) => product * factor),
  clamp: (_, value: number, low: number, high: number) => Math.min(high, Math.max(low, value)),
  toNext: (_, value: number, step: number) => Math.round(value / step) * step,
  decimals: (_, value: number, digits: number) => Number(value.toFixed(digits)),
  sigmoid: (_, value: number) => 1 / (1 + Math.exp(-value)),
  below: (_, a: number, b: number) => a < b,
  same: (_, a: unknown, b: unknown) => a === b,
  not: (_, value: boolean) => !value,
  seconds: (_, count: number) => count * SECOND,
  minutes: (_, count: number) => count * MINUTE,
  hours: (_, count: number) => count * HOUR,
  days: (_, count: number) => count * DAY,
  officeHour: (_, at: number) => nextOfficeHour(at),
  time: (_, at: number) => new Date(at).toISOString(),
};

/** A scenario that can be played: the same scene gives the same runs. */
export class Scenario {
  readonly name: string;
  readonly title: string;
  readonly share: number;
  readonly runsAnEpisode: number;
  readonly modelId: string;
  readonly versions: Model['versions'];
  readonly #file: ScenarioFile;
  readonly #steps: Play;
  readonly #shared: Evaluate;

  constructor(file: ScenarioFile) {
    const [model] = Object.values(file.models) as [Model];
    ({ name: this.name, title: this.title, share: this.share, runsAnEpisode: this.runsAnEpisode } = file);
    this.modelId = model.id;
    this.versions = model.versions;
    this.#file = file;
    this.#steps = stepsOf(file.steps, file.senders);
    this.#shared = evaluation(file.stays?.shared ?? {});
  }

  /** @returns when an episode starts: ascending with its number. `shift` is at least 0 and below 1. */
  schedule(period: Period, episodes: number): (number: number, shift: number) => number {
    const { week, stays } = this.#file;
    if (stays !== undefined) return hourly(stays.episodes, period, episodes);
    const { hours, weekend } = week as { hours: readonly number[]; weekend: number };
    return spread(
      workingWeek((hour) => hours[hour] as number, weekend),
      period,
      episodes,
    );
  }

  /** The runs of an episode. No event is before `startsAt`. */
  plan(scene: Scene): readonly PlannedRun[] {
    const { random, newId, startsAt, patients } = scene;
    const { name, models, stays, lists } = this.#file;
    const values = { ...lists, startsAt, patients, day: dayPath(startsAt) };
    const stage: Stage = { scene, random, models, values };
    if (stays !== undefined) {
      const place = placeOf(scene, stays.episodes);
      const drawn = this.#shared({ ...stage, random: scene.shared(place.stay) });
      Object.assign(stage.values, drawn, { bed: place.bed, bedNumber: place.bed + 1, place: place.place });
    }
    const run = new PlannedRun(name, newId);
    const runs = [run];
    this.#steps(stage, runs, run);
    return runs;
  }
}

function stepsOf(steps: readonly Step[], senders: ScenarioFile['senders']): Play {
  const plays = steps.map((step) => stepOf(step, senders));
  return (stage, runs, run) => {
    Object.assign(stage.values, { run: run.runId, run8: run.runId.slice(0, 8) });
    for (const play of plays) play(stage, runs, run);
  };
}

function stepOf(step: Step, senders: ScenarioFile['senders']): Play {
  if ('let' in step) {
    const values = Object.entries(step.let).map(([name, value]) => [name, evaluation(value)] as const);
    return (stage) => {
      for (const [name, value] of values) stage.values[name] = value(stage);
    };
  }
  if ('if' in step) {
    const condition = evaluation(step.if);
    const [then, otherwise] = [stepsOf(step.then, senders), stepsOf(step.else ?? [], senders)];
    return (stage, runs, run) => (condition(stage) === true ? then : otherwise)(stage, runs, run);
  }
  if ('each' in step) {
    const list = evaluation(step.in);
    const steps = stepsOf(step.do, senders);
    return (stage, runs, run) => {
      for (const each of list(stage) as readonly unknown[]) {
        stage.values[step.each] = each;
        steps(stage, runs, run);
      }
    };
  }
  if ('run' in step) {
    const steps = stepsOf(step.do, senders);
    return (stage, runs, run) => {
      const inner = new PlannedRun(run.scenario, stage.scene.newId);
      runs.push(inner);
      steps(stage, runs, inner);
      Object.assign(stage.values, { run: run.runId, run8: run.runId.slice(0, 8) });
    };
  }
  return eventOf(step, senders[step.by] as Sender | readonly Sender[]);
}

function eventOf({ event, as, namesRun, ...step }: EventStep, by: Sender | readonly Sender[]): Play {
  const payload = evaluation(step.with);
  const parent = evaluation(step.parent ?? null);
  const [at, latency] = [evaluation(step.at), evaluation(step.latency ?? null)];
  return (stage, _, run) => {
    const content = payload(stage) as Readonly<Record<string, object>>;
    const id = run.add(event, content, {
      at: at(stage) as number,
      sender: 'app' in by ? by : (by[(stage.values['bed'] as number) % by.length] as Sender),
      parent: parent(stage) as string | null,
      latencyMs: (latency(stage) as number | null) ?? undefined,
      namesRun: namesRun === true,
    });
    if (as !== undefined) stage.values[as] = id;
  };
}

function evaluation(value: Value): Evaluate {
  if (typeof value === 'string') return template(value);
  if (typeof value !== 'object' || value === null) return () => value;
  if (isList(value)) {
    const items = value.map(evaluation);
    return (stage) => items.map((item) => item(stage));
  }
  const [first] = Object.entries(value);
  if (first?.[0].startsWith('$') === true) return operationOf(first[0].slice(1), first[1]);
  const members = Object.entries(value).map(([member, each]) => [member, evaluation(each)] as const);
  return (stage) => Object.fromEntries(members.map(([member, each]) => [member, each(stage)]));
}

function operationOf(name: string, operand: Value): Evaluate {
  const operands = (isList(operand) ? operand : [operand]).map(evaluation);
  if (name === 'if') return (stage) => chosen(operands, stage);
  const operate = OPERATIONS[name];
  if (operate === undefined) throw new Error(`a scenario has the unknown operation $${name}`);
  return (stage) => operate(stage, ...(operands.map((each) => each(stage)) as never[]));
}

/** `[condition, value, condition, value, …, otherwise]`: only the value that is chosen is evaluated. */
function chosen(operands: readonly Evaluate[], stage: Stage): unknown {
  let at = 0;
  for (; at + 1 < operands.length; at += 2)
    if (operands[at]?.(stage) === true) return operands[at + 1]?.(stage);
  return operands[at]?.(stage);
}

/** A template that is a single name has the value of that name; any other template is a text. */
function template(text: string): Evaluate {
  const parts = text.split(/\{([A-Za-z][A-Za-z0-9.]*)(?::(\.?\d+))?\}/);
  if (parts.length === 1) return () => text;
  const [before, name, format, after] = parts;
  if (parts.length === 4 && before === '' && after === '' && format === undefined)
    return (stage) => valueOf(stage, name as string);
  return (stage) => {
    let filled = before ?? '';
    for (let i = 1; i < parts.length; i += 3)
      filled += formatted(valueOf(stage, parts[i] as string), parts[i + 1]) + (parts[i + 2] as string);
    return filled;
  };
}

/** @param path a name, or the path of a member such as `finding.study`. */
function valueOf({ values }: Stage, path: string): unknown {
  let value: unknown = values;
  for (const name of path.split('.')) value = (value as Record<string, unknown>)[name];
  return value;
}

function formatted(value: unknown, format: string | undefined): string {
  if (Array.isArray(value)) return value.join('; ');
  if (format?.startsWith('.') === true) return (value as number).toFixed(Number(format.slice(1)));
  return String(value).padStart(Number(format ?? 0), '0');
}

function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

/** A model as the registry of the hospital knows it. */
function modelInstance({ id, versions: [before, after = before] }: Model, isNew: boolean): object {
  const version = isNew ? after : before;
  const registry = `https://models.hospital.example/${id}/${version}`;
  return {
    model_id: id,
    model_version: version,
    model_card_url: `${registry}/card`,
    data_sheet_url: `${registry}/data`,
  };
}

/** `2026/03/02`. */
function dayPath(at: number): string {
  return new Date(at).toISOString().slice(0, 10).replaceAll('-', '/');
}

function bedsFor(episodes: number, period: Period): number {
  return Math.ceil(episodes / Math.max(1, Math.floor((period.until - period.since) / HOUR)));
}

/** @returns the bed, the number of the stay among all stays, and the place of the episode in it. */
function placeOf({ number, episodes, period }: Scene, ofAStay: number) {
  const beds = bedsFor(episodes, period);
  const bed = number % beds;
  // Patients do not change in all beds at the same time.
  const slot = Math.floor(number / beds) + (bed % ofAStay);
  return { bed, stay: Math.floor(slot / ofAStay) * beds + bed, place: slot % ofAStay };
}

/**
 * Episodes of one bed are an hour apart. If they do not fill the period, the first episodes of the stays are
 * spread evenly, and the others follow hourly.
 */
function hourly(ofAStay: number, period: Period, episodes: number): (number: number) => number {
  const beds = bedsFor(episodes, period);
  const group = beds * ofAStay;
  const apart = ((period.until - period.since) * group) / episodes;
  return (number) => {
    const inGroup = number % group;
    // Each bed has its own minute of the hour.
    const hours = Math.floor(inGroup / beds) + (inGroup % beds) / beds;
    return period.since + Math.floor(number / group) * apart + hours * Math.min(HOUR, apart / ofAStay);
  };
}
