/**
 * Small files in `checkpoints/` by which a running collector and its commands report their state to `doctor` and the
 * console, which are other processes, and often run later.
 *
 * Replaced by a rename and not flushed: after a power loss the file of the start before, or none, is as true as it was,
 * and it is written again within seconds of the next start.
 */
import fs from 'node:fs';
import path from 'node:path';
import { nodeFiles } from '../files.js';
import { counted } from '../quantity.js';
import { systemCode } from '../system-code.js';

/** The file is not one that a collector wrote. */
export class StateFileDamaged extends Error {
  override name = 'StateFileDamaged';
}

/** Anything longer was not written by a collector. */
const MOST_BYTES = 1 << 20;

export class StateFile<State> {
  constructor(
    private readonly name: string,
    /** What it holds, for a message. */
    private readonly what: string,
    private readonly isState: (value: unknown) => value is State,
  ) {}

  /**
   * @returns undefined when there is none.
   * @throws {@link StateFileDamaged} that names the file, or the system's error when it cannot be read.
   */
  read(dataDir: string): State | undefined {
    const file = this.#path(dataDir);
    let text: string;
    try {
      if (fs.statSync(file).size > MOST_BYTES)
        throw new StateFileDamaged(`${file} is too large to be one of ours`);
      text = fs.readFileSync(file, 'utf8');
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw error;
    }
    let read: unknown;
    try {
      read = JSON.parse(text);
    } catch (cause) {
      throw new StateFileDamaged(`${file} is not JSON`, { cause });
    }
    if (this.isState(read)) return read;
    throw new StateFileDamaged(`${file} does not hold ${this.what}`);
  }

  /** On return the file holds this. @throws the system's error. */
  write(dataDir: string, state: State): void {
    const file = this.#path(dataDir);
    nodeFiles.makeDirectory(path.dirname(file));
    const unfinished = `${file}.unfinished`;
    fs.rmSync(unfinished, { force: true });
    // Never through a link that someone has put there meanwhile.
    const fd = nodeFiles.open(unfinished, 'wx+');
    try {
      fs.writeFileSync(fd, `${JSON.stringify(state, undefined, 2)}\n`);
    } finally {
      nodeFiles.close(fd);
    }
    nodeFiles.rename(unfinished, file);
  }

  /** On return there is no such file. @throws the system's error. */
  remove(dataDir: string): void {
    fs.rmSync(this.#path(dataDir), { force: true });
  }

  #path(dataDir: string): string {
    return path.join(dataDir, 'checkpoints', this.name);
  }
}

/** `backup.json`: when `collector backup` was done last. Not where it went: that is for who may read the access log. */
export interface BackupNote {
  /** When the run began: an instant, RFC 3339 in UTC. What was acknowledged by then is in it. */
  readonly at: string;
  /** How many events it holds. */
  readonly events: number;
  /** Whether it was a round of `--follow`, which makes the next one within seconds. */
  readonly follows?: boolean;
}

/** `verify.json`: what `collector verify --note` found last. */
export interface VerifyResult {
  /** When it had been through: an instant, RFC 3339 in UTC. */
  readonly at: string;
  readonly intact: boolean;
  /** That the log held. */
  readonly events: number;
}

/**
 * `trouble.json`: since when, and why, a running collector cannot make checkpoints. A disk that is full keeps the file
 * out too; who runs in the same process asks {@link CheckpointTrouble.state}.
 */
export interface CheckpointTroubleState {
  /** When the first of the tries failed, across starts: an instant, RFC 3339 in UTC. */
  readonly since: string;
  /** Why the newest one did: an error's text, which holds no secret. */
  readonly reason: string;
}

/** `sinks.json`, in the order of the option: the state of each sink. */
export interface SinkState {
  /** As it was given, but a witness's key is replaced by its name. */
  readonly sink: string;
  /** Forked: it has seen a checkpoint of this log that the ledger does not agree with; it gets no more. */
  readonly state: 'ok' | 'failing' | 'forked';
  /** Of the checkpoint that was delivered last, in entries of the log; missing when none ever was. */
  readonly size?: number;
  /** When that was: an instant, RFC 3339 in UTC. */
  readonly at?: string;
  /** Since when it has not been ok, across starts. */
  readonly failing_since?: string;
  /** Why it is not ok, and what to do. */
  readonly message?: string;
  /** Checkpoints since the start that it was owed and will not get. Those after it cover each. */
  readonly dropped?: number;
  /** When it was last found to hold less than it had taken, since the start: an instant. */
  readonly lost_at?: string;
}

