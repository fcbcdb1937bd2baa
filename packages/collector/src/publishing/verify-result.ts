/** `checkpoints/verify.json`: what `collector verify --note` found last, for the console of a running collector. */
import { isInstant, StateFile } from './state-file.js';

/** Named as in the file. */
export interface VerifyResult {
  /** When it had been through: an instant, RFC 3339 in UTC. */
  readonly at: string;
  readonly intact: boolean;
  /** That the log held. */
  readonly events: number;
}

const FILE = new StateFile('verify.json', 'what collector verify found', isVerifyResult);

/**
 * @returns undefined when none was noted.
 * @throws StateFileDamaged that names the file, or the system's error when it cannot be read.
 */
export function readVerifyResult(dataDir: string): VerifyResult | undefined {
  return FILE.read(dataDir);
}

/** On return the file holds this. @throws the system's error. */
export function writeVerifyResult(dataDir: string, result: VerifyResult): void {
  FILE.write(dataDir, result);
}

function isVerifyResult(value: unknown): value is VerifyResult {
  if (typeof value !== 'object' || value === null) return false;
  const { at, intact, events } = value as Record<string, unknown>;
  return isInstant(at) && typeof intact === 'boolean' && Number.isSafeInteger(events) && Number(events) >= 0;
}
