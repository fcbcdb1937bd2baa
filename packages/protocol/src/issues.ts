import type { Issue } from './generated/types.js';
import { EXPECTATIONS } from './generated/expectations.js';

/** The most issues reported of one event: an answer stays small however wrong the event is. */
export const MAX_ISSUES = 20;

/** What the generated validators say of a failed check; it holds nothing of the value that was checked. */
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
  // The fallback is for a generated file that is out of step with the other: an odd answer, not a crash.
  const message = EXPECTATIONS[check.instancePath] ?? 'is not valid';
  return { pointer: check.instancePath, rule: check.keyword, message };
}

/**
 * The failed checks in the order of the schema, one issue a field, no more than MAX_ISSUES.
 *
 * A field that fails two checks (no integer and out of range) is reported once, as its message already says
 * all that it must be. Pointers and messages come from the schemas alone. So an issue cannot contain a value
 * of the event, nor the name of a field that the schemas do not know.
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
