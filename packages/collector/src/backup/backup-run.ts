/** One run of `collector backup`: brings a directory of back-ups up to what the log is now. */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { BackupDamaged, LogDiffers } from './backup-fault.js';
import type { BackupWriter } from './backup-writer.js';
import type { BackedUpFile, BackedUpLog } from './backed-up-log.js';
import { FORMAT, VERSION, type Manifest, type Noted } from './manifest.js';

export interface RunOptions {
  /** Milliseconds since 1970 UTC. */
  readonly now: number;
  readonly tool: string;
  /** Bytes of the log that are done, and of how many. */
  readonly onProgress: (bytes: number, of: number) => void;
}

export interface RunResult {
  /** The name of the manifest, and what it says. */
  readonly name: string;
  readonly manifest: Manifest;
  /** Whole segments that were copied, and those that were there. */
  readonly copied: number;
  readonly there: number;
  /** True when the access log was begun anew since the last run. */
  readonly accessLogBegunAnew: boolean;
}

/**
 * On return the back-up is there. After an error, or a kill, those before it are whole, and the next run goes on.
 * @throws BackupDamaged, LogDiffers; StoreDamaged when the log is.
 */
export async function backUp(
  log: BackedUpLog,
  writer: BackupWriter,
  { now, tool, onProgress }: RunOptions,
): Promise<RunResult> {
  assertGoesOn(log, writer.newest);
  const last = log.segments.at(-1);
  if (last === undefined) throw new Error('the log has no segment');
  const sealed = log.segments.slice(0, -1);
  const of = log.segments.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const onBytes = (bytes: number) => onProgress((done += bytes), of);

  let copied = 0;
  for (const { file, bytes, pieces } of sealed) {
    if (isThere(writer, file, bytes)) {
      onBytes(bytes);
      continue;
    }
    const { sha256 } = writer.grow(file, pieces(), onBytes);
    writer.add([{ file, sha256 }]);
    copied++;
  }
  putUnchanging(writer, log.files);
  putUnchanging(writer, log.signingKeys);
  const keys = await copyKeys(log, writer);
  const segment = noteOf(last.file, writer.grow(last.file, last.pieces(), onBytes));
  const { accessLog, begunAnew } = copyAccessLog(log, writer);
  const manifest: Manifest = {
    ...{ format: FORMAT, version: VERSION, tool, time: new Date(now).toISOString() },
    ...{ ledger_id: log.ledgerId, origin: log.origin },
    ...{ events: log.events, entries: log.entries, signed_entries: log.checkpoint.size },
    root: Buffer.from(log.checkpoint.root).toString('base64'),
    last_received_at: log.lastReceivedAt === undefined ? null : new Date(log.lastReceivedAt).toISOString(),
    ...{ checkpoint: log.note, cosigned: log.cosigned },
    ...{ catalogue: writer.noteCatalogue(), segment, access_log: accessLog, keys },
    signing_keys: log.signingKeys.map(({ file }) => file),
  };
  const name = writer.finish(manifest);
  return { name, manifest, copied, there: sealed.length - copied, accessLogBegunAnew: begunAnew };
}

/**
 * An older copy of the log, or one that was put back and went on, must not get among the back-ups of the one that was
 * here. That the last segment goes on from what was backed up of it is seen when it is copied; a log that parted before
 * that has no such segment, because its events have other salts and so other bytes.
 */
function assertGoesOn({ entries, segments }: BackedUpLog, newest: Manifest | undefined): void {
  if (newest === undefined) return;
  if (entries < newest.entries) {
    throw new LogDiffers(
      `it holds ${entries} entries, and ${newest.entries} were backed up before: it was cut short, or is an older copy`,
    );
  }
  const { file } = newest.segment;
  if (segments.some((segment) => segment.file === file)) return;
  throw new LogDiffers(`it has no ${file}, and a part of that was backed up before`);
}

/** A whole segment is not read again: `--check` does that. */
function isThere(writer: BackupWriter, file: string, bytes: number): boolean {
  if (writer.hashOf(file) === undefined) return false;
  let found: number;
  try {
    found = writer.files.size(file);
  } catch (error) {
    // One that was moved away is copied anew, and has to come to the same hash.
    if (error instanceof BackupDamaged && !fs.existsSync(path.join(writer.files.root, file))) return false;
    throw error;
  }
  if (found === bytes) return true;
  throw new BackupDamaged(`${file} in the back-up has ${found} bytes, and that of the log ${bytes}`);
}

function putUnchanging(writer: BackupWriter, files: readonly BackedUpFile[]): void {
  const entries = files
    .filter(({ file }) => writer.hashOf(file) === undefined)
    .map(({ file, read }) => writer.put(file, read()));
  writer.add(entries);
}

/** @returns the file with the keys, which has another name for each state. */
async function copyKeys(log: BackedUpLog, writer: BackupWriter): Promise<string | null> {
  const draft = writer.draft();
  if (!(await log.copyKeys(draft))) return null;
  const sha256 = hash('sha256', fs.readFileSync(draft), 'hex');
  const file = `keys/${sha256}.db`;
  if (writer.hashOf(file) === undefined) {
    writer.adopt(draft, file);
    writer.add([{ file, sha256 }]);
  }
  return file;
}

/** It is not of the log, so that one which was moved away and begun anew is no reason to refuse. */
function copyAccessLog(
  log: BackedUpLog,
  writer: BackupWriter,
): { accessLog: Noted | null; begunAnew: boolean } {
  const found = log.accessLog();
  if (found === undefined) return { accessLog: null, begunAnew: false };
  const copyTo = (file: string) =>
    noteOf(
      file,
      writer.grow(file, found.pieces(), () => undefined),
    );
  const before = writer.newest?.access_log?.file;
  try {
    return { accessLog: copyTo(before ?? writer.newAccessLog()), begunAnew: false };
  } catch (error) {
    if (!(error instanceof LogDiffers)) throw error;
    return { accessLog: copyTo(writer.newAccessLog()), begunAnew: true };
  }
}

function noteOf(file: string, { bytes, sha256 }: Omit<Noted, 'file'>): Noted {
  return { file, bytes, sha256 };
}
