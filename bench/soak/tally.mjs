/**
 * Requests and answers of all senders, since each start of the collector and in each phase of the soak.
 */
import { Histogram } from './histogram.mjs';

const add = (counts, name, by = 1) => (counts[name] = (counts[name] ?? 0) + by);

/**
 * Answers that belong to no key. A 408 may belong to no request: a sender may take it for the answer to the
 * one that it has just sent.
 */
const KEYLESS = new Set(['key_revoked', 'key_invalid', 'request_timeout']);

/**
 * Counts since a start of the collector: `inFlight` has no answer so far, `unanswered` will never have one.
 */
const newLife = () => ({
  accepted: {},
  refused: {},
  repeats: 0,
  inFlight: {},
  unanswered: {},
  byKey: {},
  byCertificate: {},
});
const newPhase = () => ({
  begun: performance.now(),
  answered: new Histogram(),
  waited: new Histogram(),
  refused: {},
  unanswered: 0,
});

export class Tally {
  /** Number of starts of the collector. A connection belongs to the start that it reached. */
  life = 1;
  #lives = { 1: newLife() };
  #phases = {};
  #phase;
  #unexpected = [];
  #kindOf;

  constructor(kindOf) {
    this.#kindOf = kindOf;
  }

  nextLife() {
    this.#lives[++this.life] = newLife();
  }

  enter(phase) {
    this.#end();
    this.#phase = this.#phases[phase] = newPhase();
  }

  sent({ life }, { number }) {
    add(this.#lives[life].inFlight, this.#kindOf(number));
  }

  answered({ life: of, fingerprint, sender }, { number, sort, due, sentAt }, code, now) {
    const life = this.#lives[of];
    const kind = this.#kindOf(number);
    add(life.inFlight, kind, -1);
    if (!KEYLESS.has(code)) add(life.byKey, sender);
    if (code !== 'accepted') {
      add(life.refused, code);
      if (this.#phase !== undefined) add(this.#phase.refused, code);
      return;
    }
    add(life.accepted, kind);
    add(life.byCertificate, fingerprint);
    if (sort === 'repeat') life.repeats++;
    this.#phase?.answered.add(now - sentAt);
    this.#phase?.waited.add(now - due);
  }

  unanswered({ life: of }, { number }) {
    const life = this.#lives[of];
    const kind = this.#kindOf(number);
    add(life.inFlight, kind, -1);
    add(life.unanswered, kind);
    if (this.#phase !== undefined) this.#phase.unanswered++;
  }

  /** Records a wrong answer. The first few are kept. */
  unexpected({ sort }, status, code) {
    if (this.#unexpected.length < 20) this.#unexpected.push({ sort, status, code });
  }

  /** Not a copy; posting it to another thread makes one. */
  counts() {
    return { life: this.life, lives: this.#lives, unexpected: [...this.#unexpected] };
  }

  phases() {
    this.#end();
    return Object.fromEntries(
      Object.entries(this.#phases).map(([name, { answered, waited, refused, unanswered, seconds }]) => [
        name,
        { seconds, answered: answered.summary(), waited: waited.summary(), refused, unanswered },
      ]),
    );
  }

  #end() {
    if (this.#phase !== undefined) this.#phase.seconds ??= (performance.now() - this.#phase.begun) / 1000;
  }
}
