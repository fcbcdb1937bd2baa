/** Says in the log that telemetry does not get through, at most once a minute, and that it does again. */
import type { Log } from '../ingest/refusal-log.js';

const EVERY_MS = 60_000;

export class Trouble {
  #toldAt = -Infinity;
  /** Since the last line. */
  #failures = 0;
  /** The last line said that it fails. */
  #told = false;

  /** @param signal which telemetry this is about. */
  constructor(
    private readonly signal: string,
    private readonly log: Log,
  ) {}

  /**
   * @param reason in our own words or a code: never what a server has answered, which may repeat what it was sent.
   * @param nowMs a monotonic clock.
   */
  failed(reason: string, nowMs: number): void {
    this.#failures++;
    if (nowMs - this.#toldAt < EVERY_MS) return;
    this.log.warn(
      { signal: this.signal, reason, failures: this.#failures },
      'OpenTelemetry export fails; what was to be exported is dropped',
    );
    this.#toldAt = nowMs;
    this.#failures = 0;
    this.#told = true;
  }

  worked(): void {
    if (!this.#told) return;
    this.#told = false;
    this.log.info({ signal: this.signal }, 'OpenTelemetry export works again');
  }
}
