/**
 * `collector mirror`: follows a log in a database and writes an ordinary data directory, which every reading
 * command accepts. It accepts only entries that the log's signature covers:
 *
 *   read      the newest checkpoint of the database, signed by a key of the log
 *   copy      the entries up to it, each checked against its leaf, into the log of the directory
 *   compare   the root over the leaves of the directory's own log with the root of the checkpoint
 *   swap      the new checkpoint replaces the previous one
 *
 * After a crash at any point the next run continues, and compares entries that were copied but not compared.
 *
 * Readings on the mirror are logged in a separate file, whose lines are forwarded to the access log of the
 * database. `access.log` in the directory is a copy of that access log, whose heads are in the log.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeEnvelope, ENTRY_KINDS, SALT_BYTES } from '@clinical-events/protocol';
import { type Checkpoint, parseCheckpoint } from '@clinical-events/protocol/verify';
import { type Config, inQuotes } from '@clinical-events/collector/config';
import { GrowingTree } from '@clinical-events/collector/tree/growing-tree';
import { verifyNote } from '@clinical-events/collector/tree/note-signing';
import { CheckpointContradicted, LeafReader } from '@clinical-events/collector/ledger/signed-tree';
import { KeysUnfit } from '@clinical-events/collector/privacy/key-vault';
import { counted } from '@clinical-events/collector/quantity';
import { ProvenTree, treeUpTo } from '@clinical-events/collector/replica/proven-tree';
import {
  type Candidate,
  type Cursor,
  cursorAt,
  cursorBehind,
  StoreDamaged,
} from '@clinical-events/collector/store/contract/events';
import type { OpenSharedStore } from '@clinical-events/collector/store/contract/opened';
import type { TreeStore } from '@clinical-events/collector/store/contract/tree';
import {
  BackgroundCompaction,
  openForWriting,
  openTree,
  type WritableStore,
} from '@clinical-events/collector/store/open-to-write';
import {
  openMirroredLog,
  openReadingsLog,
  readingsLogPath,
} from '@clinical-events/collector/store/open-access-log';
import { readHistory } from '@clinical-events/collector/tree/key-files';
import { readMirrorNote, writeMirrorNote } from '@clinical-events/collector/tree/state-files';
import { offerAccessSocket } from '@clinical-events/collector/commands/access-socket';
import { defineCommand } from '@clinical-events/collector/commands/define';
import {
  CommandFailure,
  EXIT,
  onStop,
  reasonOf,
  usage,
} from '@clinical-events/collector/commands/exit-codes';
import {
  encryptionOf,
  type EncryptionSettings,
} from '@clinical-events/collector/commands/payload-encryption';
import { ProgressBar } from '@clinical-events/collector/commands/terminal';
import { holdDirectory } from '@clinical-events/collector/commands/held-directory';
import { applyReadGroup, readGroupFault } from '@clinical-events/collector/commands/read-group';
import { holdsLog } from '@clinical-events/collector/commands/regular-files';
import { describeAddress, parseAddress } from '../address.js';
import { openForReading } from '../driver.js';
import { MirroredActions, MirrorNotes } from '../mirrored-actions.js';

const EXAMPLES = `  $ collector mirror --store postgres://reader@db1,db2/collector --data-dir /var/lib/mirror
  $ collector mirror --store postgres://reader@db1,db2/collector --data-dir /var/lib/mirror --once
  $ collector mirror --store postgres://db/collector --data-dir /var/lib/mirror --kek command:/opt/kms
  $ collector records --data-dir /var/lib/mirror

It continues where it stopped, and follows the log until a signal; with --once it ends when it has all entries
that were signed at its start. It checks each entry against its leaf, and each checkpoint against its own log,
and stops at the first mismatch. If payloads are encrypted, it decrypts them by the keys of the log, which
--kek unwraps, and encrypts them by keys of its own, in encryption-keys of its directory
(docs/guide/encryption.md).

Exit codes: 3 the database contradicts the signed log; 5 another process has the data directory.`;

const FOLLOW_EVERY_MS = 500;
const RETRY_EVERY_MS = 5000;
const COMPACTION_LOOK_MS = 1000;
const REPORT_EVERY_MS = 10_000;
/** Limits of a batch in the mirror's own log. */
const BATCH_ENTRIES = 1024;
const BATCH_BYTES = 4 << 20;
const NO_SALT = Buffer.alloc(SALT_BYTES);
/** Number of entries after which the tree grows over them and its hashes are written. */
const STAGE_EVERY = 65_536;
/** Pages of one session with break-glass are reported once. */
const BREAK_GLASS_EVERY_MS = 900_000;
const KEEP_EVERY_MS = 3_600_000;
const BAR_FROM_ENTRIES = 200_000;

