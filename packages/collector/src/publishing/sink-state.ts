/**
 * `checkpoints/sinks.json`: how each sink does, for `doctor`, which runs in another process and often after the
 * collector has ended.
 *
 * Replaced by a rename and not flushed: after a power loss the file of the start before, or none, says as much as it
 * did, and it is written anew within seconds of the next start.
 */
import fs from 'node:fs';
import path from 'node:path';

/** Named as in the file. */
export interface SinkState {
  /** As it was given, but a witness's key is replaced by its name. */
  readonly sink: string;
  /** Forked: it has seen a checkpoint of this log that the ledger does not agree with; it gets no more. */
  readonly state: 'ok' | 'failing' | 'forked';
  /** Of the checkpoint that was delivered last, in events; missing when none ever was. */
  readonly size?: number;
  /** When that was: an instant, RFC 3339 in UTC. */
  readonly at?: string;
  /** Since when it has not been ok, across starts. */
  readonly failing_since?: string;
  /** Why it is not ok, and what to do. */
  readonly message?: string;
  /** Checkpoints since the start that it was owed and will not get; each is covered by those after it. */
  readonly dropped?: number;
}

/** The file is not one that a collector wrote. */
export class SinkStatesDamaged extends Error {
  override name = 'SinkStatesDamaged';
}

const STATES: readonly unknown[] = ['ok', 'failing', 'forked'];
/** Anything longer was not written by a collector. */
const MOST_BYTES = 1 << 20;

/** Where the states of a data directory are. */
function sinkStatesPath(dataDir: string): string {
  return path.join(dataDir, 'checkpoints', 'sinks.json');
}

/**
 * @returns the states in the order of the option; none when no collector with sinks has run.
 * @throws {@link SinkStatesDamaged} that names the file, or the system's error when it cannot be read.
 */
export function readSinkStates(dataDir: string): SinkState[] {
  const file = sinkStatesPath(dataDir);
  let text: string;
  try {
    if (fs.statSync(file).size > MOST_BYTES)
      throw new SinkStatesDamaged(`${file} is too large to be one of ours`);
    text = fs.readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch (cause) {
    throw new SinkStatesDamaged(`${file} is not JSON`, { cause });
  }
  if (Array.isArray(read) && read.every(isSinkState)) return read;
  throw new SinkStatesDamaged(`${file} does not hold the states of checkpoint sinks`);
}

/** On return the file holds these states. @throws the system's error. */
export function writeSinkStates(dataDir: string, states: readonly SinkState[]): void {
  const file = sinkStatesPath(dataDir);
  fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  fs.writeFileSync(`${file}.unfinished`, `${JSON.stringify(states, undefined, 2)}\n`, { mode: 0o600 });
  fs.renameSync(`${file}.unfinished`, file);
}

/** One line for a person. */
export function describe(state: SinkState, now: number): string {
  const { sink, size, at, failing_since: since, message, dropped } = state;
  const delivered =
    size === undefined || at === undefined
      ? 'it never had one'
      : `the last was of ${events(size)}, ${ago(now - Date.parse(at))} ago`;
  const lost =
    dropped === undefined || dropped === 0
      ? ''
      : `; ${dropped} could not wait any longer, and the newest covers them`;
  if (state.state === 'ok') return `${sink} takes checkpoints; ${delivered}${lost}`;
  const how = state.state === 'forked' ? 'contradicts this ledger' : 'takes no checkpoints';
  const long = since === undefined ? '' : ` since ${since} (${ago(now - Date.parse(since))})`;
  return `${sink} ${how}${long}: ${message ?? 'nothing is known of why'}; ${delivered}${lost}`;
}

function events(size: number): string {
  return `${size} event${size === 1 ? '' : 's'}`;
}

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

function isSinkState(value: unknown): value is SinkState {
  if (typeof value !== 'object' || value === null) return false;
  const { sink, state, size, at, failing_since: since, message, dropped } = value as Record<string, unknown>;
  return (
    isLine(sink) &&
    STATES.includes(state) &&
    [size, dropped].every(
      (count) => count === undefined || (Number.isSafeInteger(count) && Number(count) >= 0),
    ) &&
    [at, since].every((instant) => instant === undefined || isInstant(instant)) &&
    (message === undefined || isLine(message))
  );
}

/** A terminal is to show it. */
function isLine(value: unknown): boolean {
  return typeof value === 'string' && !/\p{Cc}/u.test(value);
}

function isInstant(value: unknown): boolean {
  return (
    typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) && !Number.isNaN(Date.parse(value))
  );
}
