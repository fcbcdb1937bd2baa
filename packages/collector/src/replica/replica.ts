/**
 * A copy of a log: a data directory without derived files, and without private keys unless they are
 * requested.
 *
 * The order of a round keeps the copy complete at any interruption. The access log comes first, because heads
 * in the log name its lines. Then come segments, keys and older checkpoints, and the newest checkpoint last.
 */
import fs from 'node:fs';
import path from 'node:path';
import { parseCheckpoint, parseNote, type Checkpoint } from '@clinical-events/protocol/verify';
import { exists, nodeFiles } from '../files.js';
import { LogDiffers, type Copied, type LogCopy, type Progress } from '../store/contract/copy.js';
import type { TreeReader } from '../store/contract/tree.js';
import { ProvenTree, treeUpTo } from './proven-tree.js';
import { Unusable } from '../unusable.js';

const FORMAT = 'clinical-events/backup/v1';

/** `backup.json`: the log of the back-up, and the state of its last completed round. */
export interface BackupState {
  readonly format: typeof FORMAT;
  readonly origin: string;
  readonly ledger_id: string;
  /**
   * Start of the last completed round; null before the first. The copy has all events that were acknowledged
   * before it.
   */
  readonly at: string | null;
  readonly events: number;
  readonly entries: number;
  readonly signed_entries: number;
  readonly last_received_at: string | null;
  /** The segment that the log was growing; the earlier ones are complete. */
  readonly growing: string | null;
}

/** The source of a copy (data-directory.ts). */
export interface CopySource {
  readonly origin: string;
  /** Determines how many entries the copy must have. */
  readonly checkpoint: Checkpoint;
  /** The checkpoint as a signed note. */
  readonly note: string;
  /** Small files by their names in the data directory: public keys, kept and cosigned checkpoints. */
  readonly files: ReadonlyMap<string, Buffer>;
  /** Private keys; empty unless they were requested. */
  readonly signingKeys: ReadonlyMap<string, Buffer>;
  readonly log: LogCopy;
  /** The files of the access log up to their last whole lines. Read them after `log` was examined. */
  accessLog(): readonly {
    readonly file: string;
    readonly bytes: number;
    readonly pieces: () => Generator<Uint8Array>;
  }[];
  /** @returns false without API keys. */
  copyKeys(file: string): Promise<boolean>;
  /** Hashes of the log, which are not trusted. */
  readonly tree: TreeReader;
}

interface CopiedAll extends Copied {
  /** The new names of the files of the copy's own access log that the source's do not continue. */
  readonly accessLogKept: readonly string[];
}

export interface Round extends CopiedAll {
  readonly state: BackupState;
}

const STATE = 'backup.json';
const LATEST = 'checkpoints/latest';
/** A checkpoint that the log must reach before a collector starts on it (tree/state-files.ts). */
export const KNOWN = 'checkpoints/known.json';
const FRESH = ['lost+found', 'lock'];

/**
 * @returns undefined if the directory is new or empty.
 * @throws Unusable
 */
