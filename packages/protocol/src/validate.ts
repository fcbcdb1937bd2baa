/** Validation of events. Apart from the index: the generated validators are the largest part of the package. */
import { EXPECTATIONS } from './generated/expectations.js';
import type { Issue } from './generated/types.js';
import { validators } from './generated/validators.js';
import { issuesOf } from './issues.js';
import type { EventKind, Profile } from './kinds.js';

export { MAX_ISSUES } from './issues.js';

/**
 * Checks a parsed JSON value against the schema of an event kind under a profile.
 *
 * Returns undefined when the value is valid, and allocates nothing then; else the faults found, at least one
 * and at most MAX_ISSUES, in a stable order. Never throws on a value that JSON can spell, never changes the
 * value, and keeps no reference to it. Fields that the schemas do not name are not looked at.
 */
export function validateEvent(
  kind: EventKind,
  profile: Profile,
  value: unknown,
): readonly Issue[] | undefined {
  const validate = validators[kind][profile];
  return validate(value) ? undefined : issuesOf(validate.errors ?? []);
}

/** Pointers to all fields that the schemas name, in any kind and profile: an event's validity depends on these alone. */
export const NAMED_FIELDS: readonly string[] = Object.keys(EXPECTATIONS).filter((pointer) => pointer !== '');
