/** The rows of runs by their ids, the newest of them in memory. */
import type { Statements } from './statements.js';

const ROW = 'SELECT id FROM run INDEXED BY run_record WHERE record = ? AND organisation = ? AND is_run = 1';
/** Of each of the two generations; an id takes some 100 bytes. */
const MOST_KEPT = 1 << 17;

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
    this.#keep(key, Number(row));
    return Number(row);
  }

  add(organisation: number, id: string, row: number): void {
    this.#keep(`${id}${organisation}`, row);
  }

  #keep(key: string, row: number): void {
    if (this.#young.size >= MOST_KEPT) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, row);
  }
}
