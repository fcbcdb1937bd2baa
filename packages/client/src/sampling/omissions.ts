/** Counts what was left out, until it has been told. */
import type { EventKind, ModelInstance } from '@clinical-events/protocol';
import type { NotCaptured } from './sampling.js';

const MOST_MODELS = 32;

interface Count {
  readonly model: { readonly model_id?: string; readonly model_version?: string };
  runs: number;
  events: number;
}

export class Omissions {
  #since = new Date();
  #runs = 0;
  #events = 0;
  #models = new Map<string, Count>();

  /** Whether there is anything to tell. */
  get some(): boolean {
    return this.#events > 0;
  }

  /** When it was last told. */
  get since(): Date {
    return this.#since;
  }

  add(kind: EventKind, { model_id, model_version }: ModelInstance): void {
    const runs = kind === 'inference-start' ? 1 : 0;
    const named = {
      ...(typeof model_id === 'string' && { model_id }),
      ...(typeof model_version === 'string' && { model_version }),
    };
    this.#add(named, runs, 1);
    this.#runs += runs;
    this.#events++;
  }

  /** All that was counted; from now on it counts as told. */
  take(): NotCaptured {
    const models = [...this.#models.values()].map(({ model, runs, events }) => ({ ...model, runs, events }));
    const taken = { since: this.#since.toISOString(), runs: this.#runs, events: this.#events, models };
    this.#since = new Date();
    this.#runs = 0;
    this.#events = 0;
    this.#models = new Map();
    return taken;
  }

  /** It could not be told after all. */
  putBack({ since, runs, events, models }: NotCaptured): void {
    this.#since = new Date(since);
    this.#runs += runs;
    this.#events += events;
    for (const { runs: ofModel, events: eventsOfModel, ...model } of models) {
      this.#add(model, ofModel, eventsOfModel);
    }
  }

  #add(model: Count['model'], runs: number, events: number): void {
    const name = JSON.stringify([model.model_id, model.model_version]);
    let count = this.#models.get(name);
    if (!count) {
      if (this.#models.size === MOST_MODELS) return;
      count = { model, runs: 0, events: 0 };
      this.#models.set(name, count);
    }
    count.runs += runs;
    count.events += events;
  }
}