export const command = defineCommand<{ readonly once?: true }>({
  name: 'mirror',
  description: 'Copy a log from its database into a data directory, verify it, and follow it.',
  options: { '--once': 'end when all entries that are signed now are copied' },
  configuration: 'mirror',
  examples: EXAMPLES,
  run({ options, config: read }) {
    const config = read();
    if (config.store === '') throw usage('--store: name the database to mirror, as postgres://…');
    return run(config, options.once === true);
  },
});

async function run(config: Config, once: boolean): Promise<void> {
  const { dataDir } = config;
  const shared = await openMirrored(config);
  const { ledgerId } = shared.events;
  const lock = holdDirectory(dataDir);
  const stop = new AbortController();
  onStop(() => stop.abort());
  try {
    const notes = notesOf(config, ledgerId);
    const onTrouble = (what: string, error: unknown) =>
      report(`warning: ${what}${error === undefined ? '' : `: ${reasonOf(error)}`}`);
    // The mirror has its own keys, so that a loss of the log's keys does not affect it.
    const own = { dataDir, encryption: 'on', encryptionKeys: '', kek: '' } as const;
    openToReadGroup(config, shared.encryptionKeys === undefined ? { ...own, encryption: 'off' } : own);
    const store = await openForWriting({
      ...{ directory: dataDir, segmentBytes: config.segmentBytes, lock: lock.file, ledgerId, onTrouble },
      ...(shared.encryptionKeys !== undefined && {
        encryption: encryptionOf(own, onTrouble),
      }),
    });
    const compaction = new BackgroundCompaction({ dataDir, store, onTrouble });
    stop.signal.addEventListener('abort', () => {
      compaction.close().catch(() => undefined);
    });
    try {
      await shared.publicKeys.pull(dataDir);
      const held = await heldIn(dataDir, store);
      const mirror = new Mirror(config, shared, store, stop.signal, held, notes);
      if (!once) compaction.start(COMPACTION_LOOK_MS);
      await (once ? mirror.once() : withAccessSocket(dataDir, () => mirror.follow()));
      if (once) await compaction.look();
    } finally {
      await compaction.close();
      await store.close();
    }
  } catch (error) {
    if (error instanceof StoreDamaged || error instanceof CheckpointContradicted) {
      throw new CommandFailure(
        `${describeAddress(parseAddress(config.store))} contradicts the signed log: ${error.message}. ` +
          'The mirror is unchanged',
        EXIT.damaged,
        { cause: error },
      );
    }
    throw error;
  } finally {
    await shared.close();
    lock.release();
  }
}

/** Offers the access socket during the work. A mirror follows its log without it, too. */
async function withAccessSocket(dataDir: string, work: () => Promise<void>): Promise<void> {
  let warnedAt = -Infinity;
  const socket = await offerAccessSocket(dataDir, () => {
    if (performance.now() - warnedAt >= BREAK_GLASS_EVERY_MS)
      report('warning: break-glass was used in collector-viewer; the access log has the reason');
    warnedAt = performance.now();
  }).catch((error: unknown) => {
    report(
      `warning: the access socket cannot be offered, so collector-viewer shows nothing: ${reasonOf(error)}`,
    );
    return undefined;
  });
  try {
    await work();
  } finally {
    await socket?.close();
  }
}

/** Opens the files to `--read-group`, or makes them private again. @throws CommandFailure */
function openToReadGroup({ readGroup }: Config, own: EncryptionSettings): void {
  const settings = { ...own, readGroup };
  const fault = readGroupFault(settings);
  if (fault !== undefined) throw usage(`--read-group: ${fault}`);
  applyReadGroup(settings);
}

/** Opens the log, with its payload keys if payloads are encrypted. */
async function openMirrored(config: Config): Promise<OpenSharedStore> {
  const { encryptionKeys, kek } = config;
  const place = parseAddress(config.store);
  const closed = await openForReading(place);
  const address = encryptionKeys || closed.encryptionKeys;
  if (closed.encryptionKeys === undefined || address === undefined) return closed;
  await closed.close();
  if (kek === '')
    throw usage(
      '--kek: the payloads of this log are encrypted; name the key-encryption key, as the collectors do',
    );
  return openForReading(place, { directories: [address], kek });
}

/**
 * Reads `mirror.json`, or writes it for a new mirror.
 * @throws CommandFailure if the directory has a log that is not a mirror, or a mirror of another log.
 */
function notesOf({ dataDir, store }: Config, ledgerId: string): MirrorNotes {
  const refused = (why: string) =>
    new CommandFailure(`${dataDir} ${why}: give the mirror another directory`, EXIT.usage);
  const known = readMirrorNote(dataDir);
  if (known === undefined && holdsLog(dataDir)) throw refused('holds a log of its own');
  if (known !== undefined && known.ledger_id !== ledgerId) throw refused('is a mirror of another log');
  const note = known ?? {
    ...{ store: describeAddress(parseAddress(store)), ledger_id: ledgerId },
    ...{ id: randomUUID(), forwarded: 0, followed: 0 },
  };
  if (known === undefined) writeMirrorNote(dataDir, note);
  return new MirrorNotes(dataDir, note);
}

