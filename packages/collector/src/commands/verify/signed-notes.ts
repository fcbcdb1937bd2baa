/** Signed notes: their contents, and where `collector verify` finds them. Callers check the signatures. */
import fs from 'node:fs';
import path from 'node:path';
import {
  type Checkpoint,
  parseCheckpoint,
  parseNote,
  parseRotation,
  type Rotation,
  type SignedNote,
  splitNotes,
} from '@clinical-events/protocol/verify';
import { checkpointDirectory } from '../../store/open.js';
import { messageOf } from '../../system-code.js';
import { namesIn } from '../../tree/key-files.js';
import { CommandFailure, EXIT } from '../exit-codes.js';

/** A checkpoint, with or without cosignatures, or a rotation note; not verified. */
export interface ReadNote extends SignedNote {
  readonly checkpoint?: Checkpoint;
  readonly rotation?: Rotation;
}

/** The only parser of notes. @returns why the text cannot be read, if it is truncated or not a note. */
export function readNote(note: string): ReadNote | string {
  if (note.trim() === '') return 'it is empty';
  try {
    const signed = parseNote(note);
    return ROTATION.test(signed.text)
      ? { ...signed, rotation: parseRotation(signed.text) }
      : { ...signed, checkpoint: parseCheckpoint(signed.text) };
  } catch (error) {
    return messageOf(error);
  }
}

export interface GivenNote {
  readonly note: string;
  /** Where it was found, for messages. */
  readonly source: string;
  readonly file: string;
  /** Whether it was kept outside the data directory. */
  readonly outside: boolean;
  /** The size in its file name. */
  readonly size?: number;
}

/** A file with its size when it was listed: a sink may be appending to it. */
interface Snapshot {
  readonly file: string;
  readonly name: string;
  readonly bytes: number;
}

const ROTATION = /^clinical-events\/key-rotation\//;
export const COSIGNED = /^cosigned-[0-9a-f]{8}$/;
const KEPT = /^(\d{16})(-\d)?\.checkpoint$/;
/** Other files that a collector keeps beside checkpoints. */
const NO_CHECKPOINT = /^\.|\.(vkey|json|draft|unfinished|tmp)$/;
const SIGNATURE = /^\u2014 /m;
const PIECE_BYTES = 1 << 20;
/** A longer text without the end of a note is not a note. */
const MOST_NOTE = 1 << 20;

/**
 * The notes, with the newest checkpoint first. Names are listed immediately; kept checkpoints, which never
 * change, are read lazily.
 */
export function notesOfDirectory(dataDir: string, newest: string | undefined): Iterable<GivenNote> {
  const directory = checkpointDirectory(dataDir);
  const given = (name: string, note: string): GivenNote => {
    const source = `checkpoints/${name}`;
    return { note, source, file: source, outside: false, ...promised(name) };
  };
  const read = (name: string) => given(name, fs.readFileSync(path.join(directory, name), 'utf8'));
  const names = namesIn(directory);
  const changing = [
    ...(newest === undefined ? [] : [given('latest', newest)]),
    ...names.filter((name) => COSIGNED.test(name)).map(read),
  ];
  return (function* () {
    yield* changing;
    for (const name of names) if (KEPT.test(name)) yield read(name);
  })();
}

function promised(name: string): { size?: number } {
  const digits = KEPT.exec(name)?.[1];
  return digits === undefined ? {} : { size: Number(digits) };
}

/**
 * The notes in a file, or in the files of a directory. Files and sizes are determined immediately and read
 * lazily in pieces, because they may be large.
 * @param passedOver called for each file of a directory that is not regular or has no signed note, with the
 *   reason.
 * @throws CommandFailure if there is no such file, or it is a pipe, on which a reader might wait forever.
 */
export function notesElsewhere(
  given: string,
  passedOver: (file: string, why: string) => void,
): Iterable<GivenNote> {
  const stat = fs.statSync(given, { throwIfNoEntry: false });
  if (stat === undefined) throw new CommandFailure(`there is no file ${given}`, EXIT.notFound);
  if (!stat.isDirectory() && !stat.isFile())
    throw new CommandFailure(`${given} is not a regular file: nothing was compared`, EXIT.notFound);
  if (stat.isFile()) return notesIn({ file: given, name: '', bytes: stat.size });
  const files = namesIn(given).flatMap((name): Snapshot[] => {
    if (NO_CHECKPOINT.test(name)) return [];
    const file = path.join(given, name);
    const found = fs.statSync(file, { throwIfNoEntry: false });
    if (found?.isFile()) return [{ name, file, bytes: found.size }];
    if (found?.isDirectory() !== true) passedOver(file, 'it is not a regular file');
    return [];
  });
  return (function* () {
    for (const each of files) yield* notesIn(each, passedOver);
  })();
}

/** The notes in a file, one after another. */
function* notesIn(
  snapshot: Snapshot,
  passedOver?: (file: string, why: string) => void,
): Generator<GivenNote> {
  const { file, name } = snapshot;
  let number = 0;
  for (const note of textsIn(snapshot)) {
    number++;
    const isOther = number === 1 && !KEPT.test(name) && !SIGNATURE.test(note);
    if (isOther && passedOver !== undefined) {
      passedOver(file, 'it contains no signed note');
      return;
    }
    const source = number === 1 ? file : `${file}, note ${number},`;
    yield { note, source, file, outside: true, ...promised(name) };
  }
}

/** The texts of a file, at least one: an empty file has one empty text. */
function* textsIn(snapshot: Snapshot): Generator<string> {
  let [rest, isFirst] = ['', true];
  for (const piece of piecesOf(snapshot)) {
    rest += piece;
    const notes = splitNotes(rest);
    // The last note may continue in the next piece.
    const last = notes.pop() ?? '';
    yield* notes;
    isFirst &&= notes.length === 0;
    rest = rest.slice(rest.lastIndexOf(last));
    if (rest.length <= MOST_NOTE) continue;
    yield rest;
    [rest, isFirst] = ['', false];
  }
  const notes = splitNotes(rest);
  yield* notes.length === 0 && isFirst ? [''] : notes;
}

function* piecesOf({ file, bytes }: Snapshot): Generator<string> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  // The file may have been replaced by a pipe since it was listed.
  const fd = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(Math.min(PIECE_BYTES, bytes));
    for (let at = 0; at < bytes;) {
      const got = fs.readSync(fd, buffer, 0, Math.min(buffer.length, bytes - at), at);
      if (got === 0) break;
      at += got;
      yield decoder.decode(buffer.subarray(0, got), { stream: true });
    }
    yield decoder.decode();
  } finally {
    fs.closeSync(fd);
  }
}
