/** What is under way, by the ids that a tracer gives to it, so that what begins within finds the run that it is in. */
import type { ModelCall } from './model-call.js';

/** Beyond so many the oldest are forgotten: a library that never ends what it began must not fill the memory. */
const MOST_OPEN = 10_000;

export interface Open {
  /** The innermost run that this is in, or is. */
  readonly within: ModelCall | undefined;
  /** When it becomes a run itself. */
  readonly own?: ModelCall | undefined;
  readonly isTool?: boolean;
  /** The model that was called last directly in it. */
  lastModel?: ModelCall;
}

export class OpenCalls {
  readonly #open = new Map<string, Open>();

  begin(id: string, open: Open): void {
    this.#open.set(id, open);
    for (const oldest of this.#open.keys()) {
      if (this.#open.size <= MOST_OPEN) break;
      this.#open.delete(oldest);
    }
  }

  get(id: string | undefined): Open | undefined {
    return id === undefined ? undefined : this.#open.get(id);
  }

  end(id: string): Open | undefined {
    const open = this.#open.get(id);
    this.#open.delete(id);
    return open;
  }
}
