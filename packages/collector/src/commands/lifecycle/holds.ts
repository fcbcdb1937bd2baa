/**
 * Legal holds. The log has of each that it began, its id and the SHA-256 of its record, which is a file beside the log,
 * `lifecycle/holds/<id>.json`: what it is called, and what it holds. Where payloads are encrypted, the record is sealed as a
 * whole under the key of the hold, which the release destroys. In other logs there is no such key, and no hold on a person.
 */
import { hash, type KeyObject, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { exists, nodeFiles } from '../../files.js';
import type { Actions } from '../../privacy/actions.js';
import { openRecord, sealRecord } from '../../privacy/record-seal.js';
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
  /** Ids of a person; the hold is on runs that come later too. */
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

/** Where a sealed record is kept. */
interface SealedRecord {
  readonly format: 'clinical-events/sealed-hold/v1';
  readonly action: string;
  /** In base64 (record-seal.ts). */
  readonly sealed: string;
}

/**
 * On return the record is on stable storage.
 * @param key of the hold; undefined in a log whose payloads are not encrypted.
 * @returns it as it is stored, and what the log is to say of it.
 */
export async function keepRecord(
  dataDir: string,
  record: Omit<HoldRecord, 'format' | 'salt' | 'begun'>,
  key: KeyObject | undefined,
): Promise<{ readonly record: string; readonly text: string }> {
  const whole: HoldRecord = {
    ...{ format: 'clinical-events/hold/v1', ...record },
    ...{ begun: new Date().toISOString(), salt: newSalt() },
  };
  const text = `${key === undefined ? JSON.stringify(whole, undefined, 2) : JSON.stringify(sealedOf(whole, key))}\n`;
  await writeRecord(dataDir, 'holds', record.action, text);
  return { record: hash('sha256', text), text };
}

function sealedOf(record: HoldRecord, key: KeyObject): SealedRecord {
  const { action } = record;
  const sealed = sealRecord(key, action, Buffer.from(JSON.stringify(record))).toString('base64');
  return { format: 'clinical-events/sealed-hold/v1', action, sealed };
}

/** For a mirror: on return the record of a hold that was begun on another is here too. @returns false for one that is not it. */
export async function takeRecord(
  dataDir: string,
  { action, record }: { readonly action: string; readonly record: string },
  text: string,
): Promise<boolean> {
  if (!isRecord(text, record)) return false;
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

/** On return the record is not there: of an action that was refused or withdrawn, or of a hold that was released. */
export function dropRecord(dataDir: string, kind: (typeof RECORDS)[number], action: string): void {
  const file = recordFile(dataDir, kind, action);
  if (!exists(file)) return;
  nodeFiles.remove(file);
  nodeFiles.syncDirectory(path.dirname(file));
}

/** Whether a text is the record of which the log says this. */
export function isRecord(text: string, record: string): boolean {
  return hash('sha256', text) === record;
}

/** Undefined where there is none. */
export function recordText(dataDir: string, action: string): string | undefined {
  const file = recordFile(dataDir, 'holds', action);
  return exists(file) ? fs.readFileSync(file, 'utf8') : undefined;
}

/**
 * @param text of a record; undefined where there is none. @param record what the log says of it.
 * @param key of the hold; undefined where it is not here.
 * @returns why it cannot be read, in its place.
 */
export function recordIn(
  text: string | undefined,
  record: string,
  key: KeyObject | undefined,
): HoldRecord | 'missing' | 'changed' | 'closed' {
  if (text === undefined) return 'missing';
  if (!isRecord(text, record)) return 'changed';
  const read = JSON.parse(text) as HoldRecord | SealedRecord;
  if (!('sealed' in read)) return read;
  const opened = key && openRecord(key, read.action, Buffer.from(read.sealed, 'base64'));
  return opened === undefined ? 'closed' : (JSON.parse(opened.toString()) as HoldRecord);
}

const UNREADABLE = {
  missing: 'is missing',
  changed: 'was changed',
  closed: 'does not open by the keys that are here',
};

/**
 * The records of the holds that are not over.
 * @throws CommandFailure when one cannot be read: what it holds is not known, so that nothing may be erased.
 */
export function holdsOf(dataDir: string, actions: Actions, log: Pick<EventLog, 'holdKey'>): HoldRecord[] {
  return [...actions.holds].map(([action, record]) => {
    const read = recordIn(recordText(dataDir, action), record, log.holdKey?.(action));
    if (typeof read !== 'string') return read;
    throw new CommandFailure(
      `the record of hold ${action} ${UNREADABLE[read]} (${recordFile(dataDir, 'holds', action)}), and nothing can be ` +
        'erased while it is not known what it holds: bring it back from a back-up, or release the hold by its id',
      EXIT.refused,
    );
  });
}

/** Decides by which holds an event is held. */
export class Holds {
  readonly #subjects: readonly ReadonlySet<string>[];
  readonly #runs: readonly ReadonlySet<string>[];
  readonly #met: readonly SequenceSet[];

  constructor(private readonly records: readonly HoldRecord[]) {
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
          chain.some(({ persons }) => persons.some((id) => this.#subjects[i]?.has(id))),
      )
      .map(({ name }) => name);
  }
}

/** The sequences of the events that a hold met when it began. */
export function metBy({ met }: Pick<HoldRecord, 'met'>): SequenceSet {
  return SequenceSet.fromText(met?.events ?? '') ?? SequenceSet.EMPTY;
}
