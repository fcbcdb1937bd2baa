/**
 * Erasures taken off this host: each entry of the log that retires events as a file with its proof, to be kept where the
 * checkpoints are kept. An older state of the log that is restored with an older copy of the keys knows nothing of them,
 * and learns it from these files. They name no person.
 */
import fs from 'node:fs';
import path from 'node:path';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { checkProof } from '@clinical-events/protocol/verify';
import { exists, nodeFiles } from '../../files.js';
import { type TakenKeys } from '../../privacy/key-directory.js';
import { actionIn, takenBy } from '../../privacy/actions.js';
import type { ErasedSince } from '../../store/log-audit.js';
import { rotationPaths } from '../../transparency/key-files.js';
import { CommandFailure, EXIT } from '../exit-codes.js';

export const FORMAT = 'clinical-events/action-proof/v1';
/** Of two states of a log entries of one number are different ones: the name has the beginning of the entry's id too. */
const NAME = /^\d{16}-[0-9a-f]{8}\.action$/;
/** Of a part of an action and its proof, by far. */
const MOST_BYTES = 4 << 20;

/** An erasure of a later state of the log. */
export interface ProvedAction {
  /** Of its entry. */
  readonly sequence: number;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly action: string;
  readonly body: object;
  readonly taken: readonly TakenKeys[];
}

/**
 * The erasures whose files lie in some directories, in the order of the log.
 * @param keys verifier keys of the log that are trusted. @param rotations notes besides those in `dataDir`.
 * @throws CommandFailure for a directory that is not there, and for a file that is no proved action of this log.
 */
export async function readActions(
  directories: readonly string[],
  dataDir: string,
  keys: readonly string[],
  rotations: readonly string[],
): Promise<ProvedAction[]> {
  if (directories.length === 0) return [];
  const all = [...rotations, ...rotationPaths(dataDir).map((file) => fs.readFileSync(file, 'utf8'))];
  const found = new Map<string, ProvedAction>();
  for (const directory of directories) {
    if (!exists(directory)) throw new CommandFailure(`there is no directory ${directory}`, EXIT.notFound);
    for (const name of nodeFiles.list(directory)) {
      if (!NAME.test(name)) continue;
      const action = await readAction(path.join(directory, name), keys, all);
      found.set(name, action);
    }
  }
  return [...found.values()].sort((a, b) => a.sequence - b.sequence);
}

/** What a file of an erasure holds; undefined for bytes that are none. @throws SyntaxError for what is not JSON. */
export function actionProofIn(bytes: Buffer): { readonly body: Buffer; readonly proof: string } | undefined {
  const read = Object(JSON.parse(bytes.toString())) as Record<string, unknown>;
  const { format, body, proof } = read;
  if (format !== FORMAT || typeof body !== 'string' || typeof proof !== 'string') return undefined;
  return { body: Buffer.from(body), proof };
}

export function erasuresOf(proved: readonly ProvedAction[]): ErasedSince[] {
  return proved.map(({ taken, sequence }) => ({ keys: taken, entry: sequence }));
}

async function readAction(
  file: string,
  keys: readonly string[],
  rotations: readonly string[],
): Promise<ProvedAction> {
  const unfit = (why: string) =>
    new CommandFailure(`${file} is no erasure that this log has signed: ${why}`, EXIT.damaged);
  const stat = fs.statSync(file);
  if (!stat.isFile() || stat.size > MOST_BYTES) throw unfit('it is no file of that kind');
  let found: ReturnType<typeof actionProofIn>;
  try {
    found = actionProofIn(fs.readFileSync(file));
  } catch (error) {
    if (error instanceof SyntaxError) throw unfit('it is not JSON');
    throw error;
  }
  if (found === undefined) throw unfit(`it is not in the form ${FORMAT}`);
  const { body, proof } = found;
  const verdict = await checkProof({ proof, body, keys, rotations });
  if (!verdict.valid) throw unfit(verdict.message);
  const taken = takenBy([body]);
  const says = actionIn(body);
  if (verdict.envelope.kind !== ENTRY_KINDS.lifecycleAction || says === undefined || taken.length === 0)
    throw unfit('the entry that it proves erases nothing');
  const { index, envelope } = verdict;
  return {
    sequence: index + 1,
    at: envelope.receivedAt,
    action: says.action,
    body: Object(JSON.parse(body.toString())) as object,
    taken,
  };
}
