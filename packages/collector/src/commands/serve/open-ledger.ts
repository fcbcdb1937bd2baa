/**
 * Opens the log for writing, in the data directory or in a database: the store, the signer and the tree, each
 * checked against the others.
 */
import { ENTRY_KINDS } from '@clinical-events/protocol';
import type { HeldFile } from '../../files.js';
import type { CheckpointSigner } from '../../tree/note-signing.js';
import { AccessLogHeads, type AccessLogHeadsOptions } from '../../ledger/access-log-heads.js';
import { Lifecycle } from '../../ledger/lifecycle.js';
import { Sequencer, type SequencerOptions } from '../../ledger/sequencer.js';
import type { Alarm } from '../../operate/snapshot.js';
import { CheckpointContradicted } from '../../ledger/signed-tree.js';
import {
  CheckpointTrouble,
  type CheckpointTroubleState,
  readKnownCheckpoint,
  writeKnownCheckpoint,
} from '../../tree/state-files.js';
import { checkpointOf } from '../../tree/log-view.js';
import { SigningCommandUnfit } from '../../tree/key-command.js';
import { openSigner as openTreeSigner } from '../../tree/signing-keys.js';
import { signingDirectory, SigningKeyFault } from '../../tree/key-files.js';
import { KeysUnfit } from '../../privacy/key-vault.js';
import { KekFault } from '../../privacy/key-encryption-key.js';
import {
  BackgroundCompaction,
  type Held,
  openForWriting,
  openTree,
  openSharedForWriting,
  type IdIndexStats,
  type Opened,
} from '../../store/open-to-write.js';
import { claimedSize, openStore } from '../../store/open-to-read.js';
import { isShared } from '../../store/open.js';
import type { FoundLog } from '../../store/contract/driver.js';
import { type SharedGauges, type Store, StoreDamaged } from '../../store/contract/events.js';
import { reasonOf } from '../exit-codes.js';
import { dropRecord } from '../lifecycle/holds.js';
import { encryptionOf, type EncryptionSettings, sharedKeysOf } from '../payload-encryption.js';
import { version } from '../typed.js';
import { resealNames } from './reseal-names.js';
import { Unusable } from '../../unusable.js';

export interface LedgerSettings extends EncryptionSettings {
  /** The address of a database; empty if the log is in the data directory. */
  readonly store: string;
  readonly segmentBytes: number;
  /** The lock on the directory. */
  readonly lock: HeldFile;
  /** The value of --signing-keys (key-files.ts). */
  readonly signingKeys: string;
  /** The name of the log in its checkpoints. If empty, it is derived from the ledger's id. */
  readonly logOrigin: string;
  readonly checkpointIntervalMs: number;
}

/**
 * Callbacks while the ledger is open. `reason` is the text of an error: a place or a system error, never
 * event contents.
 */
export interface LedgerListeners {
  /** Something is degraded; nothing is lost or refused. */
  readonly onTrouble: (what: string, reason: string) => void;
  /** An operator must act: the stored data is not what was signed. Events are still stored. */
  readonly onAlarm: (about: Alarm, what: string, reason: string) => void;
  readonly onNotice: (message: string) => void;
  /** A checkpoint was signed and written to disk. */
  readonly onCheckpoint: (note: string) => void;
  /** Called after each attempt: whether checkpoints cannot be made, since when and why. */
  readonly onCheckpointTrouble?: (trouble: CheckpointTroubleState | undefined) => void;
  /** The current contents of a log in a database, from all collectors. */
  readonly onHeld?: (held: Held) => void;
  /** Present for a log in a database. `merged` is called for each batch that this process sequenced. */
  readonly gauges?: SharedGauges & { merged(ms: number): void };
  /** See EmbeddedStoreOptions. */
  readonly onFlushed?: (milliseconds: number, held: Held) => void;
}

/** The state of the log at the start; for a log in a data directory, with what was done to open it. */
export type OpenedLog = FoundLog & Partial<Pick<Opened, 'segments' | 'replayed' | 'tornTail'>>;

export interface OpenLedger {
  readonly store: Store;
  readonly opened: OpenedLog;
  /** Statistics of the id index; undefined for a log in a database. */
  readonly index: () => IdIndexStats | undefined;
  readonly sequencer: Sequencer;
  /** Maintains the heads of the access log. @param append as in AccessLogHeadsOptions. */
  readonly accessLog: (append: AccessLogHeadsOptions['append']) => AccessLogHeads;
  /** Carries out actions on stored events. @param append as in AccessLogHeadsOptions. */
  readonly lifecycle: (append: AccessLogHeadsOptions['append']) => Lifecycle;
  /** Present for a log in files; `store maintain` compacts a database. */
  readonly compaction?: BackgroundCompaction;
}

