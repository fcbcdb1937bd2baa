/** What `collector verify` has found. */
import type { FindingList, VerifyFinding } from '../../store/log-audit.js';
import { printable } from '../terminal.js';

/** So many are listed. */
const MOST_LISTED = 100;

export class VerifyFindings implements FindingList {
  readonly #faults: VerifyFinding[] = [];
  readonly #notes: VerifyFinding[] = [];
  /** Faults that are only counted. */
  unlisted = 0;
  #confirmed = false;

  add(finding: VerifyFinding): void {
    const list = finding.kind === 'note' ? this.#notes : this.#faults;
    if (list.length < MOST_LISTED) list.push({ ...finding, message: printable(finding.message) });
    else if (finding.kind !== 'note') this.unlisted++;
  }

  confirm(): void {
    this.#confirmed = true;
  }

  get intact(): boolean {
    return this.#confirmed && this.faults === 0;
  }

  get faults(): number {
    return this.#faults.length + this.unlisted;
  }

  /** By the events that they are about, what is about none first; notes last. */
  get listed(): readonly VerifyFinding[] {
    const bySequence = (a: VerifyFinding, b: VerifyFinding) => (a.sequence ?? 0) - (b.sequence ?? 0);
    return [...this.#faults.toSorted(bySequence), ...this.#notes.toSorted(bySequence)];
  }
}
