/** Runs the open-loop generator (load/open-loop.mjs) beside the collector, step after step on the same connections. */
import path from 'node:path';
import { Child } from './children.mjs';
import { KIND, shapeOf } from './event.mjs';

const GENERATOR = path.resolve(import.meta.dirname, '../load/open-loop.mjs');

export class OpenLoop {
  #child;

  /** @param senders by name: `{ key, connections }` each. */
  constructor(port, senders) {
    const settings = JSON.stringify({ port, path: `/event/${KIND}`, shape: shapeOf(), senders });
    this.#child = new Child('the generator', process.execPath, [GENERATOR, settings]);
  }

  /**
   * Offers so many events a second for each sender; resolves with what came of them when the time is over.
   * @param patient whether clients keep to Retry-After.
   */
  async step(seconds, rates, patient = true) {
    const result = this.#child.json('stdout', () => true);
    this.#child.write(`${JSON.stringify({ seconds, rates, patient })}\n`);
    return result;
  }

  stop() {
    return this.#child.stop();
  }
}
