/** Logs why requests are refused, without letting whoever is refused write the log full. */
import { ERRORS, type ErrorCode } from '@clinical-events/protocol';

type Level = 'debug' | 'info' | 'warn' | 'error';

/** What of a logger is used here and in the rest of ingest: pino's is one. */
export type Log = Record<Level, (fields: object, message: string) => void>;

/** Never a body, a key or a value: these fields and no others. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly kind?: string | undefined;
  readonly organisation?: string | undefined;
  readonly keyId?: string | undefined;
  readonly remote?: string | undefined;
}

/** So many lines a second for each code; what goes beyond is counted, and the count is logged. */
const LINES_PER_SECOND = 10;

export class RefusalLog {
  readonly #codes = new Map<ErrorCode, { lines: number; unsaid: number }>();
  #second = 0;

  constructor(private readonly log: Log) {}

  /** @param nowMs a monotonic clock. */
  note(refusal: Refusal, nowMs: number): void {
    const second = Math.floor(nowMs / 1000);
    if (second !== this.#second) {
      this.flush();
      this.#second = second;
    }
    let count = this.#codes.get(refusal.code);
    if (count === undefined) this.#codes.set(refusal.code, (count = { lines: 0, unsaid: 0 }));
    if (count.lines >= LINES_PER_SECOND) {
      count.unsaid++;
      return;
    }
    count.lines++;
    const { logLevel, status } = ERRORS[refusal.code];
    this.log[logLevel]({ ...refusal, status }, 'refused');
  }

  /** Says how many were not listed, and begins to list again. */
  flush(): void {
    for (const [code, { unsaid }] of this.#codes) {
      if (unsaid > 0) this.log[ERRORS[code].logLevel]({ code, refusals: unsaid }, 'more refused, not listed');
    }
    this.#codes.clear();
  }
}
