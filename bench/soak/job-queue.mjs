/** The queue of events to send, oldest first; retries come before all others. */
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
    // Moved rarely, so that taking from a long queue is cheap.
    if (this.#first > 10_000 && this.#first * 2 > this.#fresh.length) {
      this.#fresh = this.#fresh.slice(this.#first);
      this.#first = 0;
    }
    return job;
  }
}
