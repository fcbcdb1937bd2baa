/**
 * Makes the proof of one event from what stands in a data directory, beside a running collector or without one.
 *
 * Before anybody gets it the proof is checked, against the keys of the log and as its reader will: so a damaged tree,
 * or an event that was changed, never yields one.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { SALT_BYTES } from '@clinical-events/protocol';
import { checkProof, formatProof, rootFromInclusion } from '@clinical-events/protocol/verify';
import { Catalogue, CatalogueFault, catalogueDirectory } from '../catalogue/catalogue.js';
import { exists } from '../files.js';
import { commitmentOf, HASH_BYTES, inclusionProof, leafHash, TilesIncomplete } from '../integrity/merkle.js';
import { isLocked, KeyDatabase, keyDatabasePath, openStore } from '../store/open.js';
import type { FoundEntries } from '../store/event-log.js';
import { KeyStoreError } from '../store/key-store.js';
import { StoreDamaged, type StoredEntry } from '../store/store.js';
import type { TreeReader } from '../store/tree-store.js';
import { notThere } from './event-arguments.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { usage } from './key-arguments.js';
import { cosigners, newestCheckpoint, newestCosigned, type SignedCheckpoint } from './log-checkpoints.js';

/** How long an event's checkpoint is waited for. */
const PATIENCE_MS = 5000;
const LOOK_EVERY_MS = 100;

export interface EventProof {
  readonly event: StoredEntry;
  /** The proof file. */
  readonly proof: string;
  readonly checkpoint: SignedCheckpoint;
  /** The key of the log that signed the checkpoint. */
  readonly verifierKey: string;
  /** Who else has, by name and key id. */
  readonly cosignedBy: readonly string[];
}

/**
 * Waits for the collector, if one runs, to sign a checkpoint when none covers the event yet.
 * @param eventId lower-case text form.
 * @throws CommandFailure when there is no such event, more than one, or no proof of it that holds.
 */
export async function proveEvent(
  dataDir: string,
  eventId: string,
  organisation?: string,
): Promise<EventProof> {
  const tree = openStore(dataDir).tree;
  try {
    const event = await theEvent(dataDir, tree, eventId, organisation);
    return await proofOf(dataDir, event, tree);
  } finally {
    await tree.close();
  }
}

/** @throws CommandFailure when there is none, or more than one. */
async function theEvent(
  dataDir: string,
  tree: TreeReader,
  eventId: string,
  organisation: string | undefined,
): Promise<StoredEntry> {
  // Before the log is read: what was signed by then can be found in it.
  const signed = (await newestCheckpoint(dataDir, tree))?.newest.checkpoint.size ?? 0;
  let found: FoundEntries;
  const log = openStore(dataDir).events;
  const known = organisation === undefined ? await knownOrganisations(dataDir, log.ledgerId) : [];
  try {
    found = await log.withId({ eventId, organisation, known });
  } catch (error) {
    if (error instanceof StoreDamaged)
      throw new CommandFailure(error.message, EXIT.damaged, { cause: error });
    throw error;
  } finally {
    await log.close();
  }
  const [event, another] = found.entries;
  if (another !== undefined) {
    const names = found.entries.map((each) => each.organisation).sort();
    throw usage(
      `several organisations have an event ${eventId}: give --organisation, one of ${names.join(', ')}`,
    );
  }
  if (event === undefined && found.nextSequence <= signed) {
    throw new CommandFailure(
      `the log can be read up to entry ${found.nextSequence - 1} only, and a checkpoint was signed over ${signed}; ` +
        'see collector verify',
      EXIT.damaged,
    );
  }
  if (event === undefined) {
    throw notThere({ what: 'event', id: eventId, dataDir, isNarrowed: organisation !== undefined });
  }
  if (event.payloadState !== 'plain') {
    throw new CommandFailure(
      `the payload of event ${eventId} is ${event.payloadState}: there is nothing left to prove the body by`,
      EXIT.failure,
    );
  }
  return event;
}

/** They only spare the reading of the whole log: without the keys an event is found as well. */
/** Where an event is looked for first: a hint, so that the log does not have to be read for it. */
async function knownOrganisations(dataDir: string, ledgerId: string): Promise<string[]> {
  const directory = catalogueDirectory(dataDir);
  const known = await organisationsWithKeys(dataDir);
  if (!exists(directory)) return known;
  let catalogue: Catalogue | undefined;
  try {
    catalogue = Catalogue.open({ directory, ledgerId });
    return [...known, ...catalogue.organisations()];
  } catch (error) {
    if (error instanceof CatalogueFault) return known;
    throw error;
  } finally {
    catalogue?.close();
  }
}

async function organisationsWithKeys(dataDir: string): Promise<string[]> {
  if (!exists(keyDatabasePath(dataDir))) return [];
  try {
    const database = KeyDatabase.openReadOnly(dataDir);
    try {
      return (await database.list()).map(({ organisation }) => organisation);
    } finally {
      await database.close();
    }
  } catch (error) {
    if (error instanceof KeyStoreError) return [];
    throw error;
  }
}

/** @throws CommandFailure when no checkpoint covers the event, or the proof does not hold. */
async function proofOf(dataDir: string, event: StoredEntry, tree: TreeReader): Promise<EventProof> {
  const { checkpoint, keys } = await checkpointOver(dataDir, event, tree);
  const index = event.sequence - 1;
  const auditPath = await pathOf(event, checkpoint, tree);
  const proof = formatProof({
    extra: Buffer.concat([event.envelope, event.salted.subarray(0, SALT_BYTES)]),
    index,
    path: auditPath,
    checkpoint: checkpoint.note,
  });
  // The newest first: it is the one to be named when several have signed.
  const vkeys = keys.map(({ vkey }) => vkey).reverse();
  const verdict = await checkProof({ proof, body: event.body, keys: vkeys });
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

/** Waits for the collector to sign one when there is none yet. */
async function checkpointOver(dataDir: string, { sequence, eventId }: StoredEntry, tree: TreeReader) {
  const warn = (message: string) => process.stderr.write(`collector: warning: ${message}\n`);
  for (let waited = 0; ; waited += LOOK_EVERY_MS) {
    const found = await newestCheckpoint(dataDir, tree);
    if (found !== undefined && found.newest.checkpoint.size >= sequence) {
      const { history, newest } = found;
      return { keys: history.keys, checkpoint: newestCosigned(dataDir, history, sequence, warn) ?? newest };
    }
    const running = isLocked(dataDir);
    if (!running || waited >= PATIENCE_MS) {
      throw new CommandFailure(
        `event ${sequence} (${eventId}) is not under a checkpoint yet, ` +
          (running
            ? `although ${PATIENCE_MS / 1000} s were waited for one: try again, and look at the collector's log`
            : 'and no collector runs: the next start of one signs it'),
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

/** What it is that does not lead to the signed root: the tree, if it is not the event. Undefined when both do. */
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
    return own.equals(stored)
      ? undefined
      : `event ${sequence}, as it is stored, is not the one that was signed`;
  }
  return found.equals(commitment)
    ? `the hashes in tree/ do not lead from event ${sequence} to the signed root`
    : `neither event ${sequence} nor the hashes in tree/ are what was signed`;
}

function notProvable({ sequence, eventId }: StoredEntry, reason: string, cause?: unknown): CommandFailure {
  return new CommandFailure(
    `event ${sequence} (${eventId}) cannot be proved: ${reason.replace(/\.$/, '')}; see collector verify`,
    EXIT.damaged,
    { cause },
  );
}
