/**
 * A copy of a log: a data directory without what is derived, and without private keys unless they are asked for.
 *
 * The order of a round keeps the directory whole wherever the round ends. First the access log: the heads in the log
 * name lines that are there by then. Then segments, keys and older checkpoints, and the newest checkpoint last.
 */
import fs from 'node:fs';
import path from 'node:path';
import { parseCheckpoint, parseNote, type Checkpoint } from '@clinical-events/protocol/verify';
import { exists, nodeFiles } from '../files.js';
import { LogDiffers, type Copied, type LogCopy, type Progress } from '../store/contract/copy.js';
import type { TreeReader } from '../store/contract/tree.js';
import { ProvenTree, treeUpTo } from './proven-tree.js';
import { Unusable } from '../unusable.js';

/** `backup.json`: which log the back-up is of, and what its last completed round holds. */
export interface BackupState {
  readonly backup: 2;
  readonly origin: string;
  readonly ledger_id: string;
  /** When the last completed round began; null before the first. What was acknowledged by then is in the copy. */
  readonly at: string | null;
  readonly events: number;
  readonly entries: number;
  readonly signed_entries: number;
  readonly last_received_at: string | null;
  /** The segment that the log grew in then: those before it are whole. */
  readonly growing: string | null;
}

/** What is copied (data-directory.ts). */
export interface CopySource {
  readonly origin: string;
  /** It fixes how much has to be there. */
  readonly checkpoint: Checkpoint;
  /** The same, signed. */
  readonly note: string;
  /** Small files by their names in the data directory: public keys, kept and cosigned checkpoints. */
  readonly files: ReadonlyMap<string, Buffer>;
  /** Private keys; none unless they were asked for. */
  readonly signingKeys: ReadonlyMap<string, Buffer>;
  readonly log: LogCopy;
  /** The access log up to its last whole line; undefined without one. To be read after `log` was looked at. */
  accessLog(): { readonly bytes: number; readonly pieces: () => Generator<Uint8Array> } | undefined;
  /** @returns false when there are no API keys. */
  copyKeys(file: string): Promise<boolean>;
  /** Hashes of the log, of which nothing is believed. */
  readonly tree: TreeReader;
}

interface CopiedAll extends Copied {
  /** Where the copy's access log is kept, if the source's does not continue it. */
  readonly accessLogKept: string | undefined;
}

export interface Round extends CopiedAll {
  readonly state: BackupState;
}

const STATE = 'backup.json';
const LATEST = 'checkpoints/latest';
/** A checkpoint that the log has to reach before a collector starts on it (tree/state-files.ts). */
export const KNOWN = 'checkpoints/known.json';
const FRESH = ['lost+found', 'lock'];

/**
 * @returns undefined when the directory is new or empty.
 * @throws Unusable
 */
