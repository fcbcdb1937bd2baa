/** The access log in words, for `verify`, `doctor` and `restore`. */
import { counted } from '../store/embedded/inspection.js';
import type { AccessLogState } from './access-log-check.js';
import type { VerifyFinding } from './verify-findings.js';

/** What became of the readings at each restore: no fault, and to be known. */
export function restoreFindings({ restores }: AccessLogState): VerifyFinding[] {
  return restores.map(({ at, lines, backup, signedBefore }) => {
    const lost =
      signedBefore === undefined
        ? 'what was noted between that back-up and the restore is not here'
        : `a checkpoint given was signed over ${signedBefore}, so ${counted(signedBefore - lines, 'line')} noted after that back-up did not come back`;
    const message = `access.log goes on since ${at} from the ${counted(lines, 'line')} of the back-up ${backup}: ${lost}`;
    return { kind: 'note', file: 'access.log', message };
  });
}

/** On a line of a person's: how far the log is signed, and what is not known of its readings. */
export function accessLogText({ lines, signed, unended, last, adopted, restores }: AccessLogState): string {
  if (lines === 0) return 'no reading was noted';
  const unsigned = lines - signed;
  return [
    `${counted(lines, 'line')}${unsigned <= 0 ? '' : `, ${unsigned} of them under no checkpoint`}`,
    ...(unended === 0 ? [] : [`${counted(unended, 'reading')} not noted to have ended`]),
    ...(adopted === undefined ? [] : [`nothing proves those before ${adopted.at}`]),
    ...restores.slice(-1).map(({ at }) => `restored from a back-up on ${at}`),
    ...(last === undefined ? [] : [`the last began at ${last}`]),
  ].join('; ');
}
