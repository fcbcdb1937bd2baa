/** The ledger's thread: puts the embedded store under the group commit and tells the main thread how it fares. */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { Ledger, type LedgerState } from '../ledger/ledger.js';
import { RingReader, type RingMemory } from '../ledger/ring.js';
import { EmbeddedStore, type Opened } from '../store/embedded/embedded-store.js';
import { StoreDamaged } from '../store/store.js';
import { deniedPath } from './permission-denied.js';

/** What the thread is started with. */
export interface LedgerThreadData {
  readonly dataDir: string;
  readonly segmentBytes: number;
  readonly maxDepth: number;
  readonly ring: RingMemory;
  readonly answers: MessagePort;
}

/** What the thread says. `reason` is the text of an error: a place or a system's answer, never an event's content. */
export type LedgerThreadMessage =
  | { readonly type: 'opened'; readonly opened: Opened }
  | { readonly type: 'refused'; readonly damaged: boolean; readonly reason: string }
  | { readonly type: 'state'; readonly state: LedgerState; readonly reason: string }
  | { readonly type: 'trouble'; readonly what: string; readonly reason: string }
  | { readonly type: 'closed' };

/** The message of an error and of what caused it. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const denied = deniedPath(error);
  if (denied !== undefined) return `permission denied: ${denied}`;
  return error.cause === undefined ? error.message : `${error.message}: ${reasonOf(error.cause)}`;
}

async function main(port: MessagePort, data: LedgerThreadData): Promise<void> {
  const say = (message: LedgerThreadMessage) => port.postMessage(message);
  let store: EmbeddedStore;
  try {
    store = await EmbeddedStore.open({
      directory: data.dataDir,
      segmentBytes: data.segmentBytes,
      onTrouble: (what, error) => say({ type: 'trouble', what, reason: reasonOf(error) }),
    });
  } catch (error) {
    say({ type: 'refused', damaged: error instanceof StoreDamaged, reason: reasonOf(error) });
    return;
  }
  const ledger = new Ledger({
    store,
    rings: [new RingReader(data.ring, data.answers)],
    doorbell: new Int32Array(data.ring.doorbell),
    maxDepth: data.maxDepth,
    onState: (state, cause) =>
      say({ type: 'state', state, reason: cause === undefined ? '' : reasonOf(cause) }),
  });
  // The one message from the main thread: stop. Listening also keeps the thread alive while the ledger sleeps.
  port.on('message', () => ledger.stop());
  say({ type: 'opened', opened: store.opened });
  await ledger.run();
  say({ type: 'closed' });
  port.close();
  data.answers.close();
}

if (parentPort) await main(parentPort, workerData as LedgerThreadData);
