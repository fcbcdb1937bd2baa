/**
 * Legal holds. The log has the id of each hold and the SHA-256 of its record, a file beside the log,
 * `lifecycle/holds/<id>.json`, with the hold's name and scope. If payloads are encrypted, the whole record is
 * sealed with the key of the hold, which the release destroys. Otherwise there is no such key, and no hold on
 * a person.
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
  /** Ids of a person; the hold also covers later runs. */
  readonly subjects: readonly string[];
  /**
   * The runs and events covered when the hold began, so that a sender cannot remove any of them with a later
   * start about someone else.
   */
  readonly met?: { readonly runs: readonly string[]; readonly events: string };
  readonly salt: string;
}

/** Kinds of records whose SHA-256 is in an action of the log; each has a directory. Back-ups include them. */
export const RECORDS = ['holds', 'erasures'] as const;

export function recordFile(dataDir: string, kind: (typeof RECORDS)[number], action: string): string {
  return path.join(dataDir, 'lifecycle', kind, `${action}.json`);
}

/** Prevents guessing the contents of a record from its hash in the log. */
export function newSalt(): string {
  return randomBytes(16).toString('hex');
}

/** The stored form of a sealed record. */
interface SealedRecord {
  readonly format: 'clinical-events/sealed-hold/v1';
  readonly action: string;
  /** Base64 (record-seal.ts). */
  readonly sealed: string;
}

/**
 * Writes the record to stable storage.
 * @param key of the hold; undefined if the payloads of the log are not encrypted.
 * @returns the stored text, and its hash for the log.
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
  const json = key === undefined ? JSON.stringify(whole, undefined, 2) : JSON.stringify(sealedOf(whole, key));
  const text = `${json}\n`;
  await writeRecord(dataDir, 'holds', record.action, text);
  return { record: hash('sha256', text), text };
}

function sealedOf(record: HoldRecord, key: KeyObject): SealedRecord {
  const { action } = record;
  const sealed = sealRecord(key, action, Buffer.from(JSON.stringify(record))).toString('base64');
  return { format: 'clinical-events/sealed-hold/v1', action, sealed };
}

/**
 * Stores, on a mirror, the record of a hold that was begun elsewhere. @returns false if it does not match the
 * hash.
 */
export async function takeRecord(
  dataDir: string,
  { action, record }: { readonly action: string; readonly record: string },
  text: string,
): Promise<boolean> {
  if (!isRecord(text, record)) return false;
  await writeRecord(dataDir, 'holds', action, text);
  return true;
}

/** Writes a private record to stable storage. */
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

/** Removes the record of an action that was refused or withdrawn, or of a released hold. */
export function dropRecord(dataDir: string, kind: (typeof RECORDS)[number], action: string): void {
  const file = recordFile(dataDir, kind, action);
  if (!exists(file)) return;
  nodeFiles.remove(file);
  nodeFiles.syncDirectory(path.dirname(file));
}

/** Whether a text has this hash. */
export function isRecord(text: string, record: string): boolean {
  return hash('sha256', text) === record;
}

/** Undefined if there is none. */
export function recordText(dataDir: string, action: string): string | undefined {
  const file = recordFile(dataDir, 'holds', action);
  return exists(file) ? fs.readFileSync(file, 'utf8') : undefined;
}

/**
 * @param text of a record; undefined if there is none. @param record its hash in the log.
 * @param key of the hold; undefined if it is not available.
 * @returns the record, or why it cannot be read.
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
  closed: 'cannot be decrypted with the keys here',
};

/**
 * The records of the active holds.
 * @throws CommandFailure if one cannot be read: what it covers is then unknown, so nothing may be erased.
 */
export function holdsOf(dataDir: string, actions: Actions, log: Pick<EventLog, 'holdKey'>): HoldRecord[] {
  return [...actions.holds].map(([action, record]) => {
    const read = recordIn(recordText(dataDir, action), record, log.holdKey?.(action));
    if (typeof read !== 'string') return read;
    throw new CommandFailure(
      `the record of hold ${action} ${UNREADABLE[read]} (${recordFile(dataDir, 'holds', action)}), so it ` +
        'is unknown what it covers and nothing can be erased: restore it from a back-up, or release the ' +
        'hold by its id',
      EXIT.refused,
    );
  });
}

/** Determines which holds cover an event. */
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
   * The names of the holds on an event of a run. A hold on a run covers nested runs, and a hold on a person
   * covers every run with a start that names the person, whatever later starts say.
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

/** The sequences of the events covered when a hold began. */
export function metBy({ met }: Pick<HoldRecord, 'met'>): SequenceSet {
  return SequenceSet.fromText(met?.events ?? '') ?? SequenceSet.EMPTY;
}
