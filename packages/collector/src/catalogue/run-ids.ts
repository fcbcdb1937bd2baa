/** The rows of runs by their ids, those of the last batches of events in memory. */
import type { Statements } from './statements.js';

const ROW = 'SELECT id FROM run INDEXED BY run_record WHERE record = ? AND organisation = ? AND is_run = 1';
/** A generation has more only by what a batch adds to it. An id takes some 100 bytes. */
const MOST_KEPT = 1 << 16;

export class RunIds {
  #young = new Map<string, number>();
  #old = new Map<string, number>();

  constructor(private readonly statements: Statements) {}

  forget(): void {
    this.#young = new Map();
    this.#old = new Map();
  }

  /** @param id 16 bytes in Latin-1. @returns undefined where there is no such run. */
  find(organisation: number, id: string): number | undefined {
    const key = `${id}${organisation}`;
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const row =
      this.#old.get(key) ?? this.statements.first(ROW, Buffer.from(id, 'latin1'), organisation)?.[0];
    if (row === undefined) return undefined;
    this.#young.set(key, Number(row));
    return Number(row);
  }

  add(organisation: number, id: string, row: number): void {
    this.#young.set(`${id}${organisation}`, row);
  }

  /** To be called when no run waits to be written: what was added stays in memory until then. */
  turn(): void {
    if (this.#young.size < MOST_KEPT) return;
    this.#old = this.#young;
    this.#young = new Map();
  }
}
