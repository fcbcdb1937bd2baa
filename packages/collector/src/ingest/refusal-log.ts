/** Logs refusals, and summarizes frequent ones, so that refused clients cannot fill the log. */
import { ERRORS, type ErrorCode } from '@clinical-events/protocol';

type Level = 'debug' | 'info' | 'warn' | 'error';

/** The part of a logger that this room uses; pino's logger has it. */
export type Log = Record<Level, (fields: object, message: string) => void>;

/** These fields and the client's address, and no others: never a body, a key or a value. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly requestId: string;
  readonly kind?: string | undefined;
  readonly organisation?: string | undefined;
  /** The id of a key that was proven. */
  readonly keyId?: string | undefined;
}

/** A log line that may be frequent. */
export interface SummedLine {
  readonly message: string;
  /** The message of the line that counts unwritten ones, and its name for their number. */
  readonly others: string;
  readonly counted: string;
  /** Maximum number of lines that are written per period and cause. */
  readonly most: number;
}

const PERIOD_MS = 10_000;
const REFUSED = { message: 'refused', others: 'more refused, not listed', counted: 'refusals' };
const PROVEN: SummedLine = { ...REFUSED, most: 100 };
const UNPROVEN: SummedLine = { ...REFUSED, most: 1 };

export class RefusalLog {
  /**
   * By line and cause: the count of this period, and the function that reports the number of unwritten lines.
   */
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

  /** Writes the line, or counts it when the period has enough lines of its cause. */
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

  /** Reports the number of unwritten lines, and ends the period. */
  flush(): void {
    clearTimeout(this.#period);
    this.#period = undefined;
    for (const { came, report } of this.#counts.values()) report(came);
    this.#counts.clear();
  }
}
