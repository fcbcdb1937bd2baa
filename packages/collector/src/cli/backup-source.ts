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
import type { KeyHistory } from '../signing/key-history.js';
import { PrivateKeys } from '../signing/private-keys.js';
import { AccessLogFile } from '../store/embedded/access-log-file.js';
import { EventReader } from '../store/embedded/event-reader.js';
import { exists, nodeFiles } from '../store/embedded/files.js';
import { frameIsOwn, frameReceivedAt } from '../store/embedded/frame.js';
import { KeyDatabase, keyDatabasePath } from '../store/embedded/key-database.js';
import { segmentPieces } from '../store/embedded/segment-pieces.js';
import type { SegmentEnd } from '../store/embedded/segment-reader.js';
import { listSegments, SEGMENT_HEADER_BYTES, type Segment } from '../store/embedded/segment.js';
import { checkpointDirectory, TreeFiles } from '../store/embedded/tree-files.js';
import { AccessLogUnfit } from '../store/access-log-store.js';
import { StoreDamaged } from '../store/store.js';
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
  const found = await newestCheckpoint(dataDir, TreeFiles.read(dataDir, nodeFiles));
  if (found === undefined) {
    throw new CommandFailure(
      `nothing is signed in ${dataDir} yet: the next start of a collector signs a checkpoint`,
      EXIT.failure,
    );
  }
  const { history, newest } = found;
  const { checkpoint } = newest;
  const segments = listSegments(nodeFiles, path.join(dataDir, 'ledger'));
  const { end, own, lastReceivedAt } = endOf(dataDir, segments, checkpoint.size);
  return {
    ...{ ledgerId: segments[0]?.ledgerId ?? '', origin: history.origin, checkpoint, note: newest.note },
    ...{ events: end.nextSequence - 1 - own, entries: end.nextSequence - 1, lastReceivedAt },
    cosigned: Object.fromEntries(
      cosigned.filter(([name, note]) => isOfLog(note, history, (why) => warn(`checkpoints/${name} ${why}`))),
    ),
    segments: segments.map((segment, i) => {
      const next = segments[i + 1];
      const until = next?.base ?? end.address;
      return {
        file: `ledger/${path.basename(segment.path)}`,
        bytes: until - segment.base + SEGMENT_HEADER_BYTES,
        pieces: () => segmentPieces(nodeFiles, segment, next, until),
      };
    }),
    files: [...publicKeys(history), ...keptCheckpoints(dataDir, names, history, checkpoint.size)],
    signingKeys: signingKeys === undefined ? [] : privateKeys(signingKeys, history),
    accessLog: () => accessLog(new AccessLogFile(dataDir)),
    copyKeys: (file) => copyKeys(dataDir, file),
  };
}

/**
 * How far the log can be read. It is read once more when it is copied, so that a batch that a failed write took back in
 * between is noticed.
 */
function endOf(
  dataDir: string,
  segments: readonly Segment[],
  signed: number,
): { end: SegmentEnd; own: number; lastReceivedAt: number | undefined } {
  const reader = new EventReader(dataDir, nodeFiles);
  const last = segments.at(-1);
  if (last === undefined) throw new CommandFailure(`${dataDir} holds no log`, EXIT.notFound);
  let lastReceivedAt: number | undefined;
  // A last segment that has just been begun is empty.
  const newest = segments.slice(-2);
  let own = newest[0]?.ownBefore ?? 0;
  const frames = reader.frames(newest);
  let next = frames.next();
  for (; !next.done; next = frames.next()) {
    const { buffer, offset } = next.value;
    if (frameIsOwn(buffer, offset)) own++;
    else lastReceivedAt = frameReceivedAt(buffer, offset);
  }
  const end = next.value;
  if (end.nextSequence <= signed) {
    throw new StoreDamaged(
      { file: path.basename(last.path), offset: end.offset, sequence: end.nextSequence },
      `the log ends, but a checkpoint was signed over ${signed} entries,`,
    );
  }
  // A batch that was written may not be on stable storage yet. If a power loss took it from the log, a back-up that holds
  // it would be of another log from there on.
  const fd = nodeFiles.open(last.path, 'r');
  try {
    nodeFiles.datasync(fd);
  } finally {
    nodeFiles.close(fd);
  }
  return { end, own, lastReceivedAt };
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
function accessLog(file: AccessLogFile): ReturnType<BackedUpLog['accessLog']> {
  try {
    return file.copy();
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
