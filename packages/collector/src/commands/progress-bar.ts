/** How far a long check has come: on standard error, and gone before its result is printed. */
import { SingleBar } from 'cli-progress';

export interface ProgressOptions {
  /** Nobody looks on when standard error is not a terminal. */
  readonly wanted: boolean;
  /** What is counted. */
  readonly unit: string;
  /** How many of what `show` is told make one unit. */
  readonly per: number;
  /** Less than this, in units, is done before anybody wonders. */
  readonly from: number;
  /** Whether to show how many units a second are done. */
  readonly rate?: boolean;
}

export class ProgressBar {
  readonly #options: ProgressOptions;
  #bar: SingleBar | undefined;
  #since = 0;

  constructor(options: ProgressOptions) {
    this.#options = options;
  }

  readonly show = (done: number, of: number): void => {
    const { wanted, unit, per, from, rate = false } = this.#options;
    if (!wanted || of < from * per) return;
    const units = Math.round(done / per);
    if (this.#bar === undefined) {
      const format = `{bar} {percentage}% of {total} ${unit}, ${rate ? `{rate} ${unit}/s, ` : ''}{eta_formatted} left`;
      this.#bar = new SingleBar({ format, hideCursor: true, clearOnComplete: true });
      this.#since = performance.now();
      this.#bar.start(Math.round(of / per), 0, { rate: '-' });
    }
    const seconds = (performance.now() - this.#since) / 1000;
    this.#bar.update(units, seconds > 0 ? { rate: Math.round(units / seconds) } : {});
  };

  clear(): void {
    this.#bar?.stop();
  }
}
