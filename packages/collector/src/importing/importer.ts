/**
 * Stores prepared batches as the ledger does with those that come by HTTP (ledger/ledger.ts): salt, commitment, append.
 * Counts what became of each line, and tells the reject file of those that were not stored.
 */
import { commitmentOf } from '../integrity/merkle.js';
import { fillSalt } from '../ledger/ledger.js';
import type { Candidate, Outcome, Store } from '../store/contract.js';
import { eventsOf, type PreparedBatch, type PreparedEvent } from './batch.js';
import type { LineFaultCode, Refusal } from './line-fault.js';
import { uuidText } from '../store/text.js';
import type { RejectFile } from './reject-file.js';

/**
 * Stands in the envelope of an imported event where others have the id of their API key. No key can have this id: theirs
 * are of a-z and 2-7 (access/key-ring.ts).
 */
export const IMPORT_KEY_ID = 'import000000';

/** What became of the lines of one input, so far. */
export interface InputTally {
  readonly name: string;
  lines: number;
  empty: number;
  stored: number;
  /** Events that the log had before, or that stood earlier in the inputs. */
  repeats: number;
  fixed: number;
  refused: number;
  /** Once all of it was read. */
  whole: PreparedBatch['whole'];
}

export interface ImporterOptions {
  readonly inputs: readonly string[];
  /** Undefined in a dry run: then an event that passes its examination counts as stored, and nothing is. */
  readonly store: Store | undefined;
  readonly rejects: Pick<RejectFile, 'write'> | undefined;
}

const REFUSALS: Partial<Record<Outcome, Pick<Refusal, 'code' | 'outcome'>>> = {
  conflict: { code: 'event_id_conflict', outcome: 'conflict' },
  unreadable: { code: 'internal', outcome: 'unreadable' },
};

export class Importer {
  readonly tallies: readonly InputTally[];
  /** How many lines were refused, by code. */
  readonly refused = new Map<LineFaultCode, number>();
  /** Events that seem to be stored in a place that cannot be read. */
  unreadable = 0;
  readonly #options: ImporterOptions;

  constructor(options: ImporterOptions) {
    this.#options = options;
    this.tallies = options.inputs.map((name) => ({
      ...{ name, lines: 0, empty: 0, stored: 0, repeats: 0, fixed: 0, refused: 0, whole: undefined },
    }));
  }

  /**
   * On return every event of the batch that was counted as stored or as a repeat is durable.
   * @throws NotCommitted or CommitUnknown, as `Store.append`; then nothing of the batch was counted or told.
   */
  async take(batch: PreparedBatch): Promise<void> {
    const tally = this.tallies[batch.input];
    if (tally === undefined) throw new RangeError('a batch of no input');
    const events = eventsOf(batch);
    const outcomes = await this.#store(events);
    const refusals = [...batch.refusals];
    for (const [i, { line, eventId, lineText }] of events.entries()) {
      const outcome = outcomes[i];
      if (outcome === 'accepted') tally.stored++;
      else if (outcome === 'duplicate') tally.repeats++;
      const refusal = outcome && REFUSALS[outcome];
      if (refusal !== undefined)
        refusals.push({ ...refusal, line, eventId: uuidText(eventId), bytes: lineText });
    }
    const { lines, empty, fixed, whole } = batch;
    Object.assign(tally, { lines, empty, fixed, whole });
    tally.refused += refusals.length;
    refusals.sort((a, b) => a.line - b.line);
    for (const { code, outcome } of refusals) {
      this.refused.set(code, (this.refused.get(code) ?? 0) + 1);
      if (outcome === 'unreadable') this.unreadable++;
    }
    this.#options.rejects?.write(tally.name, refusals);
  }

  async #store(events: readonly PreparedEvent[]): Promise<readonly Outcome[]> {
    const { store } = this.#options;
    if (store === undefined || events.length === 0) return events.map(() => 'accepted');
    const receivedAt = Date.now();
    const candidates: Candidate[] = events.map((event) => {
      const { kind, profile, organisation, eventId, runId, parentId, salted } = event;
      fillSalt(salted);
      const commitment = commitmentOf(salted);
      const keyId = IMPORT_KEY_ID;
      return { kind, profile, organisation, keyId, receivedAt, eventId, runId, parentId, salted, commitment };
    });
    return store.append(candidates);
  }
}
