/** The callbacks of the application, for problems that no call can report. */
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

/** Errors that a callback throws or rejects with are ignored. */
export interface Listeners {
  /** An event was not captured, whether or not its capture is awaited. */
  readonly onRefused?: ((refused: RefusedCapture) => void) | undefined;
  /** The collector refused an event permanently, and it is in the quarantine of the spool. */
  readonly onQuarantine?: ((quarantined: QuarantinedEvent) => void) | undefined;
  /**
   * All other problems, without event values. The same message is reported at most once a minute. By default
   * a warning of the process. Also called in place of a missing onRefused or onQuarantine.
   */
  readonly onTrouble?: ((what: string, error: unknown) => void) | undefined;
}

const SILENCE_MS = 60_000;
const WARNING = 'ClinicalEventsWarning';

interface SafeListeners {
  readonly onRefused: NonNullable<Listeners['onRefused']>;
  readonly onQuarantine: NonNullable<Listeners['onQuarantine']>;
  readonly onTrouble: NonNullable<Listeners['onTrouble']>;
  /**
   * Called at the end of the process: Node no longer prints warnings then, so problems go to standard error.
   */
  readonly ending: () => void;
}

/**
 * The callbacks with defaults for missing ones. None throws.
 * @param directory of the spool; undefined for a spool in memory, which reports refused events itself.
 */
export function listening(
  { onRefused, onQuarantine, onTrouble }: Listeners,
  directory: string | undefined,
): SafeListeners {
  let report: (what: string, error: unknown) => unknown = onTrouble ?? warn;
  const reported = new Map<string, number>();
  const trouble = (what: string, error: unknown): unknown => {
    const now = performance.now();
    if (now - (reported.get(what) ?? -Infinity) < SILENCE_MS) return undefined;
    for (const [old, at] of reported) if (now - at >= SILENCE_MS) reported.delete(old);
    reported.set(what, now);
    return report(what, error);
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
      if (!onTrouble) report = writeLine;
    },
  };
}

function kept({ kind, refusal: { status, code = '' } }: QuarantinedEvent, directory: string): string {
  const because = `${status} ${code}`.trimEnd();
  const see = `npx collector-spool show --events ${directory}`;
  return `an event (${kind}) was refused: ${because}. It is in quarantine; to list it: ${see}`;
}

function silent<Arguments extends readonly unknown[]>(
  callback: (...given: Arguments) => unknown,
): (...given: Arguments) => void {
  return (...given) => {
    try {
      isDroppedPromise(callback(...given));
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

/** Appends the message of the error. */
export function withReason(what: string, error: unknown): string {
  if (!(error instanceof Error)) return what;
  // The error of several failed addresses has a code and no message.
  const code = 'code' in error ? String(error.code) : error.name;
  return `${what}: ${error.message || code}`;
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : 'unknown';
}
