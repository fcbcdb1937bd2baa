/**
 * A data directory as it is backed up, beside a running collector or without one. Nothing is changed in it.
 *
 * Things are read in the order that keeps them consistent: cosigned and kept checkpoints, the newest one, the keys (a
 * rotation is noted before its key signs), and then the log, which by then holds what all of these speak of. The log is
 * taken as far as it can be read, behind the newest checkpoint too: these events may have been acknowledged.
 */
import fs from 'node:fs';
import path from 'node:path';
import { keyIdText } from '@clinical-events/protocol/verify';
import type { BackedUpLog } from '../backup/backup.js';
import { exists } from '../files.js';
import type { KeyHistory } from '../transparency/key-history.js';
import { PrivateKeys } from '../transparency/private-keys.js';
import {
  copiedAccessLog,
  checkpointDirectory,
  copiedLog,
  KeyDatabase,
  keyDatabasePath,
  openStore,
} from '../store/open.js';
import { AccessLogUnfit } from '../store/access-log-store.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { checkpointIn, newestCheckpoint } from './log-checkpoints.js';
import { checkRegular } from './regular-files.js';

const KEPT = /^(\d{16})\.checkpoint$/;
const COSIGNED = /^cosigned-[0-9a-f]{8}$/;

export interface BackupSourceOptions {
  readonly dataDir: string;
  /** Directory of the private keys that are to be copied too; undefined when they are not. */
  readonly signingKeys: string | undefined;
  /** How many entries the newest checkpoint of the back-up covers; 0 when there is none yet. */
  readonly agreed: number;
  /** Told of what is left out because it is not sound, and can be done without. */
  readonly warn: (message: string) => void;
}

/**
 * What is there now. On return all of it is on stable storage.
 * @throws CommandFailure, StoreDamaged, SigningKeyFault
 */
export async function backedUpLog(options: BackupSourceOptions): Promise<BackedUpLog> {
  const { dataDir, signingKeys, agreed, warn } = options;
  checkRegular(dataDir);
  const directory = checkpointDirectory(dataDir);
  const names = exists(directory) ? fs.readdirSync(directory).sort() : [];
  const cosigned = names
    .filter((name) => COSIGNED.test(name))
    .map((name) => [name, textOf(dataDir, `checkpoints/${name}`)] as const);
  const found = await newestCheckpoint(dataDir, openStore(dataDir).tree);
  if (found === undefined) {
    throw new CommandFailure(
      `nothing is signed in ${dataDir} yet: the next start of a collector signs a checkpoint`,
      EXIT.failure,
    );
  }
  const { history, newest } = found;
  const { checkpoint } = newest;
  const log = copiedLog(dataDir, checkpoint.size, Math.min(agreed, checkpoint.size));
  if (log === undefined) throw new CommandFailure(`${dataDir} holds no log`, EXIT.notFound);
  const sound = cosigned.filter(([name, note]) =>
    isOfLog(note, history, (why) => warn(`checkpoints/${name} ${why}`)),
  );
  const small = sound.map(([name, note]): Small => [`checkpoints/${name}`, Buffer.from(note)]);
  return {
    ...{ origin: history.origin, checkpoint, note: newest.note, log },
    files: new Map([
      ...publicKeys(history),
      ...keptCheckpoints(dataDir, names, history, checkpoint.size),
      ...small,
    ]),
    signingKeys: new Map(signingKeys === undefined ? [] : privateKeys(signingKeys, history)),
    accessLog: () => accessLog(dataDir),
    copyKeys: (file) => copyKeys(dataDir, file),
  };
}

/** A small file by its name in the data directory. */
type Small = readonly [file: string, bytes: Buffer];

function publicKeys({ first, rotations }: KeyHistory): Small[] {
  const text = (file: string, content: string): Small => [file, Buffer.from(content)];
  return [
    text('checkpoints/origin.vkey', `${first}\n`),
    ...rotations.map((note, i) => text(`checkpoints/rotations/${String(i + 1).padStart(4, '0')}.note`, note)),
  ];
}

/** Those that the newest one goes on from. */
function keptCheckpoints(
  dataDir: string,
  names: readonly string[],
  history: KeyHistory,
  size: number,
): Small[] {
  return names
    .filter((name) => Number(KEPT.exec(name)?.[1] ?? Infinity) <= size)
    .map((name): Small => {
      const file = `checkpoints/${name}`;
      const note = textOf(dataDir, file);
      isOfLog(note, history, (why) => {
        throw new CommandFailure(`${file} ${why}; see collector verify`, EXIT.damaged);
      });
      return [file, Buffer.from(note)];
    });
}

function isOfLog(note: string, history: KeyHistory, refuse: (why: string) => void): boolean {
  try {
    checkpointIn(note, history);
    return true;
  } catch (error) {
    refuse(`is not a checkpoint of this log: ${error instanceof Error ? error.message : String(error)}`);
    return false;
  }
}

/** Of all keys that the log has had, those that are there: a key that was rotated is destroyed some time. */
function privateKeys(directory: string, { keys, current }: KeyHistory): Small[] {
  const files = new PrivateKeys(directory);
  return keys
    .filter((key) => key === current || exists(files.pathOf(key)))
    .map((key): Small => {
      files.read(key);
      return [`signing-keys/${keyIdText(key.keyId)}.pem`, fs.readFileSync(files.pathOf(key))];
    });
}

/** Up to the last line that is whole: another process may be writing behind that. */
function accessLog(dataDir: string): ReturnType<BackedUpLog['accessLog']> {
  try {
    return copiedAccessLog(dataDir);
  } catch (error) {
    if (!(error instanceof AccessLogUnfit)) throw error;
    throw new CommandFailure('access.log is no regular file, and was not opened', EXIT.damaged, {
      cause: error,
    });
  }
}

/** @returns false when there are none. */
export async function copyKeys(dataDir: string, file: string): Promise<boolean> {
  if (!exists(keyDatabasePath(dataDir))) return false;
  const keys = KeyDatabase.openReadOnly(dataDir);
  try {
    await keys.copyTo(file);
    return true;
  } finally {
    await keys.close();
  }
}

function textOf(dataDir: string, file: string): string {
  return fs.readFileSync(path.join(dataDir, file), 'utf8');
}
