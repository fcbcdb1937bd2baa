/** Whether `access.log` is the one that was signed, for `verify` and `doctor`: reads it from its beginning to its end. */
import fs from 'node:fs';
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { accessLogCheckpoint, accessLogKey, restoreIn } from '../integrity/access-log-keys.js';
import { GrowingTree } from '../integrity/growing-tree.js';
import { LineLeaves } from '../integrity/line-leaves.js';
import type { NoteKey } from '../integrity/note-signing.js';
import { restoreLineIn, type RestoreLine } from '../integrity/restore-line.js';
import { AccessLogFile, accessLogPath } from '../store/embedded/access-log-file.js';
import type { Files } from '../store/embedded/files.js';
import { counted } from '../store/embedded/inspection.js';
import { lineIn } from './access-log.js';
import type { VerifyFinding } from './verify-findings.js';

/** A checkpoint of the readings, signed by a key of the log. */
export interface AccessRoot {
  readonly checkpoint: Checkpoint;
  /** Where it was found. */
  readonly source: string;
}

export interface AccessLogState {
  /** Whole lines; a reading has two. */
  readonly lines: number;
  /** How many of them are under the checkpoint of the directory, or one that was given. */
  readonly signed: number;
  /** Readings by others that were not noted to have ended: they still run, or were killed. */
  readonly unended: number;
  /** Lines that a crash or a full disk has cut short. */
  readonly torn: number;
  /** When the last reading began: an instant, RFC 3339 in UTC. */
  readonly last: string | undefined;
  /** The last time that a collector took up lines whose checkpoint was missing. */
  readonly adopted: Adoption | undefined;
  /** The restores after which the log went on, the oldest first. */
  readonly restores: readonly Restored[];
  /** Notes among them. */
  readonly findings: readonly VerifyFinding[];
}

/** That lines were taken up without their checkpoint. */
interface Adoption {
  /** When: an instant, RFC 3339 in UTC. Nothing proves the readings before it. */
  readonly at: string;
  /** How many lines stand before it. */
  readonly lines: number;
  /** How many of these are proved all the same, by a checkpoint that was given. */
  readonly proved: number;
}

/** That the log went on from a back-up. */
interface Restored extends RestoreLine {
  /** The largest number of lines before it that a checkpoint given was signed over, when that is more than it has. */
  signedBefore: number | undefined;
}

const LOG = 'access.log';
const CHECKPOINT = 'checkpoints/access-log';
const PIECE_BYTES = 1 << 20;
/** No note of a command is as long: noted-files.ts sees to that. */
const LONGEST_LINE = 16 << 20;

/** The note in `checkpoints/access-log`. To be read before the keys and the log: both then hold at least what it says. */
export function accessCheckpointNote(dataDir: string, files: Files): string | undefined {
  return AccessLogFile.read(dataDir, files).checkpoint();
}

/** What the log is held against. */
interface Against {
  /** The note in `checkpoints/access-log`. */
  readonly note: string | undefined;
  /** Of the log of events. */
  readonly keys: readonly NoteKey[];
  /** Keys that it had before them, which are not believed for the newest checkpoint. */
  readonly earlier?: readonly NoteKey[];
  /** Whether events were signed: before the first of them is taken, the empty log of readings is signed. */
  readonly hasBegun: boolean;
  /** Checkpoints that were kept elsewhere. */
  readonly given?: readonly AccessRoot[];
  /** The largest size that a sink took before the note was read. */
  readonly givenOut?: number;
  /** How many of the readings are of the command that asks, and cannot have ended. */
  readonly ownReadings?: number;
}

/** @returns undefined when there is neither a log nor any checkpoint of one, and needs not be. */
export function checkAccessLog(
  dataDir: string,
  files: Files,
  { note, keys, earlier = [], hasBegun, given = [], givenOut = 0, ownReadings = 0 }: Against,
): AccessLogState | undefined {
  const stat = fs.lstatSync(accessLogPath(dataDir), { throwIfNoEntry: false });
  if (stat === undefined && note === undefined && given.length === 0 && !hasBegun) return undefined;
  const check = new AccessLogCheck(ownReadings);
  // Without a key nothing can be checked, which is told of all checkpoints together.
  const newest = note === undefined || keys.length === 0 ? undefined : check.judge(note, keys, earlier);
  if (newest !== undefined && newest.size < givenOut) {
    const message = `checkpoints over more lines of ${LOG} than ${newest.size} were given out (sinks.json says ${givenOut})`;
    check.add('checkpoint_missing', message, CHECKPOINT);
  }
  for (const root of given) check.roots.push({ ...root, own: false });
  if (stat === undefined || stat.isFile()) check.read(AccessLogFile.read(dataDir, files));
  else check.add('unreadable', `${LOG} is no regular file, and was not opened`);
  if (note === undefined && (hasBegun || check.state.lines > 0)) {
    const message = `${CHECKPOINT} is missing, the checkpoint of the readings: it was removed, or no collector that signs them has run here yet`;
    check.add('checkpoint_missing', message, CHECKPOINT);
  }
  return check.state;
}