/** The verified contents of the directory. */
interface Held {
  readonly treeStore: TreeStore;
  readonly tree: ProvenTree;
  /** The newest checkpoint, and the number of entries that it covers; -1 if there is none. */
  head: string | undefined;
  signed: number;
}

/** @throws StoreDamaged, CheckpointContradicted if the directory contradicts its newest checkpoint. */
async function heldIn(dataDir: string, { committed }: WritableStore): Promise<Held> {
  const treeStore = openTree(dataDir);
  const reader = new LeafReader(committed);
  const leaves = (from: number) => reader.from(cursorAt(from));
  const head = await treeStore.head();
  if (head === undefined)
    return { treeStore, head, signed: -1, tree: new ProvenTree(GrowingTree.empty(), leaves, treeStore) };
  const checkpoint = checkpointOf(dataDir, head);
  const { size: signed } = checkpoint;
  const believed = await treeUpTo(treeStore, checkpoint);
  if (believed.size < signed || committed.entries < signed) {
    report('warning: the hashes of the tree are damaged or missing and are rebuilt from the events');
    // This comes before a hash is overwritten: if events were changed, the old hashes show which.
    await new ProvenTree(GrowingTree.empty(), leaves).prove(checkpoint);
  }
  const tree = new ProvenTree(believed, leaves, treeStore);
  await tree.prove(checkpoint);
  return { treeStore, head, signed, tree };
}

/** @throws CheckpointContradicted if no key of the log signed the note. */
function checkpointOf(dataDir: string, note: string): Checkpoint {
  const { origin, keys } = readHistory(dataDir);
  let checkpoint: Checkpoint;
  try {
    checkpoint = parseCheckpoint(verifyNote(note, keys).text);
  } catch (error) {
    throw new CheckpointContradicted('its newest checkpoint is not signed by a key of the log', {
      cause: error,
    });
  }
  if (checkpoint.origin === origin) return checkpoint;
  throw new CheckpointContradicted(`its newest checkpoint belongs to another log, ${checkpoint.origin}`);
}

class Mirror {
  #keptAt = -Infinity;
  readonly #actions: MirroredActions;
  #cursor: Cursor;

  constructor(
    private readonly config: Config,
    private readonly shared: OpenSharedStore,
    private readonly store: WritableStore,
    private readonly signal: AbortSignal,
    private readonly held: Held,
    private readonly notes: MirrorNotes,
  ) {
    this.#cursor = cursorAt(store.committed.entries + 1);
    this.#actions = new MirroredActions(config.dataDir, shared, store, notes);
  }

  /** On return the mirror has all entries that were signed at the start. */
  async once(): Promise<void> {
    await this.#round();
    const { dataDir } = this.config;
    const entries = counted(Math.max(0, this.held.signed), 'entry', 'entries');
    const more = this.signal.aborted ? ', and was stopped before the end' : '';
    process.stdout.write(`The mirror in ${inQuotes(dataDir)} has ${entries}, as they were signed${more}.\n`);
  }

  /** Follows until the signal; retries while the database is unreachable. */
  async follow(): Promise<void> {
    let reportedAt = -Infinity;
    let trouble = false;
    while (!this.signal.aborted) {
      let pause = FOLLOW_EVERY_MS;
      try {
        const before = this.held.signed;
        const behind = await this.#round();
        const isNews = trouble || this.held.signed > before;
        if (isNews && performance.now() - reportedAt >= REPORT_EVERY_MS) {
          report(`${counted(this.held.signed, 'entry', 'entries')} mirrored, ${behind} behind`);
          reportedAt = performance.now();
        }
        trouble = false;
      } catch (error) {
        if (error instanceof StoreDamaged || error instanceof CheckpointContradicted) throw error;
        if (!trouble) report(`warning: cannot follow the database, trying again: ${reasonOf(error)}`);
        trouble = true;
        pause = RETRY_EVERY_MS;
      }
      await sleep(pause, undefined, { signal: this.signal }).catch(() => undefined);
    }
    report(`stopped with ${counted(Math.max(0, this.held.signed), 'entry', 'entries')}`);
  }

