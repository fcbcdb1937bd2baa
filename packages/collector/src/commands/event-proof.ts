/**
 * Makes the proof of one event from a data directory, also while a collector runs.
 *
 * The proof is checked with the log's keys before it is returned, so a damaged tree or a changed event never
 * yields one.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { SALT_BYTES } from '@clinical-events/protocol';
import { checkProof, formatProof, rootFromInclusion } from '@clinical-events/protocol/verify';
import { Catalogue, CatalogueFault, catalogueDirectory } from '../catalogue/catalogue.js';
import { exists } from '../files.js';
import { HASH_BYTES, TilesIncomplete, commitmentOf, inclusionProof, leafHash } from '../tree/merkle.js';
import type { SoughtId, StoredEntry } from '../store/contract/events.js';
import type { TreeReader } from '../store/contract/tree.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import type { LogReading } from './log-reading.js';
import {
  type SignedCheckpoint,
  cosigners,
  newestCheckpoint,
  newestCosigned,
} from './verify/log-checkpoints.js';
import { notThere } from './arguments.js';

/** How long a command waits for a checkpoint that covers the event. */
const PATIENCE_MS = 5000;
const LOOK_EVERY_MS = 100;

export interface EventProof {
  readonly event: StoredEntry;
  /** The proof file. */
  readonly proof: string;
  readonly checkpoint: SignedCheckpoint;
  /** The key of the log that signed the checkpoint. */
  readonly verifierKey: string;
  /** Cosigners, by name and key id. */
  readonly cosignedBy: readonly string[];
}

/** Thrown if no checkpoint covers the event yet. */
export class NotSignedYet extends CommandFailure {
  override name = 'NotSignedYet';
}

/** How to wait for a checkpoint, and where warnings about files go. */
export interface Proving {
  readonly waitMs: number;
  readonly warn: (message: string) => void;
}

const OF_A_COMMAND: Proving = {
  waitMs: PATIENCE_MS,
  warn: (message) => process.stderr.write(`collector: warning: ${message}\n`),
};

/**
 * If no checkpoint covers the event yet and a collector runs, waits for one.
 * @param eventId in lower case.
 * @throws CommandFailure if there is no such event, more than one, or no valid proof.
 */
export async function proveEvent(
  reading: ProvenLog,
  eventId: string,
  organisation?: string,
  proving = OF_A_COMMAND,
): Promise<EventProof> {
  const known = organisation === undefined ? knownOrganisations(reading) : [];
  return proofOf(reading, await theEvent(reading, { eventId, organisation, known }), proving);
}

export type ProvenLog = Omit<LogReading, 'givenOut' | 'claimed'>;

/** @throws CommandFailure unless exactly one event has the id. */
async function theEvent({ dataDir, place, tree, events }: ProvenLog, sought: SoughtId): Promise<StoredEntry> {
  const { eventId, organisation } = sought;
  // Read before the log, which must then contain everything that was signed.
  const signed = (await newestCheckpoint(dataDir, tree))?.newest.checkpoint.size ?? 0;
  const found = await events.withId(sought);
  const [event, another] = found.entries;
  if (another !== undefined) {
    const names = found.entries.map((each) => each.organisation).sort();
    throw usage(`several organisations have an event ${eventId}: give --organisation (${names.join(', ')})`);
  }
  if (event === undefined && found.nextSequence <= signed) {
    throw new CommandFailure(
      `the log can be read up to entry ${found.nextSequence - 1} only, but a checkpoint covers ${signed} ` +
        'entries; see collector verify',
      EXIT.damaged,
    );
  }
  if (event === undefined) {
    throw notThere({ what: 'event', id: eventId, dataDir: place, isNarrowed: organisation !== undefined });
  }
  if (event.payloadState === 'encrypted') {
    throw new CommandFailure(
      `the payload of event ${eventId} is encrypted and its key is not available, so its body cannot be ` +
        'proved',
      EXIT.failure,
    );
  }
  return event;
}

/** The organisations to try first: a hint that saves reading the log. */
function knownOrganisations({ dataDir, files }: ProvenLog): string[] {
  const directory = catalogueDirectory(dataDir);
  if (files === undefined || !exists(directory)) return [];
  let catalogue: Catalogue | undefined;
  try {
    catalogue = Catalogue.open({ directory, ledgerId: files.ledgerId, names: files.names });
    return catalogue.organisations();
  } catch (error) {
    if (error instanceof CatalogueFault) return [];
    throw error;
  } finally {
    catalogue?.close();
  }
}

