/** `checkpoints/sinks.json`: how each sink does, for `doctor`. */
import { isInstant, isLine, StateFile } from './state-file.js';

/** Named as in the file. */
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
  /** Checkpoints since the start that it was owed and will not get; each is covered by those after it. */
  readonly dropped?: number;
  /** The origin of another log whose checkpoints lie in the same place. */
  readonly also_holds?: string;
  /** When something that it had taken since the start was found gone, the last time: an instant. */
  readonly lost_at?: string;
}

const STATES: readonly unknown[] = ['ok', 'failing', 'forked'];
const FILE = new StateFile('sinks.json', 'the states of checkpoint sinks', areSinkStates);

/**
 * @returns the states in the order of the option; none when no collector with sinks has run.
 * @throws StateFileDamaged that names the file, or the system's error when it cannot be read.
 */
export function readSinkStates(dataDir: string): SinkState[] {
  return FILE.read(dataDir) ?? [];
}

/** On return the file holds these states. @throws the system's error. */
export function writeSinkStates(dataDir: string, states: SinkState[]): void {
  FILE.write(dataDir, states);
}

/** One line for a person. */
export function describe(state: SinkState, now: number): string {
  const {
    sink,
    size,
    at,
    failing_since: since,
    message,
    dropped,
    also_holds: other,
    lost_at: lostAt,
  } = state;
  const delivered =
    size === undefined || at === undefined
      ? 'it has taken none from this directory yet'
      : `the last was of ${counted(size)}, ${ago(now - Date.parse(at))} ago`;
  const lost =
    // A sink that contradicts the log gets no more, so that nothing newer will cover them there.
    dropped === undefined || dropped === 0 || state.state === 'forked'
      ? ''
      : `; ${dropped} could not wait any longer, and the newest covers them`;
  const shared = other === undefined ? '' : `; it ${sharedPlace(other)}`;
  const gone = lostAt === undefined ? '' : `; on ${lostAt} it ${LESS}`;
  if (state.state === 'ok') return `${sink} takes checkpoints; ${delivered}${lost}${shared}${gone}`;
  const how = state.state === 'forked' ? 'contradicts this ledger' : 'takes no checkpoints';
  const long = since === undefined ? '' : ` since ${since} (${ago(now - Date.parse(since))})`;
  return `${sink} ${how}${long}: ${message ?? 'nothing is known of why'}; ${delivered}${lost}${shared}${gone}`;
}

/** What to say of a sink that holds less than it was left with; follows the sink's name. */
export const LESS = 'held less than it was left with: it was cut, moved aside or deleted';

/** What to say of a sink in whose place checkpoints of another log lie; follows the sink's name. */
export function sharedPlace(origin: string): string {
  return `also holds checkpoints of the log ${origin}: give each log a place of its own`;
}

function counted(size: number): string {
  return `${size} ${size === 1 ? 'entry' : 'entries'}`;
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

function areSinkStates(value: unknown): value is SinkState[] {
  return Array.isArray(value) && value.every(isSinkState);
}

function isSinkState(value: unknown): value is SinkState {
  if (typeof value !== 'object' || value === null) return false;
  const states = value as Record<string, unknown>;
  const { sink, state, size, at, failing_since: since, message, dropped, also_holds: other } = states;
  const { lost_at: lostAt } = states;
  return (
    isLine(sink) &&
    STATES.includes(state) &&
    [size, dropped].every(
      (count) => count === undefined || (Number.isSafeInteger(count) && Number(count) >= 0),
    ) &&
    [at, since, lostAt].every((instant) => instant === undefined || isInstant(instant)) &&
    [message, other].every((line) => line === undefined || isLine(line))
  );
}
