/** The state that outlives a restart: `state.json` in the state directory. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { nodeFiles, replaceNow } from '@clinical-events/collector/files';

export interface ViewerState {
  /** The id under which the viewer reports that it has followed an erasure. */
  readonly id: string;
  /** The log that the other members are about. */
  readonly ledger: string;
  /** Whether the catalogue was complete once. */
  readonly built: boolean;
  /** The sequence of the last erasure since which the key of names was replaced. */
  readonly forgotten: number;
  /** The erasures that were reported, by id of the action. */
  readonly reported: readonly string[];
}

const UNUSED = { ledger: '', built: false, forgotten: 0, reported: [] };

export class StateFile {
  readonly #file: string;
  #state: ViewerState;

  /** Makes the id at the first start. A damaged file counts as missing. */
  constructor(stateDir: string) {
    this.#file = path.join(stateDir, 'state.json');
    const found = stateIn(this.#file);
    this.#state = found ?? { id: randomUUID(), ...UNUSED };
    if (found === undefined) this.#write();
  }

  get current(): ViewerState {
    return this.#state;
  }

  /** On return the changed members are stored. */
  update(changed: Partial<ViewerState>): void {
    this.#state = { ...this.#state, ...changed };
    this.#write();
  }

  /** Discards the state of another log; the id stays. */
  useLog(ledger: string): void {
    if (this.#state.ledger !== ledger) this.update({ ...UNUSED, ledger });
  }

  #write(): void {
    replaceNow(nodeFiles, this.#file, Buffer.from(`${JSON.stringify(this.#state, undefined, 2)}\n`));
  }
}

function stateIn(file: string): ViewerState | undefined {
  try {
    const read = Object(JSON.parse(fs.readFileSync(file, 'utf8'))) as Partial<ViewerState>;
    const { id, ledger, built, forgotten, reported } = read;
    if (typeof id !== 'string' || typeof ledger !== 'string' || typeof built !== 'boolean') return undefined;
    if (typeof forgotten !== 'number' || !Array.isArray(reported)) return undefined;
    return { id, ledger, built, forgotten, reported: reported.map(String) };
  } catch {
    return undefined;
  }
}