/**
 * Opens the ledger; events can then be appended. The caller holds the directory's lock, and closes the access
 * log first, then the sequencer and the store.
 * @throws an error that {@link refusalOf} classifies.
 */
export function openLedger(settings: LedgerSettings, listeners: LedgerListeners): Promise<OpenLedger> {
  return isShared(settings) ? openShared(settings, listeners) : openEmbedded(settings, listeners);
}

async function openEmbedded(settings: LedgerSettings, listeners: LedgerListeners): Promise<OpenLedger> {
  const { dataDir } = settings;
  const { onAlarm, onFlushed } = listeners;
  const onTrouble = troubleTo(listeners);
  const treeStore = openTree(dataDir);
  const signed = await claimedSize(treeStore);
  assertNothingLost(dataDir, signed);
  const store = await openForWriting({
    directory: dataDir,
    segmentBytes: settings.segmentBytes,
    lock: settings.lock,
    // This claim is verified when the tree is opened.
    vouchedEntries: signed,
    encryption: encryptionOf(settings, onTrouble),
    onTrouble,
    ...(onFlushed && { onFlushed }),
  });
  const signer = await openSigner(settings, store.opened.ledgerId, listeners);
  const sequencer = await openSequencer(settings, listeners, {
    store: treeStore,
    signer,
    committed: store.committed,
  });
  const accessLog = (append: AccessLogHeadsOptions['append']) =>
    new AccessLogHeads({
      ...{ append, onTrouble, newest: store.newestOwn.get(ENTRY_KINDS.accessLogHead) },
      store: openStore(dataDir).accessLog,
      onAltered: (reason) =>
        onAlarm('access-log', 'the access log was changed; see collector verify', reason),
    });
  const { actions, keys } = store;
  const compaction = new BackgroundCompaction({ dataDir, store, onTrouble });
  const lifecycle: OpenLedger['lifecycle'] = (append) =>
    new Lifecycle({
      ...{ requests: openStore(dataDir).requests, actions, keys, append, onTrouble, compaction },
      onNotice: listeners.onNotice,
      resealNames: (signal) => resealNames(dataDir, onTrouble, signal),
      dropHoldRecord(action) {
        dropRecord(dataDir, 'holds', action);
        return Promise.resolve();
      },
      keysIn: (lists, signal) => store.keysIn(lists, signal),
    });
  const index = () => store.indexStats();
  return { store, opened: store.opened, index, sequencer, accessLog, lifecycle, compaction };
}

/**
 * Refuses a log that was restored without its newest events, because a collector would sign others in their
 * place.
 * @throws CheckpointContradicted if a checkpoint over more entries is known.
 */
function assertNothingLost(dataDir: string, signed: number): void {
  const known = readKnownCheckpoint(dataDir);
  if (known === undefined) return;
  const { size } = checkpointOf(known);
  if (size <= signed) return;
  throw new CheckpointContradicted(
    `events are lost: its newest checkpoint covers ${signed} entries, but this log had ${size} before it ` +
      'was restored. A collector would sign others in their place; see docs/guide/back-up-and-restore.md, ' +
      '"When events are lost"',
  );
}

/** Opens a log in a database, to which other collectors may write too. */
async function openShared(settings: LedgerSettings, listeners: LedgerListeners): Promise<OpenLedger> {
  const { dataDir } = settings;
  const onTrouble = troubleTo(listeners);
  /** Batches sequenced here and not yet covered by a checkpoint, with the ages they had then. */
  const unsigned: { readonly entries: number; readonly agesMs: readonly number[]; readonly at: number }[] =
    [];
  const store = await openSharedForWriting(settings.store, {
    version: version(),
    signingKeys: signingDirectory(settings),
    keysOf: (log) => sharedKeysOf(settings, log, onTrouble),
    onTrouble,
    onLost: (reason) =>
      listeners.onAlarm('lost', 'acknowledged events are missing from the database', reason),
    ...(listeners.gauges && { gauges: listeners.gauges }),
    onSequenced({ entries, ownEntries, bytes, agesMs = [] }) {
      listeners.onHeld?.({ entries, events: entries - ownEntries, bytes });
      if (agesMs.length > 0) unsigned.push({ entries, agesMs, at: performance.now() });
    },
  });
  await store.publicKeys.pull(dataDir);
  const own = await openSigner(settings, store.opened.ledgerId, listeners);
  await store.publicKeys.push(dataDir);
  const signer = store.publicKeys.signer(own, dataDir);
  const seen = {
    ...listeners,
    onCheckpoint(note: string) {
      writeKnownCheckpoint(dataDir, note);
      const { size } = checkpointOf(note);
      const signed = unsigned.findLastIndex(({ entries }) => entries <= size) + 1;
      for (const { agesMs, at } of unsigned.splice(0, signed))
        for (const age of agesMs) listeners.gauges?.merged(age + performance.now() - at);
      listeners.onCheckpoint(note);
    },
  };
  const known = readKnownCheckpoint(dataDir);
  const sequencer = await openSequencer(settings, seen, {
    ...{ store: store.tree, signer, committed: store.committed, known },
  });
  const accessLog = () =>
    new AccessLogHeads({
      append: (entry) => store.appendAccessHead(entry),
      ...{ onTrouble, newest: store.newestOwn.get(ENTRY_KINDS.accessLogHead), store: store.accessLog },
      onAltered: (reason) =>
        listeners.onAlarm('access-log', 'the access log was changed; see collector verify', reason),
    });
  const { requests, holdRecords, actions, keys } = store;
  const lifecycle = () =>
    new Lifecycle({
      ...{ requests, actions, keys, onTrouble, onNotice: listeners.onNotice },
      append: (entry) => store.appendAction(entry),
      dropHoldRecord: (action) => holdRecords.remove(action),
      async isOnUs() {
        if (!(await store.isOnUs())) return false;
        await store.refreshActions();
        return true;
      },
      keysOf: (sequences) => store.keysOf(sequences),
      keysIn: (lists, signal) => store.keysIn(lists, signal),
    });
  return { store, opened: store.opened, index: () => undefined, sequencer, accessLog, lifecycle };
}

