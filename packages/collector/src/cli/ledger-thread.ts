/** The ledger's thread: puts the embedded store and its tree under the group commit, and tells the main thread how they fare. */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import type { CheckpointSigner } from '../integrity/signer.js';
import { CheckpointContradicted, LedgerTree } from '../ledger/ledger-tree.js';
import { Ledger, type LedgerState } from '../ledger/ledger.js';
import { RingReader, type RingMemory } from '../ledger/ring.js';
import { CheckpointTrouble } from '../publishing/checkpoint-trouble.js';
import { CommandSigner, SigningCommandUnfit } from '../signing/command-signer.js';
import { SigningKeys } from '../signing/key-directory.js';
import { SigningKeyFault } from '../signing/signing-key-fault.js';
import { EmbeddedStore, type Opened } from '../store/embedded/embedded-store.js';
import { EventReader } from '../store/embedded/event-reader.js';
import { nodeFiles } from '../store/embedded/files.js';
import { TreeFiles } from '../store/embedded/tree-files.js';
import { StoreDamaged } from '../store/store.js';
import { claimedSize } from './log-checkpoints.js';
import { deniedPath } from './permission-denied.js';

/** What the thread is started with. */
export interface LedgerThreadData {
  readonly dataDir: string;
  readonly segmentBytes: number;
  readonly maxDepth: number;
  /** Directory of the signing keys, or the program that signs instead when that is not empty. */
  readonly signingKeys: string;
  readonly signingCommand: string;
  /** Empty: made of the ledger's id. */
  readonly logOrigin: string;
  readonly checkpointIntervalMs: number;
  readonly ring: RingMemory;
  readonly answers: MessagePort;
}

/**
 * Why the ledger cannot be opened: what is stored contradicts itself, so that no start can succeed until somebody has
 * looked at it; the configuration is wrong; or something failed that may succeed the next time.
 */
export type Refusal = 'damaged' | 'usage' | 'failure';

/** What the thread says. `reason` is the text of an error: a place or a system's answer, never an event's content. */
export type LedgerThreadMessage =
  | { readonly type: 'opened'; readonly opened: Opened }
  | { readonly type: 'refused'; readonly because: Refusal; readonly reason: string }
  | { readonly type: 'state'; readonly state: LedgerState; readonly reason: string }
  | { readonly type: 'trouble'; readonly what: string; readonly reason: string }
  | { readonly type: 'notice'; readonly message: string }
  | { readonly type: 'checkpoint'; readonly note: string }
  | { readonly type: 'closed' };

/** The configuration does not fit the log. The message names the option. */
class ConfigurationUnfit extends Error {
  override name = 'ConfigurationUnfit';
}

/** The message of an error and of what caused it. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const denied = deniedPath(error);
  if (denied !== undefined) return `permission denied: ${denied}`;
  return error.cause === undefined ? error.message : `${error.message}: ${reasonOf(error.cause)}`;
}

/** Everything that has to be whole before the first event is taken. */
async function open(data: LedgerThreadData, say: (message: LedgerThreadMessage) => void) {
  const { dataDir } = data;
  const onTrouble = (what: string, error: unknown) =>
    say({ type: 'trouble', what, reason: error === undefined ? '' : reasonOf(error) });
  const treeStore = TreeFiles.open(dataDir, nodeFiles);
  const store = await EmbeddedStore.open({
    directory: dataDir,
    segmentBytes: data.segmentBytes,
    // Whether it can be believed is seen when the tree is opened.
    vouchedEvents: claimedSize(treeStore),
    onTrouble,
  });
  const onNotice = (message: string) => say({ type: 'notice', message });
  const origin = () => data.logOrigin || `collector/${store.opened.ledgerId}`;
  const signer: CheckpointSigner =
    data.signingCommand === ''
      ? SigningKeys.openOrCreate({ dataDir, directory: data.signingKeys, origin, onTrouble, onNotice })
      : await CommandSigner.open({ dataDir, program: data.signingCommand, origin, onTrouble });
  if (data.logOrigin !== '' && signer.origin !== data.logOrigin) {
    throw new ConfigurationUnfit(`--log-origin: this log began as ${signer.origin}, and its name stays`);
  }
  const trouble = new CheckpointTrouble(dataDir);
  const leaves = await LedgerTree.open({
    store: treeStore,
    signer,
    events: new EventReader(dataDir, nodeFiles),
    size: store.opened.events,
    intervalMs: data.checkpointIntervalMs,
    onCheckpoint: (note) => say({ type: 'checkpoint', note }),
    onTrouble,
    onTried: (failure) => {
      if (failure !== undefined) trouble.failed(reasonOf(failure.error));
      else if (trouble.over()) onNotice('checkpoints are made again');
    },
  });
  return { store, leaves };
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof StoreDamaged || error instanceof CheckpointContradicted) return 'damaged';
  if (error instanceof SigningKeyFault && error.reason === 'broken') return 'damaged';
  return error instanceof SigningCommandUnfit || error instanceof ConfigurationUnfit ? 'usage' : 'failure';
}

/** What to tell of it at the start. */
function refusedBecause(error: unknown): string {
  return error instanceof SigningCommandUnfit ? `--signing-command: ${error.message}` : reasonOf(error);
}

async function main(port: MessagePort, data: LedgerThreadData): Promise<void> {
  const say = (message: LedgerThreadMessage) => port.postMessage(message);
  let opened: Awaited<ReturnType<typeof open>>;
  try {
    opened = await open(data, say);
  } catch (error) {
    say({ type: 'refused', because: refusalOf(error), reason: refusedBecause(error) });
    return;
  }
  const { store, leaves } = opened;
  const ledger = new Ledger({
    store,
    leaves,
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