  /** Copies all entries that are signed now. @returns the number of further entries in the database. */
  async #round(): Promise<number> {
    const { tree, events } = this.shared;
    // Actions that the last round left pending.
    await this.#actions.obey();
    const note = await tree.head();
    if (note === undefined) return 0;
    await this.shared.publicKeys.pull(this.config.dataDir);
    const checkpoint = this.#accepted(note);
    // The access log comes before the entries, which contain its heads.
    await this.#copyAccessLog();
    if (note !== this.held.head) {
      await this.#copyTo(checkpoint.size);
      if (this.signal.aborted) return 0;
      await this.#compare(note, checkpoint);
    }
    await this.#forwardReadings();
    return (await events.end()).sequence - 1 - this.held.signed;
  }

  /**
   * @throws CheckpointContradicted if no key of the log signed the note, or it covers less than an earlier
   * one.
   */
  #accepted(note: string): Checkpoint {
    const checkpoint = checkpointOf(this.config.dataDir, note);
    if (checkpoint.size >= this.held.signed) return checkpoint;
    throw new CheckpointContradicted(
      `its newest checkpoint covers ${checkpoint.size} entries, and the mirror's covers ${this.held.signed}`,
    );
  }

  async #copyTo(size: number): Promise<void> {
    const { committed } = this.store;
    const bar = new ProgressBar({
      ...{ wanted: process.stderr.isTTY, unit: 'entries', per: 1, from: BAR_FROM_ENTRIES, rate: true },
    });
    try {
      if (committed.entries >= size) return;
      let batch: Candidate[] = [];
      let bytes = 0;
      const append = async () => {
        if (batch.length > 0) await this.#append(batch);
        batch = [];
        bytes = 0;
        bar.show(committed.entries, size);
        if (committed.entries - this.held.tree.size >= STAGE_EVERY)
          await this.held.tree.grow(committed.entries);
      };
      const entries = this.shared.events.entries(this.#cursor);
      for await (const found of entries) {
        for (const { sequence, kind, envelope, salted, commitment, payloadState } of found) {
          if (sequence > size) break;
          if (payloadState === 'encrypted')
            throw new KeysUnfit(`event ${sequence} cannot be opened: its key is missing`);
          const isAction = kind === ENTRY_KINDS.lifecycleAction;
          // Earlier entries are stored before an action, and later ones only after it was applied.
          if (isAction) await append();
          const isErased = payloadState === 'erased';
          const copied = { ...decodeEnvelope(envelope).envelope, salted, commitment };
          batch.push(isErased ? { ...copied, salted: NO_SALT, isErased } : copied);
          bytes += salted.length;
          this.#cursor = cursorBehind({ sequence, at: 0 });
          if (isAction || batch.length === BATCH_ENTRIES || bytes >= BATCH_BYTES) await append();
          if (isAction) await this.#actions.obey();
        }
        await append();
        if (this.#cursor.sequence > size || this.signal.aborted) break;
      }
    } finally {
      bar.clear();
    }
  }

  async #append(batch: readonly Candidate[]): Promise<void> {
    const outcomes = await this.store.append(batch);
    const odd = outcomes.findIndex((outcome) => outcome !== 'accepted');
    if (odd < 0) return;
    const sequence = this.#cursor.sequence - batch.length + odd;
    throw new StoreDamaged({ where: 'the database', sequence }, 'duplicate event id');
  }

  async #compare(note: string, checkpoint: Checkpoint): Promise<void> {
    await this.held.tree.prove(checkpoint);
    const { size } = checkpoint;
    const keep = Date.now() - this.#keptAt >= KEEP_EVERY_MS;
    await this.held.treeStore.swapHead(this.held.head, note, keep ? size : undefined);
    if (keep) this.#keptAt = Date.now();
    this.held.head = note;
    this.held.signed = size;
  }

  /** Copies the lines that the directory lacks. */
  async #copyAccessLog(): Promise<void> {
    const accessLog = openMirroredLog(this.config.dataDir);
    let lines = 0;
    for await (const piece of accessLog.lines()) lines += countLines(piece);
    for await (const piece of this.shared.accessLog.lines({ lines, at: 0 })) {
      accessLog.append(piece.toString().slice(0, -1));
    }
  }

  /** Forwards the lines of readings on the mirror to the database. */
  async #forwardReadings(): Promise<void> {
    const readings = openReadingsLog(this.config.dataDir);
    let text = '';
    for await (const piece of readings.lines({ lines: 0, at: this.notes.current.forwarded }))
      text += piece.toString();
    const end = text.lastIndexOf('\n') + 1;
    for (const line of text.slice(0, end).split('\n').slice(0, -1)) {
      try {
        await this.shared.accessLog.append(line);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        report(`warning: a line of ${readingsLogPath(this.config.dataDir)} was left out: ${error.message}`);
      }
      this.notes.update({ forwarded: this.notes.current.forwarded + Buffer.byteLength(line) + 1 });
    }
  }
}

function countLines(piece: Buffer): number {
  let lines = 0;
  for (let at = piece.indexOf(0x0a); at >= 0; at = piece.indexOf(0x0a, at + 1)) lines++;
  return lines;
}

function report(line: string): void {
  process.stderr.write(`collector: ${line}\n`);
}
