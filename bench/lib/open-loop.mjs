/**
 * Runs the open-loop generator (load/open-loop.mjs) beside the collector, step after step on the same
 * connections.
 */
import path from 'node:path';
import { Child } from './children.mjs';
import { boundTo } from './cores.mjs';
import { KIND, shapeOf } from './event.mjs';

const GENERATOR = path.resolve(import.meta.dirname, '../load/open-loop.mjs');

export class OpenLoop {
  #child;

  /**
   * @param senders by name: `{ key, connections }` each.
   * @param core that the generator is bound to, if it is.
   */
  constructor(port, senders, core) {
    const settings = JSON.stringify({ port, path: `/event/${KIND}`, shape: shapeOf(), senders });
    const [file, ...args] = boundTo(core, [process.execPath, GENERATOR, settings]);
    this.#child = new Child('the generator', file, args);
  }

  /**
   * Offers this number of events a second for each sender. Resolves with the results at the end.
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
