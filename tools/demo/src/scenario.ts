/** What a kind of clinical AI does all day, told as runs. One file a scenario, in `scenarios/`. */
import type { Period, ModelInstance, PlannedRun } from './planned-run.js';
import type { Random } from './random.js';

/** Where one episode of a scenario stands: all that its events may depend on. */
export interface Scene {
  readonly random: Random;
  readonly newId: () => string;
  /** What several episodes of the scenario have in common is drawn from here, by a number that they agree on. */
  readonly shared: (number: number) => Random;
  /** Which episode of the scenario it is, from 0. */
  readonly number: number;
  /** How many episodes of the scenario there are. */
  readonly episodes: number;
  readonly period: Period;
  readonly startsAt: number;
  /** Whether the model has been exchanged by then: in the middle of the period, over some days. */
  readonly newVersion: boolean;
  /** How many patients the hospital knows. */
  readonly patients: number;
}

export interface Scenario {
  /** For tables and scripts: small letters and hyphens. */
  readonly name: string;
  readonly title: string;
  /** Its part of all runs. */
  readonly share: number;
  /** Runs that belong together; an episode always has so many. */
  readonly runsAnEpisode: number;
  /** The model before and after the change, as the summary names it. */
  readonly models: readonly [before: ModelInstance, after: ModelInstance];
  /** @returns when an episode starts: ascending with its number. `shift` is from 0 up to but not 1. */
  schedule(period: Period, episodes: number): (number: number, shift: number) => number;
  /** The runs of an episode: the same for the same scene. No event is before `startsAt`. */
  plan(scene: Scene): readonly PlannedRun[];
}

/** A model as the registry of the hospital knows it. */
export function modelInstance(id: string, version: string): ModelInstance {
  const registry = `https://models.hospital.example/${id}/${version}`;
  return {
    model_id: id,
    model_version: version,
    model_card_url: `${registry}/card`,
    data_sheet_url: `${registry}/data`,
  };
}

export function patientId(number: number): string {
  return `patient-${String(number).padStart(4, '0')}`;
}

/** `2026/03/02`, as object stores are wont to have it. */
export function dayPath(at: number): string {
  return new Date(at).toISOString().slice(0, 10).replaceAll('-', '/');
}
