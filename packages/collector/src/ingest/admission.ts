/**
 * Notices that more comes than can be served in time, and says who is to be refused then.
 *
 * What has come waits in the kernel until a turn of the event loop reads it, and a turn reads all that is there: the
 * longer the turns, the longer everybody waits, while the queue to the ledger is far from full. A burst is served. But
 * when the loop hardly ever had to wait for work, the wait of the others is a standing one (the idea of CoDel, RFC 8289
 * section 3): then a turn takes in so much, and the rest of what it reads is refused.
 *
 * Keys. Who has had less of the turn than the average key is served still, until the turn has taken in as much again:
 * so a key that sends much does not have the turn for itself.
 */

/**
 * Under a standing load a turn takes in events for so long, and so many in any case: on a busy machine time passes also
 * while the thread does not run.
 */
const TURN_MS = 10;
const TURN_EVENTS = 256;
/** The load is a standing one when the loop has waited for work for less than this part of the time since the last look. */
const LOOK_MS = 200;
const IDLE_PART = 0.02;

/** What a key has had of a turn. */
export interface Portion {
  turn: number;
  admitted: number;
}

export class Admission {
  #turn = 0;
  #running = false;
  #begunAt = 0;
  #keys = 0;
  #admitted = 0;
  /** What the turn had taken in when it was full; Infinity before. */
  #fullAt = Infinity;
  /** The last look, and how long the loop had waited for work by then since the start. */
  #lookedAt = performance.now();
  #idleMs = performance.eventLoopUtilization().idle;
  #standing = false;

  /**
   * Whether an event may be taken in.
   * @param portion of the event's key; begins with `turn` 0.
   * @param now a monotonic clock in milliseconds, read when the event's headers had come.
   */
  admits(portion: Portion, now: number): boolean {
    if (!this.#running) this.#begin(now);
    if (portion.turn !== this.#turn) {
      portion.turn = this.#turn;
      portion.admitted = 0;
      this.#keys++;
    }
    if (this.#standing && this.#exceeds(portion, now)) return false;
    portion.admitted++;
    this.#admitted++;
    return true;
  }

  #begin(now: number): void {
    if (now - this.#lookedAt >= LOOK_MS) this.#look(now);
    this.#running = true;
    this.#turn++;
    this.#begunAt = now;
    this.#keys = 0;
    this.#admitted = 0;
    this.#fullAt = Infinity;
    setImmediate(() => (this.#running = false));
  }

  #look(now: number): void {
    const { idle } = performance.eventLoopUtilization();
    this.#standing = idle - this.#idleMs < IDLE_PART * (now - this.#lookedAt);
    this.#lookedAt = now;
    this.#idleMs = idle;
  }

  #exceeds({ admitted }: Portion, now: number): boolean {
    if (this.#admitted < TURN_EVENTS || now - this.#begunAt <= TURN_MS) return false;
    if (this.#fullAt === Infinity) this.#fullAt = this.#admitted;
    return this.#admitted >= 2 * this.#fullAt || admitted * this.#keys >= this.#admitted;
  }
}
