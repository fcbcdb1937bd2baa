/** What `collector verify` finds: the kinds are a promise to scripts, and so is all that a finding has. */
import { printable } from './printable.js';

type VerifyKind =
  /** An event, its frame or the header of a segment is not what was written. */
  | 'altered'
  | 'missing'
  | 'inserted'
  | 'reordered'
  /** The log is not the one that a checkpoint was signed over, and nothing tells which of its events are not. */
  | 'forked'
  /** The hashes beside the log are not its hashes. */
  | 'tile_altered'
  | 'checkpoint_invalid'
  | 'checkpoint_missing'
  | 'unreadable'
  /** `access.log` does not come to the heads in the log. */
  | 'access_log_altered'
  /** No fault. */
  | 'note';

export interface VerifyFinding {
  readonly kind: VerifyKind;
  readonly sequence?: number;
  readonly event_id?: string;
  readonly file?: string;
  readonly offset?: number;
  readonly message: string;
}

/** So many are listed. */
const MOST_LISTED = 100;

export class VerifyFindings {
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

  /** To be called when the log was seen to be the one that was signed: that nothing was found shows nothing. */
  confirm(): void {
    this.#confirmed = true;
  }

  get intact(): boolean {
    return this.#confirmed && this.faults === 0;
  }

  /** How many there are besides notes. */
  get faults(): number {
    return this.#faults.length + this.unlisted;
  }

  /** By the events that they are about, what is about none first; notes last. */
  get listed(): readonly VerifyFinding[] {
    const bySequence = (a: VerifyFinding, b: VerifyFinding) => (a.sequence ?? 0) - (b.sequence ?? 0);
    return [...this.#faults.toSorted(bySequence), ...this.#notes.toSorted(bySequence)];
  }
}

/** `event 7`, or `events 7 to 9`. */
export function eventRange(sequence: number, count: number): string {
  return count === 1 ? `event ${sequence}` : `events ${sequence} to ${sequence + count - 1}`;
}
