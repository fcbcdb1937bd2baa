/** Why an event was not captured. None of these repeats a value of the event, which may be patient data. */
import type { Issue } from '@clinical-events/protocol';

/** The event is not one that a collector would take. */
export class EventInvalid extends Error {
  override name = 'EventInvalid';
  /**
   * As the collector would have answered; `not_json` for what cannot be written as JSON at all, `unknown_name` for what a
   * call was told under a name that it does not have.
   */
  readonly code: 'validation_failed' | 'body_too_large' | 'nesting_too_deep' | 'not_json' | 'unknown_name';
  /** With `validation_failed`: the faults, as the collector would have named them. */
  readonly issues: readonly Issue[];

  constructor(code: EventInvalid['code'], message: string, issues: readonly Issue[] = []) {
    super(message);
    this.code = code;
    this.issues = issues;
  }
}

/** The client has been closed. */
export class ClientClosed extends Error {
  override name = 'ClientClosed';
}

/** What the event refers to could not be stored, so the event was not captured either. */
export class ContentNotStored extends Error {
  override name = 'ContentNotStored';
}
