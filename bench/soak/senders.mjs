/** Controls the thread of the senders (sender-thread.mjs). */
import { Worker } from 'node:worker_threads';

const THREAD = new URL('sender-thread.mjs', import.meta.url);

export class Senders {
  #worker;
  #asked = new Map();
  #last = 0;
  #failed;

  /**
   * @param senders `{ name, key, connections, share }` each, `fixedRate` instead of `share` for a sender
   * with a rate of its own, `isFaulty` for the one that does everything wrong.
   */
  constructor({ port, ca, events, senders }) {
    this.#worker = new Worker(THREAD, { workerData: { port, ca, seed: events.seed, senders } });
    this.#worker.on('message', ({ id, result }) => {
      this.#asked.get(id).resolve(result);
      this.#asked.delete(id);
    });
    this.#worker.on('error', (error) => {
      this.#failed = error;
      for (const { reject } of this.#asked.values()) reject(error);
    });
  }

  begin(rate) {
    return this.#ask('begin', { rate: rate === Infinity ? null : rate });
  }

  enter(phase) {
    return this.#ask('enter', { phase });
  }

  nextLife() {
    return this.#ask('nextLife');
  }

  renewHalf() {
    return this.#ask('renewHalf');
  }

  counts() {
    return this.#ask('counts');
  }

  phases() {
    return this.#ask('phases');
  }

  drain(patienceMs) {
    return this.#ask('drain', { patienceMs });
  }

  /** Ends the thread. Resolves with the outcomes of all events. */
  async end() {
    const fates = await this.#ask('end');
    await this.stop();
    return fates;
  }

  async stop() {
    await this.#worker.terminate();
  }

  #ask(act, wish = {}) {
    if (this.#failed) return Promise.reject(this.#failed);
    const id = ++this.#last;
    const asked = Promise.withResolvers();
    this.#asked.set(id, asked);
    this.#worker.postMessage({ id, act, ...wish });
    return asked.promise;
  }
}
