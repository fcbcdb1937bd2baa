/** What an operator types to say which events are meant, read strictly. Each function throws a usage failure. */
import { didYouMean, EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { isOrganisation } from '../access/issuing.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { usage } from './key-arguments.js';

/** No key belongs to a name of another form. So a script's empty variable is a fault, and not an empty answer. */
export function organisationFrom(text: string): string {
  if (isOrganisation(text)) return text;
  throw usage(`--organisation: ${JSON.stringify(text)} is not 1 to 64 characters of A-Z a-z 0-9 . _ -`);
}

/** Kinds with commas between them. */
export function kindsFrom(text: string): ReadonlySet<EventKind> {
  const known: readonly string[] = EVENT_KINDS;
  const kinds = text.split(',').map((name) => name.trim());
  const unknown = kinds.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw usage(
      `--kind: ${JSON.stringify(unknown)} is none of ${EVENT_KINDS.join(', ')}${didYouMean(unknown, EVENT_KINDS)}`,
    );
  }
  return new Set(kinds as EventKind[]);
}

/**
 * A UUID, in any case.
 * @param argument what it was given as, for the message.
 * @returns its lower-case form.
 */
export function idFrom(argument: string, text: string): string {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) {
    throw usage(`${argument}: ${JSON.stringify(text)} is not a UUID`);
  }
  return text.toLowerCase();
}

/** A date stands for its beginning in UTC; anything longer has to say its offset. */
export function instantFrom(option: string, text: string): number {
  const shape = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/i;
  const instant = shape.test(text) ? Date.parse(text) : Number.NaN;
  // Date.parse takes 31 February for 3 March.
  const day = Date.parse(text.slice(0, 10));
  if (Number.isNaN(instant) || new Date(day).getUTCDate() !== Number(text.slice(8, 10))) {
    throw usage(
      `${option}: ${JSON.stringify(text)} is neither a date (2026-01-31) nor an instant (2026-01-31T12:00:00Z)`,
    );
  }
  return instant;
}

/** What was asked for by its id. */
export interface AskedFor {
  readonly what: 'event' | 'run';
  readonly id: string;
  readonly dataDir: string;
  /** Whether other options leave some of the log out, in which it may be. */
  readonly isNarrowed?: boolean;
}

/** The one sentence of all commands for an id that is not there; with exit code 6. */
export function notThere({ what, id, dataDir, isNarrowed = false }: AskedFor): CommandFailure {
  const narrowed = isNarrowed ? ' with what the other options ask for' : '';
  return new CommandFailure(`there is no ${what} ${id} in ${dataDir}${narrowed}`, EXIT.notFound);
}
