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
  readonly #seconds = new Map<ErrorCode, { second: number; lines: number; unsaid: number }>();

  constructor(private readonly log: Log) {}

  /** @param nowMs a monotonic clock. */
  note(refusal: Refusal, nowMs: number): void {
    const second = Math.floor(nowMs / 1000);
    let state = this.#seconds.get(refusal.code);
    if (state === undefined) this.#seconds.set(refusal.code, (state = { second, lines: 0, unsaid: 0 }));
    const { logLevel, status } = ERRORS[refusal.code];
    if (state.second !== second) {
      if (state.unsaid > 0)
        this.log[logLevel]({ code: refusal.code, refusals: state.unsaid }, 'more refused, not listed');
      state.second = second;
      state.lines = 0;
      state.unsaid = 0;
    }
    if (state.lines >= LINES_PER_SECOND) {
      state.unsaid++;
      return;
    }
    state.lines++;
    this.log[logLevel]({ ...refusal, status }, 'refused');
  }
}
