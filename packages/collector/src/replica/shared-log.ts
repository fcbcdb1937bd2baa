/** Copies a log in a database for `verify`, with all its faults. */
import fs from 'node:fs';
import { aboutBytes } from '../quantity.js';
import type { StoredKeys } from '../privacy/stored-keys.js';
import type { Evidence, OpenSharedStore } from '../store/contract/opened.js';
import type { SharedAudit } from '../store/log-audit.js';
import { EvidenceLog } from '../store/open-to-audit.js';

/** Approximate size of a frame beside the data of the database. */
const FRAME_BYTES = 64;

export interface SharedCopy extends SharedAudit {
  readonly evidence: Evidence;
}

/**
 * On return `dataDir` has `ledger/` with the contents of the database. No payload is decrypted.
 * @param dataDir a temporary directory.
 * @throws an error with the code ENOSPC if that directory has no room.
 */
export async function copySharedLog(
  shared: OpenSharedStore,
  dataDir: string,
  onProgress: (entries: number, of: number) => void,
): Promise<SharedCopy> {
  const end = (await shared.events.end()).sequence - 1;
  const needed = shared.events.extent + end * FRAME_BYTES;
  const { bavail, bsize } = fs.statfsSync(dataDir);
  if (needed > bavail * bsize) {
    const message =
      `a copy of the log needs about ${aboutBytes(needed)} in ${dataDir}, and ` +
      `${aboutBytes(bavail * bsize)} are free: set TMPDIR to another directory`;
    throw Object.assign(new Error(message), { code: 'ENOSPC' });
  }
  const evidence = shared.evidence();
  const log = new EvidenceLog(dataDir, shared.events.ledgerId);
  let copied = 0;
  for await (const rows of evidence.rows()) {
    for (const row of rows) log.add(row);
    onProgress((copied += rows.length), end);
  }
  log.end(evidence.entries);
  const { keys } = evidence;
  return {
    evidence,
    keys: keys && placed(keys, (sequence) => log.placeOf(sequence)),
    refreshKeys: () => evidence.refreshKeys(),
    erasedByNow: () => evidence.erasedByNow(),
  };
}

/** Maps sequences to the places of payload keys that collectors counted. */
function placed(keys: StoredKeys, placeOf: (sequence: number) => number): StoredKeys {
  return {
    keyOf: (tag, organisation, sequence) => keys.keyOf(tag, organisation, placeOf(sequence)),
    knows: (tag, organisation) => keys.knows(tag, organisation),
    names: () => keys.names(),
    namesBy: (id) => keys.namesBy(id),
    holdKey: (action) => keys.holdKey(action),
    noted: () => keys.noted(),
    readAgain: () => keys.readAgain(),
  };
}
