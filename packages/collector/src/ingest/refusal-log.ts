/** Logs why requests are refused, without letting whoever is refused write the log full. */
import { ERRORS, type ErrorCode } from '@clinical-events/protocol';
import { LineLimit } from './line-limit.js';

type Level = 'debug' | 'info' | 'warn' | 'error';

/** What of a logger is used here and in the rest of ingest: pino's is one. */
export type Log = Record<Level, (fields: object, message: string) => void>;

/** Never a body, a key or a value: these fields and no others, and where it came from. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly kind?: string | undefined;
  readonly organisation?: string | undefined;
  readonly keyId?: string | undefined;
}

export class RefusalLog {
  readonly #limit: LineLimit<ErrorCode>;

  constructor(private readonly log: Log) {
    this.#limit = new LineLimit((code, refusals) =>
      log[ERRORS[code].logLevel]({ code, refusals }, 'more refused, not listed'),
    );
  }

  /**
   * @param remoteOf asked only when a line is written.
   * @param nowMs a monotonic clock.
   */
  note(refusal: Refusal, remoteOf: () => string | undefined, nowMs: number): void {
    if (!this.#limit.admits(refusal.code, nowMs)) return;
    const { logLevel, status } = ERRORS[refusal.code];
    this.log[logLevel]({ ...refusal, remote: remoteOf(), status }, 'refused');
  }

  /** Says how many were not listed, and begins to list again. */
  flush(): void {
    this.#limit.flush();
  }
}