function isOf(note: string, keys: readonly NoteKey[]): boolean {
  try {
    accessLogCheckpoint(note, keys.map(accessLogKey));
    return true;
  } catch {
    return false;
  }
}

class AccessLogCheck {
  /** Own: of the data directory, which was restored as a whole. */
  readonly roots: (AccessRoot & { readonly own: boolean })[] = [];
  readonly #restores: Restored[] = [];
  /** Of logs that no restore here has begun. */
  readonly #unknown: AccessRoot[] = [];
  readonly #findings: VerifyFinding[] = [];
  readonly #tree = GrowingTree.at({ hashes: () => Buffer.alloc(0) }, 0);
  #torn = 0;
  #begun = 0;
  #ended: number;
  /** The newest reading by `collector backup` that has not ended. */
  #backup: string | undefined;
  #last: string | undefined;
  #adopted: Adoption | undefined;
  /** How many lines no command has written, and which is the first. */
  #foreign = 0;
  #firstForeign = 0;
  /** The size of the largest root that the lines come to. */
  #agrees = 0;
  /** The smallest root that they do not come to, and how many lines are known to be right all the same. */
  #contradicts: { readonly root: AccessRoot; readonly still: number } | undefined;

  /** @param ended readings that are to count as ended. */
  constructor(ended: number) {
    this.#ended = ended;
  }

