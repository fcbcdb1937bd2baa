/** Logs refusals, and sums them up: those who are refused cannot fill the log. */
import { ERRORS, type ErrorCode } from '@clinical-events/protocol';

type Level = 'debug' | 'info' | 'warn' | 'error';

/** The part of a logger that is used here and in the rest of ingest: pino's is one. */
export type Log = Record<Level, (fields: object, message: string) => void>;

/** These fields and the client's address, and no others: never a body, a key or a value. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly requestId: string;
  readonly kind?: string | undefined;
  readonly organisation?: string | undefined;
  /** Of a key that was proven. */
  readonly keyId?: string | undefined;
}

/** A line that may come often. */
export interface SummedLine {
  readonly message: string;
  /** The message of the line that counts those that were not written, and its name for their number. */
  readonly others: string;
  readonly counted: string;
  /** Written in a period, of each cause. */
  readonly most: number;
}

const PERIOD_MS = 10_000;
const REFUSED = { message: 'refused', others: 'more refused, not listed', counted: 'refusals' };
const PROVEN: SummedLine = { ...REFUSED, most: 100 };
const UNPROVEN: SummedLine = { ...REFUSED, most: 1 };

export class RefusalLog {
  /** By line and cause: how many came in this period, and what reports how many of them were not written. */
  readonly #counts = new Map<string, { came: number; report: (came: number) => void }>();
  #period: NodeJS.Timeout | undefined;

  constructor(private readonly log: Log) {}

  /** @param remoteOf called only when a line is written. */
  note(refusal: Refusal, remoteOf: () => string | undefined): void {
    const { code, keyId } = refusal;
    const { logLevel, status } = ERRORS[code];
    const line = keyId === undefined ? UNPROVEN : PROVEN;
    this.sum(logLevel, line, { code }, () => ({ ...refusal, remote: remoteOf(), status }));
  }

  /** Writes the line, or counts it where the period has enough of its cause. */
  sum(level: Level, line: SummedLine, cause: Record<string, string>, fields: () => object): void {
    const name = `${line.most} ${line.message} ${Object.values(cause).join()}`;
    let count = this.#counts.get(name);
    if (count === undefined) {
      const { others, counted, most } = line;
      const report = (came: number) => {
        if (came > most) this.log[level]({ ...cause, [counted]: came - most }, others);
      };
      this.#counts.set(name, (count = { came: 0, report }));
    }
    if (++count.came <= line.most) this.log[level](fields(), line.message);
    this.#period ??= setTimeout(() => this.flush(), PERIOD_MS).unref();
  }

  /** Reports how many were not listed, and ends the period. */
  flush(): void {
    clearTimeout(this.#period);
    this.#period = undefined;
    for (const { came, report } of this.#counts.values()) report(came);
    this.#counts.clear();
  }
}
