/** Which of the notes that `collector verify` was given are checkpoints of this log. */
import fs from 'node:fs';
import path from 'node:path';
import { type Checkpoint, parseCheckpoint, parseNote, splitNotes } from '@clinical-events/protocol/verify';
import { verifyNote } from '../../tree/note-signing.js';
import { counted } from '../../quantity.js';
import type { CheckedRoot, FindingList } from '../../store/log-audit.js';
import { checkpointDirectory } from '../../store/open-to-read.js';
import { systemCode } from '../../system-code.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import type { LogKeys } from './trusted-keys.js';

/*
 * The signed notes that `collector verify` is to hold against the log: those of the data directory, and those that
 * someone else kept. Only read here; who signed them is seen in signed-checkpoints.ts.
 */

export interface GivenNote {
  readonly note: string;
  /** Where it was found, for messages. */
  readonly source: string;
  readonly file: string;
  /** Whether it was kept outside of the data directory. */
  readonly outside: boolean;
  /** The size that its name promises. */
  readonly size?: number;
}

const COSIGNED = /^cosigned-[0-9a-f]{8}$/;
const KEPT = /^(\d{16})(-\d)?\.checkpoint$/;
/** What a collector puts beside checkpoints that is none. */
const NO_CHECKPOINT = /^\.|\.(vkey|json|draft|unfinished|tmp)$/;
/** A line as it stands below a text that was signed. */
const SIGNATURE = /^\u2014 /m;
const PIECE_BYTES = 1 << 20;
/** More text than this without the end of a note is none. */
const MOST_NOTE = 1 << 20;

/**
 * The newest checkpoint first, if there is one. What there is is settled on return; those that were kept, which never
 * change, are read as they are asked for.
 */
