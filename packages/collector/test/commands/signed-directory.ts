/** Data directories with events, their tree and signed checkpoints, made without a collector. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { type EventProof, proveEvent } from '../../src/commands/event-proof.js';
import { AccessLogHeads } from '../../src/ledger/access-log-heads.js';
import { Sequencer } from '../../src/ledger/sequencer.js';
import { SigningKeys } from '../../src/tree/signing-keys.js';
import { EmbeddedStore, type Encryption } from '../../src/store/embedded/embedded-store.js';
import { nodeFiles } from '../../src/files.js';
import { isLocked } from '../../src/store/directory-lock.js';
import { openAccessLog } from '../../src/store/open-access-log.js';
import { openStore } from '../../src/store/open-to-read.js';
import { TreeFiles } from '../../src/store/embedded/tree-files.js';
import { candidate, type Made, type Wanted } from '../store/candidate.js';

export const ORIGIN = 'log.example/ward-7';

/** An event whose body names its id, as every event that a collector took does. */
export function loggedEvent(
  text: string,
  { eventId = randomUUID(), ...more }: Omit<Wanted, 'body'> = {},
): Made {
  return candidate({ ...more, eventId, body: { event_id: eventId, text } });
}

/**
 * Appends the batches to the log; on return a checkpoint covers all of it, and a head of the access log.
 * @param origin of a new log.
 */
export async function fillSigned(
  dataDir: string,
  batches: readonly (readonly Made[])[],
  options: {
    origin?: string;
    segmentBytes?: number;
    encryption?: Encryption;
    onAltered?: (why: string) => void;
  } = {},
): Promise<void> {
  const onTrouble = (what: string, error: unknown) => {
    throw new Error(what, { cause: error });
  };
  const { origin = ORIGIN, segmentBytes = 64 << 10, encryption } = options;
  const store = await EmbeddedStore.open({
    ...{ directory: dataDir, segmentBytes, onTrouble },
    ...(encryption && { encryption }),
  });
  const sequencer = await Sequencer.open({
    store: TreeFiles.open(dataDir, nodeFiles),
    signer: SigningKeys.openOrCreate({
      dataDir,
      directory: path.join(dataDir, 'signing-keys'),
      origin: () => origin,
      onTrouble,
    }),
    committed: store.committed,
    intervalMs: 3_600_000,
    onCheckpoint: () => undefined,
    onTrouble,
  });
  for (const batch of batches) await store.append(batch);
  const heads = new AccessLogHeads({
    store: openAccessLog(dataDir),
    newest: store.newestOwn.get(ENTRY_KINDS.accessLogHead),
    append: async (entry) => {
      await store.append([entry]);
    },
    onTrouble,
    onAltered: options.onAltered ?? ((reason) => onTrouble('the access log was changed', reason)),
  });
  await heads.close();
  await sequencer.close();
  await store.close();
}

/** On return a head in the log covers all readings that were noted, as after the start of a collector. */
export function signAccesses(dataDir: string): Promise<void> {
  return fillSigned(dataDir, []);
}

/** The verifier key that the log began with. */
export function firstKey(dataDir: string): string {
  return fs.readFileSync(path.join(dataDir, 'checkpoints', 'origin.vkey'), 'utf8').trim();
}

/** The proof of an event, as `collector proof` makes it. */
export async function proofIn(dataDir: string, eventId: string, organisation?: string): Promise<EventProof> {
  const { events, tree } = openStore(dataDir);
  try {
    const log = {
      dataDir,
      place: dataDir,
      events,
      files: events,
      tree,
      mayBeSigned: () => isLocked(dataDir),
    };
    return await proveEvent(log, eventId, organisation);
  } finally {
    await tree.close();
    await events.close();
  }
}
