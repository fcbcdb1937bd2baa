/** A back-up as the source of a restore, including a back-up whose end was cut off. */
import fs from 'node:fs';
import path from 'node:path';
import { parseCheckpoint, parseNote } from '@clinical-events/protocol/verify';
import { exists } from '../files.js';
import { dataDirectory, type Newest, standingNotes } from '../replica/data-directory.js';
import { type CopySource, KNOWN } from '../replica/replica.js';
import { StoreDamaged } from '../store/contract/events.js';
import { copiedLog } from '../store/open-to-copy.js';
import { openStore } from '../store/open-to-read.js';
import { readKnownCheckpoint } from '../tree/state-files.js';
import { checkRegular } from './regular-files.js';
import { checkpointIn, newestCheckpoint } from './verify/log-checkpoints.js';
import { notesElsewhere, notesOfDirectory } from './verify/signed-notes.js';

interface Source {
  readonly source: CopySource;
  /** The number of entries that the largest checkpoint covers, if the back-up holds fewer. */
  readonly cut: number | undefined;
}

/**
 * @returns undefined for a back-up whose end was cut off, if no external checkpoints are given.
 * @throws StoreDamaged, SigningKeyFault or CommandFailure for damage.
 */
export async function backupSource(
  directory: string,
  against: readonly string[],
): Promise<Source | undefined> {
  checkRegular(directory);
  const standing = standingNotes(directory);
  const found = await newestCheckpoint(directory, openStore(directory).tree);
  const log = copiedLog(directory, { signed: undefined, agreed: 0 });
  if (found === undefined || log === undefined)
    throw new StoreDamaged({ where: directory }, 'a log, or the checkpoint of it, is missing');
  const { history } = found;
  const { entries } = log;
  const isCut = entries < found.newest.checkpoint.size;
  if (isCut && (entries === 0 || !log.endsWhole))
    throw new StoreDamaged({ where: directory, sequence: entries + 1 }, 'the log ends too early');
  if (isCut && against.length === 0) return undefined;
  const newest = isCut ? newestUpTo(entries, directory, against, history) : found.newest;
  const keys = path.join(directory, 'signing-keys');
  const source = dataDirectory({
    ...{ dataDir: directory, history, newest, log, standing },
    checkNote: (note) => void checkpointIn(note, history),
    signingKeys: exists(keys) ? keys : undefined,
  });
  // This note is written once the copy is verified.
  const files = new Map([...source.files].filter(([name]) => name !== KNOWN));
  const known = sizeIn(readKnownCheckpoint(directory) ?? '') ?? 0;
  const size = Math.max(found.newest.checkpoint.size, known);
  return { source: { ...source, files }, cut: size > entries ? size : undefined };
}

/** The largest checkpoint over at most `entries` entries, from the back-up or given. @throws StoreDamaged */
function newestUpTo(
  entries: number,
  directory: string,
  against: readonly string[],
  history: Parameters<typeof checkpointIn>[1],
): Newest {
  let newest: Newest | undefined;
  for (const note of notesAt(directory, against)) {
    const size = sizeIn(note);
    if (size === undefined || size > entries || size <= (newest?.checkpoint.size ?? -1)) continue;
    try {
      newest = { note, checkpoint: checkpointIn(note, history) };
    } catch {
      // Reported when the copy is verified.
    }
  }
  if (newest === undefined)
    throw new StoreDamaged(
      { where: directory, sequence: entries + 1 },
      'the log ends before its first checkpoint',
    );
  return newest;
}

function* notesAt(directory: string, against: readonly string[]): Generator<string> {
  const newest = path.join(directory, 'checkpoints/latest');
  const known = readKnownCheckpoint(directory);
  if (known !== undefined) yield known;
  const latest = exists(newest) ? fs.readFileSync(newest, 'utf8') : undefined;
  for (const { note } of notesOfDirectory(directory, latest)) yield note;
  for (const path of against) for (const { note } of notesElsewhere(path, () => undefined)) yield note;
}

/** The size that a note states, unverified. */
function sizeIn(note: string): number | undefined {
  try {
    return parseCheckpoint(parseNote(note).text).size;
  } catch {
    return undefined;
  }
}

/** The note of a checkpoint over `size` entries. A log with contradicting checkpoints is never restored. */
export function noteOver(size: number, directory: string, against: readonly string[]): string {
  for (const note of notesAt(directory, against)) if (sizeIn(note) === size) return note;
  throw new Error(`the checkpoint over ${size} entries is gone`);
}