/** `known.json`: the newest checkpoint that a collector on a database has seen, or that a restored log does not reach. */
interface KnownCheckpoint {
  /** The signed note. */
  readonly note: string;
}

/** `mirror.json`: that a data directory is a mirror of a log in a database. */
export interface MirrorNote {
  /** Where the log is, for people. */
  readonly store: string;
  readonly ledger_id: string;
  /** How many bytes of its file of readings stand in the access log of the database. */
  readonly forwarded: number;
  /** A UUID by which reports name the mirror. */
  readonly id: string;
  /** The sequence of the last action that it has followed, with its own keys and names. */
  readonly followed: number;
}

type Check = (value: unknown) => boolean;

const isOneOf =
  (...values: readonly unknown[]): Check =>
  (value) =>
    values.includes(value);
const orMissing =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);

/** An object of which each of these members passes its check. */
const object =
  <State>(checks: Readonly<Record<keyof State & string, Check>>) =>
  (value: unknown): value is State =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries<Check>(checks).every(([name, check]) => check((value as Record<string, unknown>)[name]));

const isSinkState = object<SinkState>({
  sink: isLine,
  state: isOneOf('ok', 'failing', 'forked'),
  size: orMissing(isCount),
  at: orMissing(isInstant),
  failing_since: orMissing(isInstant),
  message: orMissing(isLine),
  dropped: orMissing(isCount),
  lost_at: orMissing(isInstant),
});
const BACKUP = new StateFile(
  'backup.json',
  'when a back-up was made',
  object<BackupNote>({ at: isInstant, events: isCount, follows: isOneOf(undefined, true, false) }),
);
const VERIFY = new StateFile(
  'verify.json',
  'what collector verify found',
  object<VerifyResult>({ at: isInstant, intact: isOneOf(true, false), events: isCount }),
);
const TROUBLE = new StateFile(
  'trouble.json',
  'why no checkpoint could be made',
  object<CheckpointTroubleState>({ since: isInstant, reason: isLine }),
);
const SINKS = new StateFile(
  'sinks.json',
  'the states of checkpoint sinks',
  (value): value is SinkState[] => Array.isArray(value) && value.every(isSinkState),
);
const KNOWN = new StateFile(
  'known.json',
  'the newest checkpoint that was seen',
  object<KnownCheckpoint>({ note: (value) => typeof value === 'string' }),
);
const MIRROR = new StateFile(
  'mirror.json',
  'of which log a data directory is a mirror',
  object<MirrorNote>({
    ...{ store: isLine, ledger_id: isLine, id: isLine, forwarded: isCount, followed: isCount },
  }),
);

/*
 * Each read returns undefined, or no states, when there is no file, and throws StateFileDamaged that names the file, or
 * the system's error when it cannot be read. After a write the file holds what was given; it throws the system's error.
 */
export const readBackupNote = (dataDir: string) => BACKUP.read(dataDir);
export const writeBackupNote = (dataDir: string, note: BackupNote) => BACKUP.write(dataDir, note);
export const readVerifyResult = (dataDir: string) => VERIFY.read(dataDir);
export const writeVerifyResult = (dataDir: string, result: VerifyResult) => VERIFY.write(dataDir, result);
export const readCheckpointTrouble = (dataDir: string) => TROUBLE.read(dataDir);
export const readSinkStates = (dataDir: string) => SINKS.read(dataDir) ?? [];
export const writeSinkStates = (dataDir: string, states: SinkState[]) => SINKS.write(dataDir, states);
export const readKnownCheckpoint = (dataDir: string) => KNOWN.read(dataDir)?.note;
export const writeKnownCheckpoint = (dataDir: string, note: string) => KNOWN.write(dataDir, { note });
export const readMirrorNote = (dataDir: string) => MIRROR.read(dataDir);
export const writeMirrorNote = (dataDir: string, note: MirrorNote) => MIRROR.write(dataDir, note);

