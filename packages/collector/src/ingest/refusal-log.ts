/** Logs what is refused, without letting those who are refused fill the log. */
import { ERRORS, type ErrorCode } from '@clinical-events/protocol';
import { LineLimit } from './line-limit.js';
import type { LostPlace } from './places.js';

type Level = 'debug' | 'info' | 'warn' | 'error';

/** What of a logger is used here and in the rest of ingest: pino's is one. */
export type Log = Record<Level, (fields: object, message: string) => void>;

/** Never a body, a key or a value: these fields and no others, and where it came from. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly requestId: string;
  readonly kind?: string | undefined;
  readonly organisation?: string | undefined;
  /** Of a key that was proven. */
  readonly keyId?: string | undefined;
}

/** Where no key was proven: one example of each sort and the number of the others, in so many milliseconds. */
const [EXAMPLES, PERIOD_MS] = [1, 10_000];

export class RefusalLog {
  readonly #proven: LineLimit<ErrorCode>;
  readonly #unproven: LineLimit<ErrorCode>;
  readonly #places: LineLimit<LostPlace>;

  constructor(private readonly log: Log) {
    const tell = (code: ErrorCode, refusals: number): void =>
      log[ERRORS[code].logLevel]({ code, refusals }, 'more refused, not listed');
    this.#proven = new LineLimit(tell);
    this.#unproven = new LineLimit(tell, EXAMPLES, PERIOD_MS);
    this.#places = new LineLimit(
      (reason, connections) => log.warn({ reason, connections }, 'more connections closed, not listed'),
      EXAMPLES,
      PERIOD_MS,
    );
  }

  /**
   * @param remoteOf asked only when a line is written.
   * @param nowMs a monotonic clock.
   */
  note(refusal: Refusal, remoteOf: () => string | undefined, nowMs: number): void {
    const limit = refusal.keyId === undefined ? this.#unproven : this.#proven;
    if (!limit.admits(refusal.code, nowMs)) return;
    const { logLevel, status } = ERRORS[refusal.code];
    this.log[logLevel]({ ...refusal, remote: remoteOf(), status }, 'refused');
  }

  noteLostPlace(reason: LostPlace, remote: string | undefined, nowMs: number): void {
    if (this.#places.admits(reason, nowMs))
      this.log.warn({ reason, remote }, 'connection closed: all were taken');
  }

  /** Reports how many were not listed, and begins to list again. */
  flush(): void {
    for (const limit of [this.#proven, this.#unproven, this.#places]) limit.flush();
  }
}