/** @throws CommandFailure if no checkpoint covers the event, or the proof is not valid. */
async function proofOf(log: ProvenLog, event: StoredEntry, proving: Proving): Promise<EventProof> {
  const { tree } = log;
  const { checkpoint, keys } = await checkpointOver(log, event, proving);
  const index = event.sequence - 1;
  const isErased = event.payloadState === 'erased';
  const auditPath = await pathOf(event, checkpoint, tree);
  const proof = formatProof({
    extra: Buffer.concat([
      event.envelope,
      isErased ? event.commitment : event.salted.subarray(0, SALT_BYTES),
    ]),
    index,
    path: auditPath,
    checkpoint: checkpoint.note,
  });
  // Newest first: the verdict names the first key that has signed.
  const vkeys = keys.map(({ vkey }) => vkey).reverse();
  const verdict = await checkProof({ proof, keys: vkeys, ...(!isErased && { body: event.body }) });
  if (!verdict.valid) {
    const { reason, message } = verdict;
    const damage =
      reason === 'event-differs' ? await damageOf(event, checkpoint, tree, auditPath) : undefined;
    throw notProvable(event, damage ?? message);
  }
  return {
    ...{ event, proof, checkpoint, verifierKey: verdict.signedBy },
    cosignedBy: cosigners(checkpoint.note, { keys }),
  };
}

/** A checkpoint that covers the event; waits for the collector to sign one. */
async function checkpointOver(
  { dataDir, tree, mayBeSigned }: ProvenLog,
  { sequence, eventId }: StoredEntry,
  { waitMs, warn }: Proving,
) {
  for (let waited = 0; ; waited += LOOK_EVERY_MS) {
    const found = await newestCheckpoint(dataDir, tree);
    if (found !== undefined && found.newest.checkpoint.size >= sequence) {
      const { history, newest } = found;
      return { keys: history.keys, checkpoint: newestCosigned(dataDir, history, sequence, warn) ?? newest };
    }
    const running = mayBeSigned();
    if (!running || waited >= waitMs) {
      throw new NotSignedYet(
        `event ${sequence} (${eventId}) is not covered by a checkpoint yet, ` +
          (running
            ? `although the command waited ${waitMs / 1000} s: try again, and look at the collector's ` +
              'log'
            : 'and no collector is running: the next one signs it when it starts'),
        EXIT.failure,
      );
    }
    await sleep(LOOK_EVERY_MS);
  }
}

async function pathOf(
  event: StoredEntry,
  { checkpoint }: SignedCheckpoint,
  tree: TreeReader,
): Promise<Buffer[]> {
  try {
    return await inclusionProof(tree, event.sequence - 1, checkpoint.size);
  } catch (error) {
    if (error instanceof TilesIncomplete) throw notProvable(event, error.message, error);
    throw error;
  }
}

/** Reports whether the event or the tree does not match the signed root; undefined if both do. */
async function damageOf(
  { sequence, envelope, salted, commitment }: StoredEntry,
  { checkpoint: { size, root } }: SignedCheckpoint,
  tree: TreeReader,
  auditPath: readonly Buffer[],
): Promise<string | undefined> {
  const stored = await tree.hashes(0, sequence - 1, 1);
  const reached = await rootFromInclusion(stored, sequence - 1, size, auditPath);
  const found = commitmentOf(salted);
  if (reached !== undefined && Buffer.from(root).equals(reached)) {
    const own = Buffer.alloc(HASH_BYTES);
    leafHash(envelope, found, own, 0);
    return own.equals(stored) ? undefined : `event ${sequence} in the log is not the one that was signed`;
  }
  return found.equals(commitment)
    ? `the hashes in tree/ do not lead from event ${sequence} to the signed root`
    : `neither event ${sequence} nor the hashes in tree/ match what was signed`;
}

function notProvable({ sequence, eventId }: StoredEntry, reason: string, cause?: unknown): CommandFailure {
  return new CommandFailure(
    `event ${sequence} (${eventId}) cannot be proved: ${reason.replace(/\.$/, '')}; see collector verify`,
    EXIT.damaged,
    { cause },
  );
}
