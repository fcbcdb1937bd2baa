/** Validation of events. Separate from the index, because the generated validators are the largest part. */
import { EXPECTATIONS } from './generated/expectations.js';
import type { Issue } from './generated/types.js';
import { validators } from './generated/validators.js';
import { issuesOf } from './issues.js';
import type { EventKind, Profile } from './kinds.js';

export { MAX_ISSUES } from './issues.js';

/**
 * Checks a parsed JSON value against the schema of an event kind under a profile.
 *
 * Returns undefined when the value is valid, without allocating; otherwise the faults, at least one and at
 * most MAX_ISSUES, in a stable order. Never throws for a JSON value, never changes it, and keeps no reference
 * to it. Fields that the schemas do not name are ignored.
 */
export function validateEvent(
  kind: EventKind,
  profile: Profile,
  value: unknown,
): readonly Issue[] | undefined {
  const validate = validators[kind][profile];
  return validate(value) ? undefined : issuesOf(validate.errors ?? []);
}

/** Pointers to all fields that the schemas name, in any kind and profile: validity depends on these alone. */
export const NAMED_FIELDS: readonly string[] = Object.keys(EXPECTATIONS).filter((pointer) => pointer !== '');
