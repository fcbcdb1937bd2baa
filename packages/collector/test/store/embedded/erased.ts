/** Events whose keys are destroyed by an action of the log, as by `collector erase`. */
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { catalogueDirectory, hasCatalogue, resealCatalogue } from '../../../src/catalogue/catalogue.js';
import { layRequest, Lifecycle } from '../../../src/ledger/lifecycle.js';
import { SequenceSet } from '../../../src/privacy/sequence-set.js';
import type { Place } from '../../../src/store/contract/events.js';
import type { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { Inbox } from '../../../src/store/embedded/inbox.js';
import type { LogReader } from '../../../src/store/embedded/log-reader.js';

/** @param events of the organisation `default`, whose keys are in one bucket. On return their payloads are gone. */
export async function eraseEvents(
  dataDir: string,
  store: EmbeddedStore,
  log: LogReader,
  events: readonly (Place & { readonly sequence: number })[],
): Promise<void> {
  const [tag = 0] = log.buckets(events);
  const sequences = SequenceSet.of(events.map(({ sequence }) => sequence));
  const action = { action: randomUUID(), does: 'erase', reason: 'test-data', part: 1, parts: 1 } as const;
  await layRequest(new Inbox(dataDir), {
    action: { ...action, keys: [{ tag, organisation: 'default', sequences }] },
    considered: { policy: null, holds: [] },
  });
  const lifecycle = new Lifecycle({
    ...{ requests: new Inbox(dataDir), actions: store.actions, keys: store.keys, onTrouble: () => undefined },
    keysIn: (lists, signal) => store.keysIn(lists, signal),
    async resealNames() {
      const directory = catalogueDirectory(dataDir);
      const fail = (error: unknown) => expect.unreachable(String(error));
      if (hasCatalogue(directory)) await resealCatalogue(directory, log, fail);
    },
    append: async (entry) => {
      await store.append([entry]);
    },
  });
  await lifecycle.look();
}
