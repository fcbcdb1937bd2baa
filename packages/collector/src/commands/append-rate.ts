/**
 * Limits how fast lines come into the access log through its socket, whose senders could otherwise fill the
 * disk in minutes. A thousand looks a second are about 700 KiB.
 */
const BURST_BYTES = 8 << 20;
const BYTES_PER_MS = (1 << 20) / 1000;

export class AppendRate {
  #owed = 0;
  #at: number;

  /** @param clock a monotonic time in milliseconds. */
  constructor(private readonly clock: () => number = () => performance.now()) {
    this.#at = clock();
  }

  /** @returns for how long the sender of these bytes must wait, in milliseconds. */
  took(bytes: number): number {
    const now = this.clock();
    this.#owed = Math.max(0, this.#owed - (now - this.#at) * BYTES_PER_MS) + bytes;
    this.#at = now;
    return Math.max(0, this.#owed - BURST_BYTES) / BYTES_PER_MS;
  }
}
