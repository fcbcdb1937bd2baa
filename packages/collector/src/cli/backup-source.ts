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
import type { BackedUpFile, BackedUpLog } from '../backup/backed-up-log.js';
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
  /** Told of what is left out because it is not sound, and can be done without. */
  readonly warn: (message: string) => void;
}

/**
 * What is there now. On return all of it is on stable storage.
 * @throws CommandFailure, StoreDamaged, SigningKeyFault
 */
export async function backedUpLog({ dataDir, signingKeys, warn }: BackupSourceOptions): Promise<BackedUpLog> {
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
  const log = copiedLog(dataDir, checkpoint.size);
  if (log === undefined) throw new CommandFailure(`${dataDir} holds no log`, EXIT.notFound);
  return {
    ...log,
    ...{ origin: history.origin, checkpoint, note: newest.note },
    cosigned: Object.fromEntries(
      cosigned.filter(([name, note]) => isOfLog(note, history, (why) => warn(`checkpoints/${name} ${why}`))),
    ),
    files: [...publicKeys(history), ...keptCheckpoints(dataDir, names, history, checkpoint.size)],
    signingKeys: signingKeys === undefined ? [] : privateKeys(signingKeys, history),
    accessLog: () => accessLog(dataDir),
    copyKeys: (file) => copyKeys(dataDir, file),
  };
}

function publicKeys({ first, rotations }: KeyHistory): BackedUpFile[] {
  const text = (file: string, content: string) => ({ file, read: () => Buffer.from(content) });
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
): BackedUpFile[] {
  return names
    .filter((name) => Number(KEPT.exec(name)?.[1] ?? Infinity) <= size)
    .map((name) => {
      const file = `checkpoints/${name}`;
      const read = () => {
        const note = textOf(dataDir, file);
        isOfLog(note, history, (why) => {
          throw new CommandFailure(`${file} ${why}; see collector verify`, EXIT.damaged);
        });
        return Buffer.from(note);
      };
      return { file, read };
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
function privateKeys(directory: string, { keys, current }: KeyHistory): BackedUpFile[] {
  const files = new PrivateKeys(directory);
  return keys
    .filter((key) => key === current || exists(files.pathOf(key)))
    .map((key) => {
      files.read(key);
      return {
        file: `signing-keys/${keyIdText(key.keyId)}.pem`,
        read: () => fs.readFileSync(files.pathOf(key)),
      };
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

function textOf(dataDir: string, file: string): string {
  return fs.readFileSync(path.join(dataDir, file), 'utf8');
}
