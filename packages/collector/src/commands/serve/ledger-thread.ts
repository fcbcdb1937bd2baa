/** The ledger's thread: runs the group commit over the store and its tree, and reports to the main thread. */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import type { Alarm } from '../../operate/snapshot.js';
import { LedgerCounters } from '../../ledger/ledger-counters.js';
import type { PrivacyState } from '../../ledger/privacy-numbers.js';
import { Ledger, type LedgerState } from '../../ledger/ledger.js';
import { type RingMemory, RingReader } from '../../ledger/ring.js';
import type { CheckpointTroubleState } from '../../tree/state-files.js';
import type { StorageReason } from '../../store/contract/events.js';
import type { IdIndexStats } from '../../store/open-to-write.js';
import { reasonOf } from '../exit-codes.js';
import {
  openLedger,
  refusalOf,
  refusedBecause,
  type LedgerSettings,
  type OpenedLog,
  type OpenLedger,
  type Refusal,
} from './open-ledger.js';

/** The ledger's end of the request queue, and the port for its answers. */
export interface QueueEnd {
  readonly ring: RingMemory;
  readonly answers: MessagePort;
}

/** Arguments of the thread. */
export interface LedgerThreadData extends LedgerSettings {
  readonly maxDepth: number;
  readonly queue: QueueEnd;
  /** Its counters (ledger/ledger-counters.ts). */
  readonly counters: SharedArrayBuffer;
}

/** A request to the thread: to end in order, or to report that it is alive. */
export type LedgerThreadRequest = 'stop' | 'report';

/**
 * A message of the thread. `reason` is the text of an error: a place or a system error, never contents of an
 * event.
 */
export type LedgerThreadMessage =
  | { readonly type: 'opened'; readonly opened: OpenedLog }
  | { readonly type: 'refused'; readonly because: Refusal; readonly reason: string }
  | {
      readonly type: 'state';
      readonly state: LedgerState;
      readonly reason: string;
      readonly because: StorageReason | undefined;
    }
  | { readonly type: 'trouble'; readonly what: string; readonly reason: string }
  | { readonly type: 'alarm'; readonly about: Alarm; readonly what: string; readonly reason: string }
  | { readonly type: 'notice'; readonly message: string }
  | { readonly type: 'checkpoint'; readonly note: string }
  | { readonly type: 'checkpoint-trouble'; readonly trouble: CheckpointTroubleState | undefined }
  | {
      readonly type: 'report';
      readonly index: IdIndexStats | undefined;
      readonly privacy: PrivacyState | undefined;
    }
  | { readonly type: 'closed' };

/** Interval for requests that a person waits for; events do not depend on them. */
const LIFECYCLE_EVERY_MS = 1000;

async function main(port: MessagePort, data: LedgerThreadData): Promise<void> {
  const say = (message: LedgerThreadMessage) => port.postMessage(message);
  const counters = new LedgerCounters(data.counters);
  let troubleSince: string | undefined;
  let opened: OpenLedger;
  try {
    opened = await openLedger(data, {
      onTrouble: (what, reason) => say({ type: 'trouble', what, reason }),
      onAlarm: (about, what, reason) => say({ type: 'alarm', about, what, reason }),
      onNotice: (message) => say({ type: 'notice', message }),
      onCheckpoint: (note) => say({ type: 'checkpoint', note }),
      onCheckpointTrouble(trouble) {
        if (trouble?.since === troubleSince) return;
        troubleSince = trouble?.since;
        say({ type: 'checkpoint-trouble', trouble });
      },
      onFlushed(milliseconds, held) {
        counters.flushed(milliseconds);
        counters.holds(held);
      },
      onHeld: (held) => counters.holds(held),
      gauges: counters,
    });
  } catch (error) {
    say({ type: 'refused', because: refusalOf(error), reason: refusedBecause(error) });
    return;
  }
  const { store, sequencer } = opened;
  const { ring, answers } = data.queue;
  counters.holds(opened.opened);
  const ledger = new Ledger({
    store,
    sequencer,
    ring: new RingReader(ring, answers),
    doorbell: new Int32Array(ring.doorbell),
    maxDepth: data.maxDepth,
    counters,
    onState: (state, cause, because) =>
      say({ type: 'state', state, reason: cause === undefined ? '' : reasonOf(cause), because }),
  });
  const accessLog = opened.accessLog((entry) => ledger.append(entry)).start(data.checkpointIntervalMs);
  const lifecycle = opened.lifecycle((entry) => ledger.append(entry)).start(LIFECYCLE_EVERY_MS);
  opened.compaction?.start(LIFECYCLE_EVERY_MS);
  const stop = async () => {
    // Neither rejects; entries from the last requests are still stored.
    await lifecycle.close();
    await opened.compaction?.close();
    await accessLog.close();
    ledger.stop();
  };
  // Listening also keeps the thread alive while the ledger sleeps.
  port.on('message', (request: LedgerThreadRequest) => {
    if (request === 'stop') stop().catch(() => undefined);
    else say({ type: 'report', index: opened.index(), privacy: lifecycle.state });
  });
  // The keys are proved before the ledger is reported as open: otherwise a load balancer would send events
  // that are all refused.
  await ledger.proveKeys();
  say({ type: 'opened', opened: opened.opened });
  await ledger.run();
  say({ type: 'closed' });
  port.close();
  answers.close();
}

if (parentPort) await main(parentPort, workerData as LedgerThreadData);