export function readState(directory: string): BackupState | undefined {
  if (!exists(directory)) return undefined;
  if (!fs.statSync(directory).isDirectory()) throw new Unusable(`${directory} is not a directory`);
  if (!exists(path.join(directory, STATE))) {
    const other = nodeFiles.list(directory).find((name) => !FRESH.includes(name));
    if (other === undefined) return undefined;
    throw new Unusable(`${directory} holds ${other}, and is not a back-up of a log`);
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
  throw new Unusable(`${file} is not of the format ${FORMAT}, which is the only one that is read`);
}

const MOST_STATE_BYTES = 1 << 16;

function isState(value: unknown): value is BackupState {
  if (typeof value !== 'object' || value === null) return false;
  const state = value as Record<keyof BackupState, unknown>;
  const isTextOrNull = (each: unknown) => each === null || typeof each === 'string';
  const { at, last_received_at, growing } = state;
  return (
    state.format === FORMAT &&
    [state.origin, state.ledger_id].every((each) => typeof each === 'string') &&
    [at, last_received_at, growing].every(isTextOrNull) &&
    [state.events, state.entries, state.signed_entries].every(Number.isSafeInteger)
  );
}

/** A link in a back-up could redirect writes to the log itself, or reads to other files. */
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
 * The newest checkpoint of the back-up, without verification; undefined if there is none.
 * @throws LogDiffers if it cannot be read.
 */
export function checkpointThere(directory: string): Checkpoint | undefined {
  const file = path.join(directory, LATEST);
  if (!exists(file)) return undefined;
  try {
    return parseCheckpoint(parseNote(fs.readFileSync(file, 'utf8')).text);
  } catch (error) {
    throw new LogDiffers(`its ${LATEST} is not a checkpoint`, { cause: error });
  }
}

/**
 * Checks the back-up, and writes nothing.
 * @throws Unusable for the back-up of another log; LogDiffers if it has more entries than the log, or
 *   different ones.
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
    throw new LogDiffers(`it is signed over ${size} entries, and the back-up over ${there.size}`);
  }
  if (there.size === size && !Buffer.from(there.root).equals(Buffer.from(root))) {
    throw new LogDiffers(`the back-up has another checkpoint over ${size} entries`);
  }
}

/**
 * One round of a back-up. On return the directory durably has the whole log; after an interruption its
 * previous state is complete. The caller holds its lock.
 * @param at start of the round.
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
 * On return `directory` durably has the contents of the source. See {@link backUp}.
 * @throws StoreDamaged before any write, if the source does not have the root of its checkpoint.
 * @param options.grewIn `growing` of the last completed round: earlier segments are complete.
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
  // The tree is compared first, so that a log that differs from the signed one is never copied.
  const tree = await treeUpTo(source.tree, checkpointThere(directory)).finally(() => source.tree.close());
  await new ProvenTree(tree, (from) => source.log.leaves(from)).prove(source.checkpoint);
  nodeFiles.makeDirectory(directory);
  // A closed file that was moved away from the source stays in the copy.
  const accessLogKept = source.accessLog().flatMap((file) => copyAccessLog(directory, file, at) ?? []);
  const copied = source.log.copyTo(directory, grewIn, onProgress);
  for (const [file, bytes] of source.files) await put(directory, file, bytes);
  await copyPrivate(directory, source);
  await put(directory, LATEST, Buffer.from(source.note));
  return { ...copied, accessLogKept };
}

function newState({ origin, log }: CopySource): BackupState {
  return {
    ...{ format: FORMAT, origin, ledger_id: log.ledgerId, at: null, events: 0, entries: 0 },
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

/**
 * On return no collector starts on the directory. @param note of a checkpoint that its log does not reach.
 */
export async function noteKnown(directory: string, note: string): Promise<void> {
  await put(directory, KNOWN, Buffer.from(`${JSON.stringify({ note })}\n`));
}

/** Writes a file atomically and durably. */
async function put(directory: string, file: string, bytes: Buffer): Promise<void> {
  const target = path.join(directory, file);
  if (exists(target) && fs.readFileSync(target).equals(bytes)) return;
  nodeFiles.makeDirectory(path.dirname(target));
  await nodeFiles.replace(target, bytes);
}

/**
 * A line has a random id, so the source continues the copy if the last whole line of the copy has the same
 * position there. The lines before it stay as they were copied; `verify` compares them with the heads.
 * @returns the file that keeps the copy's own log, if it is not a prefix.
 */
function copyAccessLog(directory: string, log: AccessLog, at: string): string | undefined {
  const file = path.join(directory, log.file);
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

type AccessLog = ReturnType<CopySource['accessLog']>[number];

interface WholeLines {
  /** Offset after the last line feed. */
  readonly end: number;
  /** The end of the file, with at least the last whole line. */
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
