/** What waits to be sent, oldest first; what was tried before goes before all others. */
export class JobQueue {
  #tried = [];
  #fresh = [];
  #first = 0;

  get size() {
    return this.#tried.length + this.#fresh.length - this.#first;
  }

  push(job) {
    this.#fresh.push(job);
  }

  unshift(job) {
    this.#tried.push(job);
  }

  shift() {
    if (this.#tried.length > 0) return this.#tried.shift();
    if (this.#first === this.#fresh.length) return undefined;
    const job = this.#fresh[this.#first++];
    // Moved rarely, so that a queue of a hundred thousand costs nothing to take from.
    if (this.#first > 10_000 && this.#first * 2 > this.#fresh.length) {
      this.#fresh = this.#fresh.slice(this.#first);
      this.#first = 0;
    }
    return job;
  }
}
