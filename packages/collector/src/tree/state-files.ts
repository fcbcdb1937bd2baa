/**
 * Small files in `checkpoints/` by which a running collector and its commands report their state to `doctor`
 * and the console.
 *
 * They are replaced by a rename and not flushed. After a power loss a file may be old or missing; the next
 * start writes it again within seconds.
 */
import fs from 'node:fs';
import path from 'node:path';
import { nodeFiles } from '../files.js';
import { counted } from '../quantity.js';
import { systemCode } from '../system-code.js';

/** Thrown if the file was not written by a collector. */
export class StateFileDamaged extends Error {
  override name = 'StateFileDamaged';
}

/** Size limit of a state file. */
const MOST_BYTES = 1 << 20;

export class StateFile<State> {
  constructor(
    private readonly name: string,
    /** Its contents in words, for messages. */
    private readonly what: string,
    private readonly isState: (value: unknown) => value is State,
  ) {}

  /**
   * @returns undefined if there is no file.
   * @throws {@link StateFileDamaged} that names the file, or the system's error if it cannot be read.
   */
  read(dataDir: string): State | undefined {
    const file = this.#path(dataDir);
    let text: string;
    try {
      if (fs.statSync(file).size > MOST_BYTES)
        throw new StateFileDamaged(`${file} is too large for a state file`);
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

  /** On return the file holds the state. @throws the system's error. */
  write(dataDir: string, state: State): void {
    const file = this.#path(dataDir);
    nodeFiles.makeDirectory(path.dirname(file));
    const unfinished = `${file}.unfinished`;
    fs.rmSync(unfinished, { force: true });
    // 'wx' never follows a link that someone created.
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

/** `backup.json`: the last run of `collector backup`. The access log names its directory. */
export interface BackupNote {
  /** Start of the run, RFC 3339 in UTC. The back-up includes all events that were acknowledged before it. */
  readonly at: string;
  /** Number of events in the back-up. */
  readonly events: number;
  /** Whether it was a round of `--follow`, which makes the next one within seconds. */
  readonly follows?: boolean;
}

/** `verify.json`: the last result of `collector verify --note`. */
export interface VerifyResult {
  /** End of the run, RFC 3339 in UTC. */
  readonly at: string;
  readonly intact: boolean;
  /** Number of events in the log. */
  readonly events: number;
}

/**
 * `trouble.json`: since when, and why, a running collector cannot make checkpoints. A full disk may prevent
 * the file too; the collector itself reads {@link CheckpointTrouble.state}.
 */
export interface CheckpointTroubleState {
  /** Time of the first failed attempt, across starts, RFC 3339 in UTC. */
  readonly since: string;
  /** Reason of the newest failure: an error's text without secrets. */
  readonly reason: string;
}

/** `sinks.json`: the state of each sink, in the order of the option. */
export interface SinkState {
  /** The configured value; for a witness, the name of its key in place of the key. */
  readonly sink: string;
  /** Forked: the sink has a checkpoint of this log that contradicts the ledger, and gets no more. */
  readonly state: 'ok' | 'failing' | 'forked';
  /** Size of the last delivered checkpoint, in entries; missing if none was delivered. */
  readonly size?: number;
  /** Time of the last delivery, RFC 3339 in UTC. */
  readonly at?: string;
  /** Since when it has not been ok, across starts. */
  readonly failing_since?: string;
  /** The reason and the remedy if it is not ok. */
  readonly message?: string;
  /** Number of checkpoints since the start that were dropped. Later checkpoints cover them. */
  readonly dropped?: number;
  /** Last time since the start at which it held less than it took. */
  readonly lost_at?: string;
}

/**
 * `known.json`: the newest checkpoint that a collector on a database has seen, or that a restored log does
 * not reach.
 */
interface KnownCheckpoint {
  /** The signed note. */
  readonly note: string;
}

/** `mirror.json`: marks a data directory as a mirror of a log in a database. */
export interface MirrorNote {
  /** Address of the log, for display. */
  readonly store: string;
  readonly ledger_id: string;
  /** Number of bytes of its file of readings that were forwarded to the access log of the database. */
  readonly forwarded: number;
  /** UUID by which reports name the mirror. */
  readonly id: string;
  /** Sequence of the last action that it followed, with its own keys and names. */
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

/** Checks an object: each member must pass its check. */
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
  'the time of a back-up',
  object<BackupNote>({ at: isInstant, events: isCount, follows: isOneOf(undefined, true, false) }),
);
const VERIFY = new StateFile(
  'verify.json',
  'a result of collector verify',
  object<VerifyResult>({ at: isInstant, intact: isOneOf(true, false), events: isCount }),
);
const TROUBLE = new StateFile(
  'trouble.json',
  'the reason of a failed checkpoint',
  object<CheckpointTroubleState>({ since: isInstant, reason: isLine }),
);
const SINKS = new StateFile(
  'sinks.json',
  'the states of checkpoint sinks',
  (value): value is SinkState[] => Array.isArray(value) && value.every(isSinkState),
);
const KNOWN = new StateFile(
  'known.json',
  'a checkpoint',
  object<KnownCheckpoint>({ note: (value) => typeof value === 'string' }),
);
const MIRROR = new StateFile(
  'mirror.json',
  'the note of a mirror',
  object<MirrorNote>({
    ...{ store: isLine, ledger_id: isLine, id: isLine, forwarded: isCount, followed: isCount },
  }),
);

/*
 * Each read returns undefined, or no states, if there is no file, and throws StateFileDamaged that names the
 * file, or the system's error if it cannot be read. Each write replaces the file, and throws the system's
 * error.
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

/** Maximum length of a reason, which is shown on a line of a terminal. */
const LONGEST_REASON = 1000;

/** Records a collector's failure to make checkpoints. No method throws: a full disk is such a failure. */
export class CheckpointTrouble {
  /** Contents of the file. */
  #kept: CheckpointTroubleState | undefined;
  /** Start of the failure, even if the file could not be written. */
  #since: string | undefined;
  /** Reason of the newest failure; empty if the file of an earlier run could not be read. */
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
      // The file is written again, or removed.
      this.#since = this.#instant();
    }
  }

  /** The current state, even if the file could not be written. */
  get state(): CheckpointTroubleState | undefined {
    return this.#since === undefined ? undefined : { since: this.#since, reason: this.#reason };
  }

  /** Records a failure. Writes the file if the reason is new. */
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

  /** Records a success. @returns whether there was a failure before. */
  over(): boolean {
    if (this.#since === undefined) return false;
    try {
      TROUBLE.remove(this.dataDir);
    } catch {
      // The next checkpoint tries to remove it again.
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

/** A description of a sink's state in one line. */
export function describe(state: SinkState, now: number): string {
  const { sink, size, at, failing_since: since, message, dropped, lost_at: lostAt } = state;
  const delivered =
    size === undefined || at === undefined
      ? 'it has taken none from this directory'
      : `the last one covers ${counted(size, 'entry', 'entries')}, ${ago(now - Date.parse(at))} ago`;
  const lost =
    // A forked sink gets no more checkpoints that would cover them.
    dropped === undefined || dropped === 0 || state.state === 'forked'
      ? ''
      : `; ${dropped} were dropped, and the newest covers them`;
  const gone = lostAt === undefined ? '' : `; on ${lostAt} it ${LESS}`;
  if (state.state === 'ok') return `${sink} takes checkpoints; ${delivered}${lost}${gone}`;
  const how = state.state === 'forked' ? 'contradicts this ledger' : 'takes no checkpoints';
  const long = since === undefined ? '' : ` since ${since} (${ago(now - Date.parse(since))})`;
  return `${sink} ${how}${long}: ${message ?? 'the reason is unknown'}; ${delivered}${lost}${gone}`;
}

/** Message for a sink that lost checkpoints; follows the sink's name. */
export const LESS = 'held less than it took: it was truncated, moved or deleted';

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
] as const;

/** A rough duration; 0 s if the reader's clock is behind. */
function ago(ms: number): string {
  for (const [unit, name] of UNITS) if (ms >= unit) return `${Math.floor(ms / unit)} ${name}`;
  return '0 s';
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/** Whether it is one line of text without control characters. */
export function isLine(value: unknown): value is string {
  return typeof value === 'string' && !/\p{Cc}/u.test(value);
}

/** Whether it is RFC 3339 in UTC, in the form of Date. */
function isInstant(value: unknown): value is string {
  return (
    typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) && !Number.isNaN(Date.parse(value))
  );
}