  get state(): AccessLogState {
    return {
      lines: this.#tree.size,
      signed: this.#agrees,
      unended: Math.max(0, this.#begun - this.#ended),
      torn: this.#torn,
      last: this.#last,
      adopted: this.#adopted,
      restores: this.#restores,
      findings: this.#findings,
    };
  }

  add(kind: VerifyFinding['kind'], message: string, file = LOG): void {
    this.#findings.push({ kind, file, message });
  }

  /** Takes the checkpoint of the directory when it is one. */
  judge(note: string, keys: readonly NoteKey[], earlier: readonly NoteKey[]): Checkpoint | undefined {
    try {
      const checkpoint = accessLogCheckpoint(note, keys.map(accessLogKey));
      this.roots.push({ checkpoint, source: CHECKPOINT, own: true });
      return checkpoint;
    } catch (error) {
      const reason = isOf(note, earlier)
        ? "only a key from before those given has signed it; give the log's first key, or wait for the next checkpoint"
        : error instanceof Error
          ? error.message
          : String(error);
      const message = `${CHECKPOINT} is not a checkpoint of this access log: ${reason}`;
      this.add('checkpoint_invalid', message, CHECKPOINT);
      return undefined;
    }
  }

  read(log: ReturnType<typeof AccessLogFile.read>): void {
    this.roots.sort((a, b) => a.checkpoint.size - b.checkpoint.size);
    let next = this.#compare(0);
    const lines = new LineLeaves(LONGEST_LINE);
    // What comes meanwhile is left for another time.
    const end = log.size() ?? 0;
    for (let at = 0; at < end;) {
      const piece = log.read(at, Math.min(PIECE_BYTES, end - at));
      if (piece.length === 0) break;
      at += piece.length;
      for (const { leaf, bytes } of lines.take(piece)) {
        this.#restored(bytes);
        this.#tree.append(leaf, 1);
        this.#line(bytes);
        if (this.roots[next]?.checkpoint.size === this.#tree.size) next = this.#compare(next);
      }
      this.#tree.drain();
    }
    const beyond = this.roots.slice(next).filter((root) => this.#isHere(root));
    this.#tellUnknown();
    this.#tell(beyond.at(-1), lines.pending);
  }

  #restored(bytes: Buffer | undefined): void {
    const line = restoreLineIn(bytes);
    if (line === undefined) return;
    const before = this.#tree.size;
    if (line.lines === before && line.root.equals(this.#tree.root())) {
      this.#restores.push({ ...line, signedBefore: undefined });
      return;
    }
    const message = `line ${before + 1} of ${LOG} tells of a restore, and not of the lines before it: these were altered, or the line was put in`;
    this.add('access_log_altered', message);
  }

  /**
   * Whether the root speaks of the lines that stand here. One of before a restore may speak of more than the back-up had:
   * they are lost, and no others stand in their place under its name.
   */
  #isHere({ checkpoint, own, ...root }: (typeof this.roots)[number]): boolean {
    const restore = restoreIn(checkpoint.origin);
    const begun = restore === undefined ? -1 : this.#restores.findIndex(({ log }) => log === restore);
    if (restore !== undefined && begun < 0) {
      if (own) return true;
      this.#unknown.push({ checkpoint, ...root });
      return false;
    }
    const next = this.#restores[begun + 1];
    if (own || next === undefined || checkpoint.size <= next.lines) return true;
    next.signedBefore = Math.max(next.signedBefore ?? 0, checkpoint.size);
    return false;
  }

  #line(bytes: Buffer | undefined): void {
    const line = lineIn(bytes);
    if (line === 'torn') this.#torn++;
    else if (line === 'foreign') {
      if (this.#foreign++ === 0) this.#firstForeign = this.#tree.size;
    } else if (line.state === 'restored') {
      // The back-up's own reading was copied before its end could be noted.
      if (this.#backup !== undefined) this.#ended++;
      this.#backup = undefined;
    } else if (line.state === 'ended') {
      this.#ended++;
      if (line.reading === this.#backup) this.#backup = undefined;
    } else if (line.state === 'adopted') {
      this.#adopted = { at: line.at, lines: this.#tree.size - 1, proved: this.#agrees };
    } else {
      this.#begun++;
      this.#last = line.at;
      if (line.command === 'backup') this.#backup = line.reading;
    }
  }

  /** Holds the lines so far against the roots of their size. @returns the first root of more lines. */
  #compare(from: number): number {
    const below = this.#agrees;
    let at = from;
    for (let root = this.roots[at]; root?.checkpoint.size === this.#tree.size; root = this.roots[++at]) {
      if (!this.#isHere(root)) continue;
      if (this.#tree.root().equals(root.checkpoint.root)) this.#agrees = this.#tree.size;
      else this.#contradicts ??= { root, still: below };
    }
    return at;
  }

  /** Once something was restored, another copy may have been in use before; else there is no reason for such a log. */
  #tellUnknown(): void {
    const own = this.roots.find(({ checkpoint, own }) => {
      const restore = restoreIn(checkpoint.origin);
      return own && restore !== undefined && !this.#restores.some(({ log }) => log === restore);
    });
    if (own !== undefined) {
      const message = `${own.source} was signed after a restore that ${LOG} does not tell of: its lines were altered or removed`;
      this.add('access_log_altered', message);
    }
    const largest = this.#unknown.at(-1);
    if (largest === undefined) return;
    const { checkpoint, source } = largest;
    const message =
      `${source} is a checkpoint of ${counted(checkpoint.size, 'line')} of readings, signed after a restore of which ` +
      `${LOG} does not tell: another copy of this log was restored and used, or lines were removed here`;
    this.add(this.#restores.length > 0 ? 'note' : 'access_log_altered', message);
  }

  #tell(largest: AccessRoot | undefined, pending: number): void {
    const lines = this.#tree.size;
    if (this.#contradicts !== undefined) {
      const { checkpoint, source } = this.#contradicts.root;
      const still = this.#contradicts.still > 0 ? `; the first ${this.#contradicts.still} still are` : '';
      const message = `the first ${counted(checkpoint.size, 'line')} of ${LOG} are not those that ${source} was signed over: lines were altered, removed, put in or put in another order${still}`;
      this.add('access_log_altered', message);
    }
    if (largest !== undefined && largest.checkpoint.size > lines) {
      const { checkpoint, source } = largest;
      const message = `${LOG} has ${counted(lines, 'whole line')}, and ${source} was signed over ${checkpoint.size}: the others are missing`;
      this.add('access_log_altered', message);
    }
    if (this.#foreign > 0) {
      const more = this.#foreign === 1 ? '' : `, and ${this.#foreign - 1} more are not`;
      const message = `line ${this.#firstForeign} of ${LOG} is not one that the collector writes${more}`;
      this.add('access_log_altered', message);
    }
    if (this.#adopted !== undefined) {
      const { at, lines, proved } = this.#adopted;
      const still = proved > 0 ? `, but for the first ${proved}, which a checkpoint given proves` : '';
      const message = `the readings before ${at} are not covered (${counted(lines, 'line')} of ${LOG})${still}: their checkpoint was missing, and they may have been altered or removed before they were signed again`;
      this.add('note', message);
    }
    if (this.#torn > 0) {
      const message = `${counted(this.#torn, 'line')} of ${LOG} ${this.#torn === 1 ? 'is' : 'are'} torn, as by a crash or a full disk`;
      this.add('note', message);
    }
    if (pending > 0) {
      const message = `the last ${counted(pending, 'byte')} of ${LOG} are a torn line, or one that is being written`;
      this.add('note', message);
    }
  }
}
