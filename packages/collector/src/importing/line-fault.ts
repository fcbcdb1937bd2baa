/** Why a line of an import was not stored. */
import type { ErrorCode } from '@clinical-events/protocol';

/**
 * The codes that HTTP answers with, and what can be wrong with a line alone:
 *   `kind_missing`     the line is an event, and nobody has said of which kind
 *   `wrapper_invalid`  a member of the line around the event is faulty; `details.issues` names it
 *   `sha256_mismatch`  the body is not the one that was hashed when the line was written
 */
export type LineFaultCode = ErrorCode | 'kind_missing' | 'wrapper_invalid' | 'sha256_mismatch';

export interface LineFault {
  readonly code: LineFaultCode;
  /** Never holds a value of the event. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** When it is known and a UUID. */
  readonly eventId?: string | undefined;
}

/**
 * What became of the line. `rejected`: it is faulty. `conflict`: another event with its id is stored, and stands.
 * `unreadable`: an event with its id seems to be stored, in a place that cannot be read.
 */
type RefusedOutcome = 'rejected' | 'conflict' | 'unreadable';

/** A line that was not stored, as the reject file tells of it. */
export interface Refusal extends LineFault {
  /** 0 when the whole input is meant. */
  readonly line: number;
  readonly outcome: RefusedOutcome;
  /** The exact line without its ending; undefined when it was too long to be held. */
  readonly bytes: Uint8Array | undefined;
}