function troubleTo(listeners: LedgerListeners): (what: string, error: unknown) => void {
  return (what, error) => listeners.onTrouble(what, error === undefined ? '' : reasonOf(error));
}

async function openSigner(
  settings: LedgerSettings,
  ledgerId: string,
  listeners: LedgerListeners,
): Promise<CheckpointSigner> {
  const { dataDir } = settings;
  const { onNotice } = listeners;
  const onTrouble = troubleTo(listeners);
  const origin = () => settings.logOrigin || `collector/${ledgerId}`;
  const { signingKeys } = settings;
  const signer = await openTreeSigner({ dataDir, signingKeys, origin, onTrouble, onNotice });
  if (settings.logOrigin !== '' && signer.origin !== settings.logOrigin) {
    throw new Unusable(`--log-origin: this log was created as ${signer.origin}, which cannot be changed`);
  }
  return signer;
}

function openSequencer(
  settings: LedgerSettings,
  listeners: LedgerListeners,
  parts: Pick<SequencerOptions, 'store' | 'signer' | 'committed' | 'known'>,
): Promise<Sequencer> {
  const trouble = new CheckpointTrouble(settings.dataDir);
  return Sequencer.open({
    ...parts,
    intervalMs: settings.checkpointIntervalMs,
    onCheckpoint: listeners.onCheckpoint,
    onTrouble: troubleTo(listeners),
    onForked: (error) =>
      listeners.onAlarm(
        'fork',
        'the log is not the one that was signed; signing has stopped',
        reasonOf(error),
      ),
    onTried: (failure) => {
      if (failure !== undefined) trouble.failed(reasonOf(failure.error));
      else if (trouble.over()) listeners.onNotice('checkpoints are being made again');
      listeners.onCheckpointTrouble?.(trouble.state);
    },
  });
}

/**
 * Why the ledger cannot be opened. `damaged`: the stored data is inconsistent, and an operator must examine
 * it. `usage`: the configuration does not fit the log, or does not lead to its key. Restarting fixes neither.
 */
export type Refusal = 'damaged' | 'usage' | 'failure';

export function refusalOf(error: unknown): Refusal {
  if (error instanceof StoreDamaged || error instanceof CheckpointContradicted) return 'damaged';
  if (error instanceof SigningKeyFault && error.reason === 'broken') return 'damaged';
  if (error instanceof SigningKeyFault && /^(key|seal)-missing$/.test(error.reason)) return 'usage';
  const isUsage = [SigningCommandUnfit, Unusable, KeysUnfit, KekFault].some((kind) => error instanceof kind);
  return isUsage ? 'usage' : 'failure';
}

/** The message for the operator. */
export function refusedBecause(error: unknown): string {
  if (error instanceof SigningCommandUnfit) return `--signing-keys: ${error.message}`;
  if (error instanceof KekFault) return `--kek: ${error.message}`;
  if (error instanceof SigningKeyFault && error.reason === 'seal-missing') {
    return (
      `${error.message}. Copy the file from the --signing-keys directory of another collector; if it is ` +
      'lost, see docs/guide/scale-out.md, "One signing key"'
    );
  }
  if (!(error instanceof SigningKeyFault) || error.reason !== 'key-missing') return reasonOf(error);
  return (
    `${error.message}, without which this log cannot be signed. A back-up includes it only if made with ` +
    '--with-signing-keys. Put the file back, or give its directory, or command:PROGRAM, with ' +
    '--signing-keys; if it is lost, see docs/guide/back-up-and-restore.md, "A signing key that is lost"'
  );
}
