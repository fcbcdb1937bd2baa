/**
 * The record of an erasure: the case, who planned and applied it, and what it left. The action contains only
 * its salted SHA-256. The record is stored beside the log, `lifecycle/erasures/<action>.json`, sealed with
 * its own key (record-seal.ts), which is wrapped by the KEK of the payload keys. The salt is in the sealed
 * part.
 */
import { hash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { exists, nodeFiles } from '../../files.js';
import { keyIn, type Rewrapping } from '../../privacy/kek-exchange.js';
import { kekOf } from '../../privacy/key-directories.js';
import { openRecord, sealRecord } from '../../privacy/record-seal.js';
import { readKeyPlaces } from '../../store/key-places.js';
import { newSalt, recordFile, writeRecord } from './holds.js';

const FORMAT = 'clinical-events/erasure-record/v1';
const KEY_BYTES = 32;

export interface Person {
  readonly name: string;
  /** Whether an operating system login proves the name; false for a stated name. */
  readonly isProven: boolean;
  /** RFC 3339, in UTC. */
  readonly at: string;
}

/** Events in the plan that were not erased, by reason. */
export interface LeftEvents {
  readonly why: 'hold' | 'floor' | 'not marked' | 'stored in the clear';
  /** The name of the hold, the id of the floor, or why the plan did not mark them. */
  readonly of?: string;
  /** RFC 3339; for a floor, and for a hold with an end. */
  readonly until?: string;
  readonly events: number;
}

export interface ErasureFacts {
  readonly action: string;
  /** Reference of the case. */
  readonly case: string;
  readonly planner: Person;
  readonly applier: Person;
  readonly left: readonly LeftEvents[];
  /** Number of erased events that mention the person but belong to runs about others. */
  readonly mentions: number;
  /** Erased events whose floor was overridden. */
  readonly overridden: readonly Omit<LeftEvents, 'why'>[];
  /** Number of marks that a person set and removed after the plan was made. */
  readonly setByHand: { readonly marked: number; readonly unmarked: number };
  /** Number of payloads that the plan could not decrypt. */
  readonly unread: number;
}

/**
 * Writes the record to stable storage.
 * @returns its hash for the action. @throws KekFault, KeysUnfit
 */
export async function keepErasureRecord(dataDir: string, facts: ErasureFacts): Promise<string> {
  const text = Buffer.from(JSON.stringify({ ...facts, salt: newSalt() }));
  const key = randomBytes(KEY_BYTES);
  const sealed = sealRecord(key, facts.action, text);
  const record = {
    ...{ format: FORMAT, action: facts.action, sealed: sealed.toString('base64') },
    key: await kekOf(readKeyPlaces(dataDir)).wrap(key),
  };
  await writeRecord(dataDir, 'erasures', facts.action, `${JSON.stringify(record)}\n`);
  return hash('sha256', text);
}

/** Wraps the keys of all records again. While there are two wrappings, they are separated by a space. */
export async function rewrapErasureRecords(dataDir: string, rewrap: Rewrapping): Promise<void> {
  const directory = path.dirname(recordFile(dataDir, 'erasures', 'any'));
  for (const name of exists(directory) ? fs.readdirSync(directory) : []) {
    if (!name.endsWith('.json')) continue;
    const file = path.join(directory, name);
    const record = JSON.parse(fs.readFileSync(file, 'utf8')) as Record<'action' | 'sealed' | 'key', string>;
    const sealed = Buffer.from(record.sealed, 'base64');
    const isRight = (key: Buffer) => openRecord(key, record.action, sealed) !== undefined;
    const key = (await rewrap(record.key.split(' '), isRight)).join(' ');
    if (key !== record.key)
      await nodeFiles.replace(file, Buffer.from(`${JSON.stringify({ ...record, key })}\n`));
  }
}

/**
 * @param record its hash in the action.
 * @returns undefined if it is missing, was changed, or cannot be decrypted here.
 */
export function erasureRecordOf(dataDir: string, action: string, record: string): ErasureFacts | undefined {
  const file = recordFile(dataDir, 'erasures', action);
  if (!exists(file)) return undefined;
  let text: Buffer | undefined;
  try {
    const kek = kekOf(readKeyPlaces(dataDir));
    const { sealed, key } = JSON.parse(fs.readFileSync(file, 'utf8')) as Record<'sealed' | 'key', string>;
    const bytes = Buffer.from(sealed, 'base64');
    const isRight = (each: Buffer) => openRecord(each, action, bytes) !== undefined;
    let right: Buffer | undefined;
    for (const wrapped of key.split(' ')) right ??= keyIn(kek, wrapped, isRight);
    text = right && openRecord(right, action, bytes);
  } catch {
    return undefined;
  }
  if (text === undefined) return undefined;
  return hash('sha256', text) === record ? (JSON.parse(text.toString()) as ErasureFacts) : undefined;
}
