/** When each version of a model was first seen. A version that comes back has not changed again. */
import type { ModelInstance } from '@clinical-events/protocol';

const MOST_VERSIONS = 1000;

export class ModelChanges {
  readonly #firstSeen = new Map<string, number>();
  readonly #now: () => number;

  /** @param now a clock that is never set, in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** For how many milliseconds this version has been known. */
  ageOf({ model_id, model_version }: ModelInstance): number {
    const name = JSON.stringify([nameOf(model_id), nameOf(model_version)]);
    const now = this.#now();
    const seen = this.#firstSeen.get(name);
    if (seen !== undefined) return now - seen;
    for (const oldest of this.#firstSeen.keys()) {
      if (this.#firstSeen.size < MOST_VERSIONS) break;
      this.#firstSeen.delete(oldest);
    }
    this.#firstSeen.set(name, now);
    return 0;
  }
}

/** Anything else may have a toJSON that throws, and makes an event that is refused. */
function nameOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
