/**
 * The record of an erasure: case, who planned and applied it, and what it left. The action has a salted SHA-256 of it, and
 * holds nothing of it. It lies beside the log, `lifecycle/erasures/<action>.json`, sealed under a key of its own
 * (record-seal.ts), which is wrapped by the key-encryption key of the payload keys. The salt lies in the sealed part.
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
  /** Whether the operating system knows by a login that it is this one; false of a name that was only stated. */
  readonly isProven: boolean;
  /** RFC 3339, in UTC. */
  readonly at: string;
}

/** Events that the plan named and that were not erased, for one reason. */
export interface LeftEvents {
  readonly why: 'hold' | 'floor' | 'not marked' | 'stored in the clear';
  /** The name of the hold, the id of the floor, or the reason why the plan did not mark them. */
  readonly of?: string;
  /** RFC 3339; of a floor, and of a hold that has an end. */
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
  /** Erased events that mention the person and are of runs about others. */
  readonly mentions: number;
  /** Erased events that a floor kept, which was overridden. */
  readonly overridden: readonly Omit<LeftEvents, 'why'>[];
  /** Marks that a person set and removed after the plan was made. */
  readonly setByHand: { readonly marked: number; readonly unmarked: number };
  /** Payloads that the plan could not open. */
  readonly unread: number;
}

/**
 * On return the record is on stable storage.
 * @returns what the action says of it. @throws KekFault, KeysUnfit
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

/** On return the keys of all records are wrapped so; while there are two wrappings, a space stands between them. */
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
 * @param record what the action says of it.
 * @returns undefined when it is missing, was changed, or cannot be opened by the keys that are here.
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
