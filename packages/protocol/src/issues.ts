import type { Issue } from './generated/types.js';
import { EXPECTATIONS } from './generated/expectations.js';

/** The most issues reported per event, which keeps answers small. */
export const MAX_ISSUES = 20;

/** A failed check as the generated validators report it; it contains nothing of the checked value. */
export interface FailedCheck {
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: Readonly<Record<string, unknown>>;
}

function issueOf(check: FailedCheck): Issue {
  if (check.keyword === 'required') {
    const pointer = `${check.instancePath}/${String(check.params['missingProperty'])}`;
    return { pointer, rule: 'required', message: 'is required' };
  }
  // The fallback covers generated files of different versions: an odd answer is better than a crash.
  const message = EXPECTATIONS[check.instancePath] ?? 'is not valid';
  return { pointer: check.instancePath, rule: check.keyword, message };
}

/**
 * The failed checks in the order of the schema, one issue per field, at most MAX_ISSUES.
 *
 * A field that fails two checks (not an integer and out of range) is reported once, because its message
 * states every requirement. Pointers and messages come from the schemas alone, so an issue cannot contain a
 * value of the event or the name of an unknown field.
 */
export function issuesOf(checks: readonly FailedCheck[]): readonly Issue[] {
  const issues = new Map<string, Issue>();
  for (const check of checks) {
    if (issues.size === MAX_ISSUES) break;
    const issue = issueOf(check);
    if (!issues.has(issue.pointer)) issues.set(issue.pointer, issue);
  }
  return [...issues.values()];
}