export function notesOfDirectory(dataDir: string, newest: string | undefined): Iterable<GivenNote> {
  const directory = checkpointDirectory(dataDir);
  const given = (name: string, note: string): GivenNote => {
    const source = `checkpoints/${name}`;
    return { note, source, file: source, outside: false, ...(KEPT.test(name) && promised(name)) };
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

function namesIn(directory: string): string[] {
  try {
    return fs.readdirSync(directory).sort();
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  }
}

/** A file as it was when it was looked at: a sink may be writing behind that. */
interface Snapshot {
  readonly file: string;
  readonly name: string;
  readonly bytes: number;
}

/** Told of a file, and why, in words that go on from its name. */
type PassedOver = (file: string, why: string) => void;

/**
 * The notes in a file, or in the files of a directory. What is there is settled on return; it is read as it is asked
 * for, so that it can be much.
 * @param passedOver is told of what in a directory is no file, or holds no signed note.
 * @throws CommandFailure when there is no such file, or it is a pipe or the like, on which a reader might wait forever.
 */
export function notesElsewhere(given: string, passedOver: PassedOver): Iterable<GivenNote> {
  const stat = fs.statSync(given, { throwIfNoEntry: false });
  if (stat === undefined) throw new CommandFailure(`there is no file ${given}`, EXIT.notFound);
  if (!stat.isDirectory() && !stat.isFile()) {
    throw new CommandFailure(`${given} is no regular file: nothing was compared`, EXIT.notFound);
  }
  if (!stat.isDirectory()) return notesIn({ file: given, name: path.basename(given), bytes: stat.size });
  const files = namesIn(given)
    .filter((name) => !NO_CHECKPOINT.test(name))
    .map((name) => ({ name, file: path.join(given, name) }))
    .flatMap(({ name, file }): Snapshot[] => {
      const found = fs.statSync(file, { throwIfNoEntry: false });
      if (found?.isFile() === true) return [{ name, file, bytes: found.size }];
      if (found?.isDirectory() !== true) passedOver(file, 'is no regular file');
      return [];
    });
  return notesInDirectory(files, passedOver);
}

function* notesInDirectory(files: readonly Snapshot[], passedOver: PassedOver): Generator<GivenNote> {
  for (const each of files) {
    const { file, name } = each;
    if (KEPT.test(name)) yield { note: textOf(each), source: file, file, outside: true, ...promised(name) };
    else if (holdsSignature(each)) yield* notesIn(each);
    else passedOver(file, 'holds no signed note');
  }
}

/** Of one note, and no more of it than a note can have. */
function textOf({ bytes, ...snapshot }: Snapshot): string {
  return [...piecesOf({ ...snapshot, bytes: Math.min(bytes, MOST_NOTE) })].join('');
}

function holdsSignature(snapshot: Snapshot): boolean {
  for (const text of piecesOf(snapshot)) if (SIGNATURE.test(text)) return true;
  return false;
}

/** The notes in a file, one after another. */
function* notesIn(snapshot: Snapshot): Generator<GivenNote> {
  const { file } = snapshot;
  let [rest, number] = ['', 0];
  const given = (note: string): GivenNote => {
    number++;
    const source = number === 1 ? file : `${file}, note ${number},`;
    return { note, source, file, outside: true };
  };
  for (const piece of piecesOf(snapshot)) {
    rest += piece;
    const notes = splitNotes(rest);
    // The last one may go on in the next piece.
    const last = notes.pop() ?? '';
    for (const note of notes) yield given(note);
    rest = rest.slice(rest.lastIndexOf(last));
    if (rest.length <= MOST_NOTE) continue;
    yield given(rest);
    rest = '';
  }
  const notes = splitNotes(rest);
  if (notes.length === 0 && number === 0) notes.push('');
  for (const note of notes) yield given(note);
}

function* piecesOf({ file, bytes }: Snapshot): Generator<string> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  // What was a file a moment ago might be a pipe by now.
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

/** What stands in one place, and is no checkpoint of this log. */
interface Ignored {
  /** By the log that they are of. */
  readonly others: Map<string, Refused>;
  /** By what is said of them. */
  readonly refused: Map<string, Refused>;
  /** Kept elsewhere, and cut short: whoever could cut one could take it away. */
  cut?: Refused;
}

interface Refused {
  /** The first of them. */
  readonly source: string;
  readonly file: string;
  count: number;
}

/** A checkpoint of another log, signed in that one's name alone. */
class OfAnotherLog extends Error {
  constructor(readonly origin: string) {
    super(`it is of the log ${origin}`);
  }
}

export class SignedCheckpoints {
  /** Each size and root once. */
  readonly roots: CheckedRoot[] = [];
  /** Notes that are checkpoints of this log. */
  checked = 0;
  /** How many of them were kept outside of the data directory. */
  given = 0;
  /** Whether the data directory has a newest one, whatever it says. */
  hasNewest = false;
  /** The largest of the data directory. */
  newest: CheckedRoot | undefined;
  readonly #byContent = new Map<string, CheckedRoot>();
  /** Notes that could not be checked, as there is no key. */
  #unchecked = 0;
  /** Where those are that only an earlier key has signed. */
  readonly #earlier: string[] = [];

  constructor(
    private readonly keys: LogKeys,
    private readonly findings: FindingList,
  ) {}

  /**
   * Takes the notes of the data directory, or those that were found at a path that someone gave. Two logs may share
   * such a place: checkpoints of another one are no fault there, if there are any of this one.
   * @throws CommandFailure when there is none at all at that path.
   */
  take(notes: Iterable<GivenNote>, given?: string): void {
    const passed: Ignored = { others: new Map(), refused: new Map() };
    const before = this.checked;
    let found = 0;
    for (const note of notes) {
      found++;
      this.hasNewest ||= note.source === 'checkpoints/latest';
      if (this.keys.keys.length === 0) this.#unchecked++;
      else this.#takeOne(note, passed);
    }
    if (given !== undefined && found === 0) {
      throw new CommandFailure(
        `${given} holds no checkpoint (directories in it are not read): nothing was compared`,
        EXIT.notFound,
      );
    }
    this.#tell(passed, given, this.checked - before);
  }

  #tell({ others, refused, cut }: Ignored, given: string | undefined, checked: number): void {
    if (given === undefined || checked === 0) {
      for (const [origin, each] of others) addTo(refused, noCheckpoint(new OfAnotherLog(origin)), each);
    } else {
      for (const [origin, { source, file, count }] of others) {
        const message = `${source} is a checkpoint of another log, ${origin}, and was passed over${like(count)}`;
        this.findings.add({ kind: 'note', file, message });
      }
    }
    if (cut !== undefined) {
      if (given !== undefined && checked === 0 && refused.size === 0) {
        const message = `${given} holds no whole checkpoint: nothing was compared`;
        this.findings.add({ kind: 'checkpoint_invalid', file: given, message });
      }
      const message = `${cut.source} is cut short, and was passed over${like(cut.count)}`;
      this.findings.add({ kind: 'note', file: cut.file, message });
    }
    for (const [says, { source, file, count }] of refused) {
      const more = count > 1 ? `; the same goes for ${count - 1} more` : '';
      this.findings.add({ kind: 'checkpoint_invalid', file, message: `${source} ${says}${more}` });
    }
  }

  #takeOne(given: GivenNote, passed: Ignored): void {
    const { note, source, file, outside } = given;
    let judged: { checkpoint: Checkpoint; earlier: boolean };
    try {
      judged = this.#judge(given);
    } catch (error) {
      if (outside && isMalformed(note)) {
        passed.cut ??= { source, file, count: 0 };
        passed.cut.count++;
      } else if (error instanceof OfAnotherLog) addTo(passed.others, error.origin, given);
      else addTo(passed.refused, note.trim() === '' ? 'is empty' : noCheckpoint(error), given);
      return;
    }
    const { origin, size, root: bytes } = judged.checkpoint;
    const root = Buffer.from(bytes);
    this.checked++;
    if (outside) this.given++;
    if (judged.earlier) this.#earlier.push(source);
    const content = `${size} ${root.toString('base64')}`;
    const known = this.#byContent.get(content);
    if (known !== undefined) {
      known.outside ||= outside;
      return;
    }
    const checked = { size, root, origin, source, file, outside };
    this.#byContent.set(content, checked);
    this.roots.push(checked);
    if (!outside && size >= (this.newest?.size ?? 0)) this.newest = checked;
  }

  /** To be called when all are taken. */
  finish(): void {
    if (this.#unchecked > 0) {
      const message = `${counted(this.#unchecked, 'checkpoint')} cannot be checked: there is no key of the log`;
      this.findings.add({ kind: 'checkpoint_invalid', message });
    }
    const [first] = this.#earlier;
    if (first === undefined) return;
    const { newest } = this;
    if (newest !== undefined && this.#earlier.includes(newest.source)) {
      const message =
        `${newest.source} is signed by a key from before those given, and by none of them; ` +
        "give the log's first key, or wait for the next checkpoint";
      this.findings.add({ kind: 'checkpoint_invalid', file: newest.file, message });
    }
    const others = this.#earlier.length === 1 ? '' : ` and ${this.#earlier.length - 1} more`;
    const message = `${first}${others}: signed by keys from before those given, and held against the log all the same`;
    this.findings.add({ kind: 'note', message });
  }

  /** @throws when the note is no checkpoint of this log, in words that follow a colon. */
  #judge({ note, size }: GivenNote): { checkpoint: Checkpoint; earlier: boolean } {
    const { text, signatures } = parseNote(note);
    const checkpoint = parseCheckpoint(text);
    const { keys, earlier } = this.keys;
    const isOfLog = (origin: string) => keys.some(({ name }) => name === origin);
    if (!isOfLog(checkpoint.origin)) {
      const other = new OfAnotherLog(checkpoint.origin);
      // One that this log has signed has been changed.
      throw signatures.some(({ name }) => isOfLog(name)) ? new Error(other.message) : other;
    }
    assertNamed(size, checkpoint);
    const { signedBy } = verifyNote(note, [...keys, ...earlier]);
    const believed = signedBy.filter(({ name }) => name === checkpoint.origin);
    if (believed.length === 0) throw new Error('the key that signed it is of another log');
    return { checkpoint, earlier: !believed.some((key) => keys.includes(key)) };
  }
}

/** @throws when the name of a file promises another size than its checkpoint has. */
function assertNamed(named: number | undefined, { size }: Checkpoint): void {
  if (named === undefined || named === size) return;
  throw new Error(`it speaks of ${size} entries, and its name of ${named}`);
}

function addTo(
  refused: Map<string, Refused>,
  says: string,
  { source, file, count = 1 }: Pick<Refused, 'source' | 'file'> & { readonly count?: number },
): void {
  const known = refused.get(says);
  if (known === undefined) refused.set(says, { source, file, count });
  else known.count += count;
}

function like(count: number): string {
  return count > 1 ? `, like ${count - 1} more` : '';
}

function noCheckpoint(error: unknown): string {
  return `is not a checkpoint of this log: ${error instanceof Error ? error.message : String(error)}`;
}

function isMalformed(note: string): boolean {
  try {
    parseCheckpoint(parseNote(note).text);
    return !note.endsWith('\n');
  } catch {
    return true;
  }
}
