/**
 * Legal holds. The log has of each that it began, its id and the SHA-256 of its record, which is a file beside the log,
 * `lifecycle/holds/<id>.json`: what it is called, and what it holds. Subjects stand there encrypted (name-cipher.ts).
 */
import { hash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { exists, nodeFiles } from '../../files.js';
import type { Actions } from '../../privacy/actions.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import type { EventLog } from '../../store/contract/events.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import type { LogRun } from './log-runs.js';

export interface HoldRecord {
  readonly format: 'clinical-events/hold/v1';
  readonly action: string;
  readonly name: string;
  readonly begun: string;
  /** Ids of runs. */
  readonly runs: readonly string[];
  readonly organisations: readonly string[];
  /** In base64; also of runs that come later. */
  readonly subjects: readonly string[];
  /**
   * What it met when it began, of runs and subjects: runs, and the sequences of their events. So that no sender takes anything
   * out of it, by a further start that is about someone else.
   */
  readonly met?: { readonly runs: readonly string[]; readonly events: string };
  readonly salt: string;
}

/** Kinds of records of which an action of the log has a SHA-256; each has a directory. Back-ups have them. */
export const RECORDS = ['holds', 'erasures'] as const;

export function recordFile(dataDir: string, kind: (typeof RECORDS)[number], action: string): string {
  return path.join(dataDir, 'lifecycle', kind, `${action}.json`);
}

/** So that whoever has the log alone cannot guess what a record holds and try it. */
export function newSalt(): string {
  return randomBytes(16).toString('hex');
}

/** On return the record is on stable storage. @returns it, and what the log is to say of it. */
export async function keepRecord(
  dataDir: string,
  record: Omit<HoldRecord, 'format' | 'salt' | 'begun'>,
): Promise<{ readonly record: string; readonly text: string }> {
  const whole: HoldRecord = {
    ...{ format: 'clinical-events/hold/v1', ...record },
    ...{ begun: new Date().toISOString(), salt: newSalt() },
  };
  const text = `${JSON.stringify(whole, undefined, 2)}\n`;
  await writeRecord(dataDir, 'holds', record.action, text);
  return { record: hash('sha256', text), text };
}

/** For a mirror: on return the record of a hold that was begun on another is here too. @returns false for one that is not it. */
export async function takeRecord(
  dataDir: string,
  { action, record }: { readonly action: string; readonly record: string },
  text: string,
): Promise<boolean> {
  if (recordIn(text, record) === undefined) return false;
  await writeRecord(dataDir, 'holds', action, text);
  return true;
}

/** On return the record is on stable storage, for its owner alone. */
export async function writeRecord(
  dataDir: string,
  kind: (typeof RECORDS)[number],
  action: string,
  text: string,
): Promise<void> {
  const file = recordFile(dataDir, kind, action);
  nodeFiles.makeDirectory(path.dirname(file));
  await nodeFiles.replace(file, Buffer.from(text));
}

/** @param record what the log says of it. @returns undefined when it is not there as it was written. */
export function recordOf(dataDir: string, action: string, record: string): HoldRecord | undefined {
  const file = recordFile(dataDir, 'holds', action);
  return exists(file) ? recordIn(fs.readFileSync(file, 'utf8'), record) : undefined;
}

/** @param record what the log says of it. @returns undefined for a text that is not it. */
export function recordIn(text: string, record: string): HoldRecord | undefined {
  return hash('sha256', text) === record ? (JSON.parse(text) as HoldRecord) : undefined;
}

/**
 * The records of the holds that are not over.
 * @throws CommandFailure when one is missing or was changed: what it holds is not known, so that nothing may be erased.
 */
export function holdsOf(dataDir: string, actions: Actions): HoldRecord[] {
  return [...actions.holds].map(([action, record]) => {
    const read = recordOf(dataDir, action, record);
    if (read !== undefined) return read;
    const file = recordFile(dataDir, 'holds', action);
    const what = exists(file) ? 'was changed' : 'is missing';
    throw new CommandFailure(
      `the record of hold ${action} ${what} (${file}), and nothing can be erased while it is not known what it holds: bring ` +
        'it back from a back-up, or release the hold by its id',
      EXIT.refused,
    );
  });
}

/** Decides by which holds an event is held. */
export class Holds {
  readonly #subjects: readonly ReadonlySet<string>[];
  readonly #runs: readonly ReadonlySet<string>[];
  readonly #met: readonly SequenceSet[];
  readonly #sealed = new Map<string, string>();

  /** @param names by which the subjects of holds are encrypted. */
  constructor(
    private readonly records: readonly HoldRecord[],
    private readonly names: EventLog['names'],
  ) {
    this.#subjects = records.map(({ subjects }) => new Set(subjects));
    this.#runs = records.map(({ runs, met }) => new Set([...runs, ...(met?.runs ?? [])]));
    this.#met = records.map(metBy);
  }

  /**
   * The names of the holds on an event of a run. A hold on a run holds what is nested in it, and one on a person every run of
   * which a start names the person: a further start of its sender takes nothing out of it.
   */
  on(run: LogRun, sequence: number): string[] {
    if (this.records.length === 0) return [];
    const { chain } = run;
    return this.records
      .filter(
        ({ organisations }, i) =>
          organisations.includes(run.organisation) ||
          this.#met[i]?.has(sequence) === true ||
          chain.some((each) => each.hangsOn.some((id) => this.#runs[i]?.has(id))) ||
          chain.some(({ persons }) => persons.some((id) => this.#subjects[i]?.has(this.#sealedOf(id)))),
      )
      .map(({ name }) => name);
  }

  #sealedOf(person: string): string {
    let sealed = this.#sealed.get(person);
    if (sealed === undefined) {
      sealed = this.names?.seal(person).toString('base64') ?? person;
      if (this.#sealed.size > MOST_KEPT) this.#sealed.clear();
      this.#sealed.set(person, sealed);
    }
    return sealed;
  }
}

const MOST_KEPT = 100_000;

/** The sequences of the events that a hold met when it began. */
export function metBy({ met }: Pick<HoldRecord, 'met'>): SequenceSet {
  return SequenceSet.fromText(met?.events ?? '') ?? SequenceSet.EMPTY;
}
