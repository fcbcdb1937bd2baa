/** Errors of reading in words for the person who looks and for the operator. */
import { CatalogueDamaged, CatalogueFault } from '@clinical-events/collector/catalogue/catalogue';
import { CommandFailure, deniedPath } from '@clinical-events/collector/commands/exit-codes';
import { StoreDamaged } from '@clinical-events/collector/store/contract/events';
import { systemCode } from '@clinical-events/collector/system-code';
import { Unusable } from '@clinical-events/collector/unusable';
import { KeysAway } from './opened-log.js';

export const NO_LOG = 'There is no log yet. The list appears when the collector has stored the first event.';
export const BUSY = 'The viewer has too many open questions. Try again in a minute.';
export const UPDATING = 'The list of runs is being updated. Try again in a minute.';
export const UNSIGNED = 'The event is not in a signed checkpoint yet. Try again in a few seconds.';
export const AGAIN = 'The list of runs was damaged and is being made again. Try again in a minute.';
export const TOO_LARGE =
  'This run is too large for a page. Its operator can read it with collector records --run.';
export const STOPPED = 'The part of the viewer that reads the log has stopped and starts again. Try again.';
export const KEYS_AWAY =
  'The list of runs cannot be made, because the keys of the payloads cannot be read. It is made when the ' +
  'keys are back.';

export function buildingText(progress: number): string {
  return `The list of runs is being made: ${Math.floor(100 * progress)} % of the log is read.`;
}

/**
 * The reason why the log cannot be read, in a sentence. Messages of other errors are left out, because they
 * could quote an event.
 */
export function sentenceOf(error: unknown): string {
  const denied = deniedPath(error);
  if (denied !== undefined)
    return (
      `${denied} cannot be opened by the user of collector-viewer: start the collector with ` +
      '--read-group, and add the user of collector-viewer to that group.'
    );
  if (error instanceof StoreDamaged) return `The log is damaged: ${error.message}. See collector verify.`;
  if (error instanceof KeysAway) return KEYS_AWAY;
  if (error instanceof CatalogueDamaged) return AGAIN;
  if (error instanceof CatalogueFault || error instanceof CommandFailure || error instanceof Unusable)
    return `${capital(error.message)}.`;
  const code = systemCode(error);
  if (code === undefined) return 'The log cannot be read because of a fault in the viewer.';
  // In a wrong directory, the file that is missing there.
  const { path = '' } = error as NodeJS.ErrnoException;
  return `The log cannot be read (${code}${path && `: ${path}`}).`;
}

/** For the log of the viewer: the class of an error, its code and where it was thrown. */
export function traceOf(error: unknown): string {
  if (!(error instanceof Error)) return 'not an error';
  const [, place = 'unknown place'] = /\n\s+at (.*)/.exec(error.stack ?? '') ?? [];
  return `${error.name} ${systemCode(error) ?? ''} at ${place}`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, '');
}
