/** Those in the host application who are told what no call can report. */
import { performance } from 'node:perf_hooks';
import fs from 'node:fs';
import type { EventKind } from '@clinical-events/protocol';
import { isDroppedPromise } from './hostile-values.js';
import type { Refusal } from './spool/spool.js';

export interface RefusedCapture {
  readonly kind: EventKind;
  readonly eventId: string;
  /** EventInvalid, ContentNotStored, ClientClosed, SpoolFull or SpoolUnwritable. */
  readonly error: unknown;
}

export interface QuarantinedEvent {
  readonly kind: EventKind;
  readonly eventId: string | undefined;
  readonly refusal: Refusal;
}

/** What one of these throws, or a promise of it rejects with, goes nowhere: no one could act on it. */
export interface Listeners {
  /** An event was not captured, whether or not someone awaits it. */
  readonly onRefused?: ((refused: RefusedCapture) => void) | undefined;
  /** The collector will never take an event; it stands in the quarantine of the spool. */
  readonly onQuarantine?: ((quarantined: QuarantinedEvent) => void) | undefined;
  /**
   * All else, as sentences without values of events, the same one once a minute at most. A warning of the process when
   * it is not given. Refusals and quarantine are told here when no one else is told of them.
   */
  readonly onTrouble?: ((what: string, error: unknown) => void) | undefined;
}

const SILENCE_MS = 60_000;
const WARNING = 'ClinicalEventsWarning';

interface SafeListeners {
  readonly onRefused: NonNullable<Listeners['onRefused']>;
  readonly onQuarantine: NonNullable<Listeners['onQuarantine']>;
  readonly onTrouble: NonNullable<Listeners['onTrouble']>;
  /** The process ends: a warning would not be printed any more, so a line on standard error takes its place. */
  readonly ending: () => void;
}

/**
 * The listeners as the client calls them: each is there, and none throws.
 * @param directory of the spool; undefined when it is in memory, which has no quarantine and says so itself.
 */
export function listening(
  { onRefused, onQuarantine, onTrouble }: Listeners,
  directory: string | undefined,
): SafeListeners {
  let tell: (what: string, error: unknown) => unknown = onTrouble ?? warn;
  const told = new Map<string, number>();
  const trouble = (what: string, error: unknown): unknown => {
    const now = performance.now();
    if (now - (told.get(what) ?? -Infinity) < SILENCE_MS) return undefined;
    for (const [old, at] of told) if (now - at >= SILENCE_MS) told.delete(old);
    told.set(what, now);
    return tell(what, error);
  };
  return {
    onTrouble: silent(trouble),
    onRefused: silent(
      onRefused ??
        (({ kind, error }) => trouble(`an event (${kind}) was not captured: ${nameOf(error)}`, error)),
    ),
    onQuarantine: silent(
      onQuarantine ??
        ((quarantined) =>
          directory === undefined ? undefined : trouble(kept(quarantined, directory), undefined)),
    ),
    ending: () => {
      if (!onTrouble) tell = writeLine;
    },
  };
}

function kept({ kind, refusal: { status, code = '' } }: QuarantinedEvent, directory: string): string {
  const because = `${status} ${code}`.trimEnd();
  const see = `npx collector-spool show --events ${directory}`;
  return `an event (${kind}) was refused: ${because}. It is kept in quarantine; to see it: ${see}`;
}

function silent<Arguments extends readonly unknown[]>(
  tell: (...told: Arguments) => unknown,
): (...told: Arguments) => void {
  return (...told) => {
    try {
      isDroppedPromise(tell(...told));
    } catch {
      // See `Listeners`.
    }
  };
}

function warn(what: string, error: unknown): void {
  process.emitWarning(withReason(what, error), WARNING);
}

function writeLine(what: string, error: unknown): void {
  fs.writeSync(2, `${WARNING}: ${withReason(what, error)}\n`);
}

/** The sentence, and behind it what the error says. */
export function withReason(what: string, error: unknown): string {
  if (!(error instanceof Error)) return what;
  // Of several addresses that were tried in vain Node says nothing but the code.
  const code = 'code' in error ? String(error.code) : error.name;
  return `${what}: ${error.message || code}`;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : 'unknown';
}