/** A reason is shown on a line of a terminal. */
const LONGEST_REASON = 1000;

/** Keeps the trouble that a collector has with its checkpoints. Nothing here throws: a full disk is such a trouble. */
export class CheckpointTrouble {
  /** What the file says. */
  #kept: CheckpointTroubleState | undefined;
  /** Whether there is trouble, also when the file could not be written. */
  #since: string | undefined;
  /** Of the newest failure; empty when the file of the start before could not be read. */
  #reason = '';

  constructor(
    private readonly dataDir: string,
    private readonly now: () => number = Date.now,
  ) {
    try {
      this.#kept = TROUBLE.read(dataDir);
      this.#since = this.#kept?.since;
      this.#reason = this.#kept?.reason ?? '';
    } catch {
      // Written again, or removed.
      this.#since = this.#instant();
    }
  }

  /** What is so, whether or not the file says it. */
  get state(): CheckpointTroubleState | undefined {
    return this.#since === undefined ? undefined : { since: this.#since, reason: this.#reason };
  }

  /** A checkpoint could not be made. The file is written when that is news. */
  failed(why: string): void {
    const reason = why.replace(/\p{Cc}+/gu, ' ').slice(0, LONGEST_REASON);
    this.#since ??= this.#instant();
    this.#reason = reason;
    if (this.#kept?.reason === reason) return;
    const trouble = { since: this.#since, reason };
    try {
      TROUBLE.write(this.dataDir, trouble);
      this.#kept = trouble;
    } catch {
      // The next failure tries again.
    }
  }

  /** No checkpoint is owed any more. @returns whether there was trouble before. */
  over(): boolean {
    if (this.#since === undefined) return false;
    try {
      TROUBLE.remove(this.dataDir);
    } catch {
      // The next checkpoint tries again, and it is not over before that.
      return false;
    }
    this.#since = undefined;
    this.#kept = undefined;
    return true;
  }

  #instant(): string {
    return new Date(this.now()).toISOString();
  }
}

/** One line for a person. */
export function describe(state: SinkState, now: number): string {
  const { sink, size, at, failing_since: since, message, dropped, lost_at: lostAt } = state;
  const delivered =
    size === undefined || at === undefined
      ? 'it has taken none from this directory yet'
      : `the last was of ${counted(size, 'entry', 'entries')}, ${ago(now - Date.parse(at))} ago`;
  const lost =
    // A sink that contradicts the log gets no more, so that nothing newer will cover them there.
    dropped === undefined || dropped === 0 || state.state === 'forked'
      ? ''
      : `; ${dropped} could not wait any longer, and the newest covers them`;
  const gone = lostAt === undefined ? '' : `; on ${lostAt} it ${LESS}`;
  if (state.state === 'ok') return `${sink} takes checkpoints; ${delivered}${lost}${gone}`;
  const how = state.state === 'forked' ? 'contradicts this ledger' : 'takes no checkpoints';
  const long = since === undefined ? '' : ` since ${since} (${ago(now - Date.parse(since))})`;
  return `${sink} ${how}${long}: ${message ?? 'nothing is known of why'}; ${delivered}${lost}${gone}`;
}

/** What to say of a sink that holds less than it was left with; follows the sink's name. */
export const LESS = 'held less than it was left with: it was cut, moved aside or deleted';

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
] as const;

/** A duration, coarsely: the reader's clock may also be behind. */
function ago(ms: number): string {
  for (const [unit, name] of UNITS) if (ms >= unit) return `${Math.floor(ms / unit)} ${name}`;
  return '0 s';
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/** Whether it is text that a terminal may be shown. */
export function isLine(value: unknown): value is string {
  return typeof value === 'string' && !/\p{Cc}/u.test(value);
}

/** Whether it is RFC 3339 in UTC, as Date writes it. */
function isInstant(value: unknown): value is string {
  return (
    typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) && !Number.isNaN(Date.parse(value))
  );
}
