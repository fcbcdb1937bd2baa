/**
 * A data directory as the source of a copy, with or without a running collector. It is not changed.
 *
 * The order of reading makes the copy consistent: cosigned and kept checkpoints, the newest checkpoint, the
 * keys (a rotation note exists before its key signs), and then the log, which then covers all of them. The
 * log is read up to its last whole frame, including events after the newest checkpoint, which may be
 * acknowledged.
 */
import fs from 'node:fs';
import path from 'node:path';
import { type Checkpoint, keyIdText } from '@clinical-events/protocol/verify';
import { exists } from '../files.js';
import type { LogCopy } from '../store/contract/copy.js';
import { StoreDamaged } from '../store/contract/events.js';
import { copiedAccessLog } from '../store/open-to-copy.js';
import { KeyDatabase, keyDatabasePath } from '../store/open-keys.js';
import { checkpointDirectory } from '../store/open.js';
import { openStore } from '../store/open-to-read.js';
import { type KeyHistory, PrivateKeys } from '../tree/key-files.js';
import { readKnownCheckpoint, readMirrorNote } from '../tree/state-files.js';
import { type CopySource, KNOWN } from './replica.js';
import { messageOf } from '../system-code.js';

const KEPT = /^(\d{16})\.checkpoint$/;
const COSIGNED = /^cosigned-[0-9a-f]{8}$/;
/**
 * The directories of records. Without hold records a restored log cannot be erased; without erasure records
 * its certificates are incomplete.
 */
const RECORDS = ['lifecycle/holds', 'lifecycle/erasures'];

/** A small file by its name in the data directory. */
type Small = readonly [file: string, bytes: Buffer];

export interface StandingNotes {
  /** Names of kept checkpoints, whose files never change. */
  readonly kept: readonly string[];
  readonly cosigned: readonly Small[];
}

/** The notes of a data directory, read before its newest checkpoint and its log. */
export function standingNotes(dataDir: string): StandingNotes {
  const directory = checkpointDirectory(dataDir);
  const names = exists(directory) ? fs.readdirSync(directory).sort() : [];
  return {
    kept: names.filter((name) => KEPT.test(name)),
    cosigned: names.filter((name) => COSIGNED.test(name)).map((name) => noteFile(dataDir, name)),
  };
}

function noteFile(dataDir: string, name: string): Small {
  return [`checkpoints/${name}`, fs.readFileSync(path.join(dataDir, 'checkpoints', name))];
}

/** A checkpoint of the log, and its note. */
export interface Newest {
  readonly note: string;
  readonly checkpoint: Checkpoint;
}

export interface DataDirectoryOptions {
  readonly dataDir: string;
  readonly history: KeyHistory;
  /** The checkpoint at the end of the copy. */
  readonly newest: Newest;
  readonly log: LogCopy;
  readonly standing: StandingNotes;
  /** @throws if the note is not a checkpoint of this log. */
  readonly checkNote: (note: string) => void;
  /** Directory of the private keys to copy; undefined if they are not copied. */
  readonly signingKeys: string | undefined;
  /** Called for a damaged file that is left out; without it, the file is an error. */
  readonly warn?: (message: string) => void;
}

/** @throws StoreDamaged for a note that is not a checkpoint of this log, SigningKeyFault. */
export function dataDirectory(options: DataDirectoryOptions): CopySource {
  const { dataDir, history, newest, log, standing, checkNote, signingKeys, warn } = options;
  const { checkpoint, note } = newest;
  const isSound = ([file, bytes]: Small, onFault?: (message: string) => void) => {
    try {
      checkNote(bytes.toString());
      return true;
    } catch (error) {
      const why = messageOf(error);
      const message = `${file} is not a checkpoint of this log: ${why}`;
      if (onFault === undefined)
        throw new StoreDamaged({ where: file }, `this note is not a checkpoint of this log (${why})`);
      onFault(message);
      return false;
    }
  };
  // Checkpoints that the newest one continues.
  const kept = standing.kept.filter((name) => Number(KEPT.exec(name)?.[1]) <= checkpoint.size);
  return {
    ...{ origin: history.origin, checkpoint, note, log },
    files: new Map([
      ...publicKeys(history),
      ...kept.map((name) => noteFile(dataDir, name)).filter((each) => isSound(each)),
      ...standing.cosigned.filter((each) => isSound(each, warn)),
      ...RECORDS.flatMap((directory) => recordsIn(dataDir, directory)),
      ...notesOf(dataDir),
    ]),
    signingKeys: new Map(signingKeys === undefined ? [] : privateKeys(signingKeys, history)),
    // Up to the last whole line: another process may be writing the next.
    accessLog: () => copiedAccessLog(dataDir),
    copyKeys: (file) => copyKeys(dataDir, file),
    tree: openStore(dataDir).tree,
  };
}

function publicKeys({ first, rotations }: KeyHistory): Small[] {
  const text = (file: string, content: string): Small => [file, Buffer.from(content)];
  return [
    text('checkpoints/origin.vkey', `${first}\n`),
    ...rotations.map((note, i) => text(`checkpoints/rotations/${String(i + 1).padStart(4, '0')}.note`, note)),
  ];
}

function recordsIn(dataDir: string, directory: string): Small[] {
  const there = path.join(dataDir, directory);
  if (!exists(there)) return [];
  const names = fs.readdirSync(there).filter((name) => name.endsWith('.json'));
  return names.map((name): Small => [path.join(directory, name), fs.readFileSync(path.join(there, name))]);
}

/**
 * The notes that keep a collector from starting on a copy of a mirror, which lacks its readings, and on a log
 * that lost events.
 */
function notesOf(dataDir: string): Small[] {
  const [mirror, known] = [readMirrorNote(dataDir), readKnownCheckpoint(dataDir)];
  const notes = {
    'checkpoints/mirror.json': mirror && { ...mirror, forwarded: 0 },
    [KNOWN]: known === undefined ? undefined : { note: known },
  };
  return Object.entries(notes).flatMap(([file, note]): Small[] =>
    note === undefined ? [] : [[file, Buffer.from(`${JSON.stringify(note)}\n`)]],
  );
}

/** The existing private keys of the log: a rotated key is destroyed after its overlap. */
function privateKeys(directory: string, { keys, current }: KeyHistory): Small[] {
  const files = new PrivateKeys(directory);
  return keys
    .filter((key) => key === current || exists(files.pathOf(key)))
    .map((key): Small => {
      files.read(key);
      return [`signing-keys/${keyIdText(key.keyId)}.pem`, fs.readFileSync(files.pathOf(key))];
    });
}

/** @returns false without API keys. */
async function copyKeys(dataDir: string, file: string): Promise<boolean> {
  if (!exists(keyDatabasePath(dataDir))) return false;
  const keys = KeyDatabase.openReadOnly(dataDir);
  try {
    await keys.copyTo(file);
    return true;
  } finally {
    await keys.close();
  }
}
