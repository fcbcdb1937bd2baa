/** Runs the generator of OTLP (load/otlp.mjs), step after step on the same connections. */
import path from 'node:path';
import { Child } from './children.mjs';

const GENERATOR = path.resolve(import.meta.dirname, '../load/otlp.mjs');

export class OtlpLoad {
  #child;

  /** @param settings see load/otlp.mjs. */
  constructor(settings) {
    this.#child = new Child('the generator', process.execPath, [GENERATOR, JSON.stringify(settings)]);
  }

  /** Sends for a number of seconds or of requests; resolves with what came of it when all is answered. */
  async step(limits) {
    const result = this.#child.json('stdout', () => true);
    this.#child.write(`${JSON.stringify(limits)}\n`);
    return result;
  }

  stop() {
    return this.#child.stop();
  }
}