export function readState(directory: string): BackupState | undefined {
  if (!exists(directory)) return undefined;
  if (!fs.statSync(directory).isDirectory()) throw new Unusable(`${directory} is not a directory`);
  if (!exists(path.join(directory, STATE))) {
    const other = nodeFiles.list(directory).find((name) => !FRESH.includes(name));
    if (other === undefined) return undefined;
    throw new Unusable(`${directory} holds ${other}, and is no back-up of a log`);
  }
  assertNoLinks(directory);
  const file = path.join(directory, STATE);
  let value: unknown;
  try {
    if (fs.statSync(file).size > MOST_STATE_BYTES) throw new Error('it is too long');
    value = JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch (error) {
    throw new Unusable(`${file} cannot be read`, { cause: error });
  }
  if (isState(value)) return value;
  throw new Unusable(`${file} was not written by this version of the collector: give a new directory`);
}

const MOST_STATE_BYTES = 1 << 16;

function isState(value: unknown): value is BackupState {
  if (typeof value !== 'object' || value === null) return false;
  const { backup, origin, ledger_id: id, at, growing } = value as Record<string, unknown>;
  const isTextOrNull = (each: unknown) => each === null || typeof each === 'string';
  return (
    backup === 2 &&
    typeof origin === 'string' &&
    typeof id === 'string' &&
    isTextOrNull(at) &&
    isTextOrNull(growing)
  );
}

/** A link in a back-up could have the log itself written over, or be vouched for with bytes from elsewhere. */
export function assertNoLinks(directory: string): void {
  for (const entry of fs.readdirSync(directory, { withFileTypes: true })) {
    const file = path.join(directory, entry.name);
    if (entry.isDirectory()) {
      if (entry.name !== 'lost+found') assertNoLinks(file);
    } else if (!entry.isFile()) {
      throw new Unusable(`${file} is neither a file nor a directory, and was not opened`);
    }
  }
}

/**
 * The newest checkpoint of the back-up, of which nothing is verified; undefined when there is none yet.
 * @throws LogDiffers when it cannot be read.
 */
export function checkpointThere(directory: string): Checkpoint | undefined {
  const file = path.join(directory, LATEST);
  if (!exists(file)) return undefined;
  try {
    return parseCheckpoint(parseNote(fs.readFileSync(file, 'utf8')).text);
  } catch (error) {
    throw new LogDiffers(`${LATEST} there is no checkpoint`, { cause: error });
  }
}

/**
 * Writes nothing.
 * @throws Unusable for the back-up of another log; LogDiffers if it holds more than the log, or something else.
 */
export function assertContinues(directory: string, source: CopySource): void {
  const state = readState(directory);
  const there = checkpointThere(directory);
  if (state !== undefined && state.origin !== source.origin) {
    throw new Unusable(`${directory} holds the back-up of another log, ${state.origin}`);
  }
  if (state !== undefined && state.ledger_id !== source.log.ledgerId) {
    throw new LogDiffers('it has another ledger id');
  }
  const { size, root } = source.checkpoint;
  if (there === undefined) return;
  if (there.size > size) {
    throw new LogDiffers(`it is signed over ${size} entries, and what is there over ${there.size}`);
  }
  if (there.size === size && !Buffer.from(there.root).equals(Buffer.from(root))) {
    throw new LogDiffers(`another checkpoint over ${size} entries is there`);
  }
}

/**
 * One round of a back-up. On return the directory holds all of the log, on stable storage; if the round ends before,
 * what the directory held is whole. The caller holds its lock.
 * @param at when the round began.
 */
export async function backUp(
  directory: string,
  source: CopySource,
  at: string,
  onProgress: Progress,
): Promise<Round> {
  assertContinues(directory, source);
  const before = readState(directory) ?? newState(source);
  if (before.at === null) await put(directory, STATE, stateBytes(before));
  const copied = await copyAll(directory, source, { at, grewIn: before.growing ?? undefined, onProgress });
  const { events, entries, lastReceivedAt, growing } = source.log;
  const state: BackupState = {
    ...{ ...before, at, events, entries, growing },
    signed_entries: source.checkpoint.size,
    last_received_at: lastReceivedAt === undefined ? null : new Date(lastReceivedAt).toISOString(),
  };
  await put(directory, STATE, stateBytes(state));
  return { ...copied, state };
}

/**
 * On return `directory` holds what the source has, on stable storage. See {@link backUp}.
 * @throws StoreDamaged before anything is written, if the source does not come to the root of its checkpoint.
 * @param options.grewIn `growing` of the last completed round there: segments before it are whole.
 */
export async function copyAll(
  directory: string,
  source: CopySource,
  {
    at,
    grewIn,
    onProgress,
  }: { readonly at: string; readonly grewIn?: string | undefined; readonly onProgress: Progress },
): Promise<CopiedAll> {
  // First, so that nothing is copied of a log that is not the one that was signed.
  const tree = await treeUpTo(source.tree, checkpointThere(directory)).finally(() => source.tree.close());
  await new ProvenTree(tree, (from) => source.log.leaves(from)).prove(source.checkpoint);
  nodeFiles.makeDirectory(directory);
  const accessLogKept = copyAccessLog(directory, source.accessLog(), at);
  const copied = source.log.copyTo(directory, grewIn, onProgress);
  for (const [file, bytes] of source.files) await put(directory, file, bytes);
  await copyPrivate(directory, source);
  await put(directory, LATEST, Buffer.from(source.note));
  return { ...copied, accessLogKept };
}

function newState({ origin, log }: CopySource): BackupState {
  return {
    ...{ backup: 2, origin, ledger_id: log.ledgerId, at: null, events: 0, entries: 0 },
    ...{ signed_entries: 0, last_received_at: null, growing: null },
  };
}

function stateBytes(state: BackupState): Buffer {
  return Buffer.from(`${JSON.stringify(state, undefined, 2)}\n`);
}

async function copyPrivate(directory: string, source: CopySource): Promise<void> {
  const draft = path.join(directory, 'keys.draft');
  nodeFiles.remove(draft);
  if (await source.copyKeys(draft)) {
    nodeFiles.rename(draft, path.join(directory, 'keys.db'));
    nodeFiles.syncDirectory(directory);
  }
  for (const [file, bytes] of source.signingKeys) await put(directory, file, bytes);
}

/** On return no collector starts on the directory. @param note of a checkpoint that its log does not reach. */
export async function noteKnown(directory: string, note: string): Promise<void> {
  await put(directory, KNOWN, Buffer.from(`${JSON.stringify({ note })}\n`));
}

/** Whole and on stable storage, or as it was. */
async function put(directory: string, file: string, bytes: Buffer): Promise<void> {
  const target = path.join(directory, file);
  if (exists(target) && fs.readFileSync(target).equals(bytes)) return;
  nodeFiles.makeDirectory(path.dirname(target));
  await nodeFiles.replace(target, bytes);
}

/**
 * Each line holds the hash of the one before. So the copy's access log is a beginning of the source's if its last whole
 * line stands at the same place there.
 * @returns where the copy's own is kept, if it is not.
 */
function copyAccessLog(directory: string, log: AccessLog | undefined, at: string): string | undefined {
  if (log === undefined) return undefined;
  const file = path.join(directory, 'access.log');
  if (!exists(file)) {
    fill(file, log, 0);
    return undefined;
  }
  const held = wholeLines(file);
  if (held.end <= log.bytes && held.last.equals(tailOf(log, held))) {
    fill(file, log, held.end);
    return undefined;
  }
  const kept = `${file}.until-${at.replaceAll(':', '')}`;
  const draft = `${file}.draft`;
  nodeFiles.remove(draft);
  fill(draft, log, 0);
  if (!exists(kept)) fs.linkSync(file, kept);
  nodeFiles.rename(draft, file);
  nodeFiles.syncDirectory(directory);
  return kept;
}

type AccessLog = NonNullable<ReturnType<CopySource['accessLog']>>;

interface WholeLines {
  /** After the last line feed. */
  readonly end: number;
  /** The end of what is there, the last whole line at least. */
  readonly last: Buffer;
}

function wholeLines(file: string): WholeLines {
  const bytes = fs.readFileSync(file);
  const end = bytes.lastIndexOf(0x0a) + 1;
  const begin = end === 0 ? 0 : bytes.lastIndexOf(0x0a, end - 2) + 1;
  return { end, last: bytes.subarray(begin, end) };
}

function tailOf(log: AccessLog, { end, last }: WholeLines): Buffer {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const piece of log.pieces()) {
    const [first, behind] = [Math.max(0, end - last.length - at), Math.min(piece.length, end - at)];
    if (first < behind) pieces.push(Buffer.from(piece.subarray(first, behind)));
    if ((at += piece.length) >= end) break;
  }
  return Buffer.concat(pieces);
}

function fill(file: string, log: AccessLog, from: number): void {
  const fd = nodeFiles.open(file, exists(file) ? 'r+' : 'wx+');
  try {
    let at = 0;
    for (const piece of log.pieces()) {
      const rest = piece.subarray(Math.max(0, from - at));
      if (rest.length > 0) nodeFiles.write(fd, rest, rest.length, at + piece.length - rest.length);
      at += piece.length;
    }
    nodeFiles.truncate(fd, at);
    nodeFiles.datasync(fd);
  } finally {
    nodeFiles.close(fd);
  }
  nodeFiles.syncDirectory(path.dirname(file));
}
