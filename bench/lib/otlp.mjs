/** Runs the OTLP generator (load/otlp.mjs) step by step on the same connections. */
import path from 'node:path';
import { Child } from './children.mjs';

const GENERATOR = path.resolve(import.meta.dirname, '../load/otlp.mjs');

export class OtlpLoad {
  #child;

  /** @param settings see load/otlp.mjs. */
  constructor(settings) {
    this.#child = new Child('the generator', process.execPath, [GENERATOR, JSON.stringify(settings)]);
  }

  /** Sends for a number of seconds or requests. Resolves with the results when all are answered. */
  async step(limits) {
    const result = this.#child.json('stdout', () => true);
    this.#child.write(`${JSON.stringify(limits)}\n`);
    return result;
  }

  stop() {
    return this.#child.stop();
  }
}
