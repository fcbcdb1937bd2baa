/**
 * `collector mirror`: follows a log in a database and writes an ordinary data directory, on which every command that
 * reads works. It believes only what comes out under the log's signature:
 *
 *   read      the newest checkpoint of the database, signed by a key of the log
 *   copy      the entries up to it, each checked against its leaf, into the log of the directory
 *   compare   the root over the leaves of the directory's own log is that of the checkpoint
 *   swap      the checkpoint takes the place of the one before
 *
 * A crash at any point leaves a directory that continues: what was copied and not compared is compared the next time.
 *
 * Who reads on the mirror is logged in a file of its own, whose lines are brought to the access log of the database as
 * soon as that can be reached. `access.log` of the directory is a copy of that one: the log has heads of it.
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
import { openReadingsLog, readingsLogPath } from '@clinical-events/collector/store/open-access-log';
import { openStore } from '@clinical-events/collector/store/open-to-read';
import { readHistory } from '@clinical-events/collector/tree/key-files';
import {
  type MirrorNote,
  readMirrorNote,
  writeMirrorNote,
} from '@clinical-events/collector/tree/state-files';
import { defineCommand } from '@clinical-events/collector/commands/define';
import {
  CommandFailure,
  EXIT,
  onStop,
  reasonOf,
  usage,
} from '@clinical-events/collector/commands/exit-codes';
import { encryptionOf } from '@clinical-events/collector/commands/payload-encryption';
import { ProgressBar } from '@clinical-events/collector/commands/terminal';
import { holdDirectory } from '@clinical-events/collector/commands/held-directory';
import { holdsLog } from '@clinical-events/collector/commands/regular-files';
import { describeAddress, parseAddress } from '../address.js';
import { openForReading } from '../driver.js';
import { MirroredActions } from '../mirrored-actions.js';

const EXAMPLES = `  $ collector mirror --store postgres://reader@db1,db2/collector --data-dir /var/lib/mirror
  $ collector mirror --store postgres://reader@db1,db2/collector --data-dir /var/lib/mirror --once
  $ collector mirror --store postgres://reader@db1,db2/collector --data-dir /var/lib/mirror --kek command:/usr/local/bin/kms
  $ collector records --data-dir /var/lib/mirror

It continues where it stopped, and follows until a signal; with --once until it has all that is signed when it begins.
Each entry is checked against its leaf, and each checkpoint against the mirror's own log: what does not fit is not taken,
and nothing after it. Where payloads are encrypted, it reads by the keys of the log, which --kek wraps, and
encrypts by keys of its own, in encryption-keys of its directory (docs/guide/encryption.md).

Exit codes: 3 the database does not hold what was signed; 5 another process has the data directory.`;

const FOLLOW_EVERY_MS = 500;
const RETRY_EVERY_MS = 5000;
const COMPACTION_LOOK_MS = 1000;
const TELL_EVERY_MS = 10_000;
/** Of a batch of the mirror's own log. */
const BATCH_ENTRIES = 1024;
const BATCH_BYTES = 4 << 20;
const NO_SALT = Buffer.alloc(SALT_BYTES);
/** After so many entries the tree is brought up to them, and its hashes to the disk. */
const STAGE_EVERY = 65_536;
const KEEP_EVERY_MS = 3_600_000;
const BAR_FROM_ENTRIES = 200_000;

export const command = defineCommand<{ readonly once?: true }>({
  name: 'mirror',
  description: 'Copy a log from its database into a data directory, prove it, and follow it.',
  options: { '--once': 'end when it has all that is signed now' },
  configuration: 'mirror',
  examples: EXAMPLES,
  run({ options, config: read }) {
    const config = read();
    if (config.store === '') throw usage('--store: say which database is mirrored, as postgres://…');
    return run(config, options.once === true);
  },
});

async function run(config: Config, once: boolean): Promise<void> {
  const { dataDir } = config;
  const shared = await openMirrored(config);
  const { ledgerId } = shared.events;
  const held = holdDirectory(dataDir);
  const stop = new AbortController();
  onStop(() => stop.abort());
  try {
    assertMirrorOf(config, ledgerId);
    const onTrouble = (what: string, error: unknown) =>
      tell(`warning: ${what}${error === undefined ? '' : `: ${reasonOf(error)}`}`);
    // By keys of its own, so that what happens to those of the log is not what happens to these.
    const own = { dataDir, encryption: 'on', encryptionKeys: '', kek: '' } as const;
    const store = await openForWriting({
      ...{ directory: dataDir, segmentBytes: config.segmentBytes, lock: held.file, ledgerId, onTrouble },
      ...(shared.encryptionKeys !== undefined && {
        encryption: encryptionOf(own, onTrouble),
      }),
    });
    const compaction = new BackgroundCompaction({ dataDir, store, onTrouble });
    stop.signal.addEventListener('abort', () => {
      compaction.close().catch(() => undefined);
    });
    try {
      const mirror = await Mirror.open(config, shared, store, stop.signal);
      if (!once) compaction.start(COMPACTION_LOOK_MS);
      await (once ? mirror.once() : mirror.follow());
      if (once) await compaction.look();
    } finally {
      await compaction.close();
      await store.close();
    }
  } catch (error) {
    if (error instanceof StoreDamaged || error instanceof CheckpointContradicted) {
      throw new CommandFailure(
        `${describeAddress(parseAddress(config.store))} does not hold what was signed: ${error.message}. The mirror stays as it is`,
        EXIT.damaged,
        { cause: error },
      );
    }
    throw error;
  } finally {
    await shared.close();
    held.release();
  }
}

/** With the keys of its payloads, where these are encrypted. */
async function openMirrored(config: Config): Promise<OpenSharedStore> {
  const { encryptionKeys, kek } = config;
  const place = parseAddress(config.store);
  const closed = await openForReading(place);
  const address = encryptionKeys || closed.encryptionKeys;
  if (closed.encryptionKeys === undefined || address === undefined) return closed;
  await closed.close();
  if (kek === '')
    throw usage(
      '--kek: the payloads of this log are encrypted; say what wraps their keys, as its collectors do',
    );
  return openForReading(place, { directories: [address], kek });
}

/** @throws CommandFailure when the directory has a log that is no mirror, or of another log. */
function assertMirrorOf(config: Config, ledgerId: string): void {
  const { dataDir } = config;
  const note = readMirrorNote(dataDir);
  if (note === undefined && holdsLog(dataDir)) {
    throw new CommandFailure(
      `${dataDir} holds a log of its own: give the mirror another directory`,
      EXIT.usage,
    );
  }
  if (note !== undefined && note.ledger_id !== ledgerId) {
    throw new CommandFailure(
      `${dataDir} is a mirror of another log: give this one another directory`,
      EXIT.usage,
    );
  }
  if (note === undefined) {
    writeMirrorNote(dataDir, {
      store: describeAddress(parseAddress(config.store)),
      ledger_id: ledgerId,
      ...{ id: randomUUID(), forwarded: 0, followed: 0 },
    });
  }
}

/** What the directory holds, proved. */
interface Held {
  readonly treeStore: TreeStore;
  readonly tree: ProvenTree;
  /** Its newest checkpoint, and how many entries that covers; -1 without one. */
  readonly head: string | undefined;
  readonly signed: number;
}

/** @throws StoreDamaged, CheckpointContradicted if the directory does not hold what its newest checkpoint was signed over. */
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
    tell('warning: the hashes of the tree are damaged or missing and are rebuilt from the events');
    // Before a hash is written over: if events were changed, the old hashes show which.
    await new ProvenTree(GrowingTree.empty(), leaves).prove(checkpoint);
  }
  const tree = new ProvenTree(believed, leaves, treeStore);
  await tree.prove(checkpoint);
  return { treeStore, head, signed, tree };
}

/** @throws CheckpointContradicted if no key of the log has signed it. */
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
  throw new CheckpointContradicted(`its newest checkpoint is of another log, ${checkpoint.origin}`);
}

class Mirror {
  readonly #treeStore: TreeStore;
  readonly #tree: ProvenTree;
  #head: string | undefined;
  #signed: number;
  #keptAt = -Infinity;
  readonly #actions: MirroredActions;
  #cursor: Cursor;
  #note: MirrorNote;

  private constructor(
    private readonly config: Config,
    private readonly shared: OpenSharedStore,
    private readonly store: WritableStore,
    private readonly signal: AbortSignal,
    { treeStore, tree, head, signed }: Held,
    note: MirrorNote,
  ) {
    [this.#treeStore, this.#tree, this.#head, this.#signed] = [treeStore, tree, head, signed];
    this.#cursor = cursorAt(store.committed.entries + 1);
    this.#note = note;
    this.#actions = new MirroredActions(config.dataDir, shared, store, {
      followed: () => this.#note.followed,
      follow: (followed) => this.#noteAs({ followed }),
      id: note.id,
    });
  }

  #noteAs(more: Partial<MirrorNote>): void {
    this.#note = { ...this.#note, ...more };
    writeMirrorNote(this.config.dataDir, this.#note);
  }

  /** On return what the mirror holds is what was signed. @throws CheckpointContradicted, StoreDamaged. */
  static async open(
    config: Config,
    shared: OpenSharedStore,
    store: WritableStore,
    signal: AbortSignal,
  ): Promise<Mirror> {
    const { dataDir } = config;
    const note = readMirrorNote(dataDir);
    if (note === undefined) throw new Error('the note of the mirror is gone');
    await shared.publicKeys.pull(dataDir);
    return new Mirror(config, shared, store, signal, await heldIn(dataDir, store), note);
  }

  /** On return the mirror has all that was signed when it began. */
  async once(): Promise<void> {
    await this.#round();
    const { dataDir } = this.config;
    const entries = counted(Math.max(0, this.#signed), 'entry', 'entries');
    const more = this.signal.aborted ? ', and was stopped before it had all' : '';
    process.stdout.write(`The mirror in ${inQuotes(dataDir)} has ${entries}, as they were signed${more}.\n`);
  }

  /** Follows until it is told to stop. What cannot be reached is tried again. */
  async follow(): Promise<void> {
    let toldAt = -Infinity;
    let trouble = false;
    while (!this.signal.aborted) {
      let pause = FOLLOW_EVERY_MS;
      try {
        const before = this.#signed;
        const behind = await this.#round();
        const isNews = trouble || this.#signed > before;
        if (isNews && performance.now() - toldAt >= TELL_EVERY_MS) {
          tell(`${counted(this.#signed, 'entry', 'entries')} mirrored, ${behind} behind`);
          toldAt = performance.now();
        }
        trouble = false;
      } catch (error) {
        if (error instanceof StoreDamaged || error instanceof CheckpointContradicted) throw error;
        if (!trouble) tell(`warning: the database cannot be followed; it is tried again: ${reasonOf(error)}`);
        trouble = true;
        pause = RETRY_EVERY_MS;
      }
      await sleep(pause, undefined, { signal: this.signal }).catch(() => undefined);
    }
    tell(`stopped with ${counted(Math.max(0, this.#signed), 'entry', 'entries')}`);
  }

  /** Takes in what is signed by now. @returns how many entries the database has more. */
  async #round(): Promise<number> {
    const { tree, events } = this.shared;
    // What waited the last time, or was cut off.
    await this.#actions.obey();
    const note = await tree.head();
    if (note === undefined) return 0;
    await this.shared.publicKeys.pull(this.config.dataDir);
    const checkpoint = this.#believed(note);
    // Before the entries that hold their heads.
    await this.#copyAccessLog();
    if (note !== this.#head) {
      await this.#copyTo(checkpoint.size);
      if (this.signal.aborted) return 0;
      await this.#compare(note, checkpoint);
    }
    await this.#forwardReadings();
    return (await events.end()).sequence - 1 - this.#signed;
  }

  /** @throws CheckpointContradicted if no key of the log has signed it, or it covers less than one before. */
  #believed(note: string): Checkpoint {
    const checkpoint = checkpointOf(this.config.dataDir, note);
    if (checkpoint.size >= this.#signed) return checkpoint;
    throw new CheckpointContradicted(
      `its newest checkpoint covers ${checkpoint.size} entries, and the mirror has one over ${this.#signed}`,
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
        if (committed.entries - this.#tree.size >= STAGE_EVERY) await this.#tree.grow(committed.entries);
      };
      const entries = this.shared.events.entries(this.#cursor);
      for await (const found of entries) {
        for (const { sequence, kind, envelope, salted, commitment, payloadState } of found) {
          if (sequence > size) break;
          if (payloadState === 'encrypted')
            throw new KeysUnfit(`event ${sequence} cannot be opened: its key is missing`);
          const isAction = kind === ENTRY_KINDS.lifecycleAction;
          // What an action is about is there before it, and nothing comes behind it before it is done.
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
    await this.#tree.prove(checkpoint);
    const { size } = checkpoint;
    const keep = Date.now() - this.#keptAt >= KEEP_EVERY_MS;
    await this.#treeStore.swapHead(this.#head, note, keep ? size : undefined);
    if (keep) this.#keptAt = Date.now();
    this.#head = note;
    this.#signed = size;
  }

  /** Copies the lines that the directory does not have yet. */
  async #copyAccessLog(): Promise<void> {
    const { accessLog } = openStore(this.config.dataDir);
    let lines = 0;
    for await (const piece of accessLog.lines()) lines += countLines(piece);
    for await (const piece of this.shared.accessLog.lines({ lines, at: 0 })) {
      accessLog.append(piece.toString().slice(0, -1));
    }
  }

  /** Brings the lines of readings on the mirror to the database. */
  async #forwardReadings(): Promise<void> {
    const readings = openReadingsLog(this.config.dataDir);
    let text = '';
    for await (const piece of readings.lines({ lines: 0, at: this.#note.forwarded }))
      text += piece.toString();
    const end = text.lastIndexOf('\n') + 1;
    for (const line of text.slice(0, end).split('\n').slice(0, -1)) {
      try {
        await this.shared.accessLog.append(line);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        tell(`warning: a line of ${readingsLogPath(this.config.dataDir)} was left out: ${error.message}`);
      }
      this.#noteAs({ forwarded: this.#note.forwarded + Buffer.byteLength(line) + 1 });
    }
  }
}

function countLines(piece: Buffer): number {
  let lines = 0;
  for (let at = piece.indexOf(0x0a); at >= 0; at = piece.indexOf(0x0a, at + 1)) lines++;
  return lines;
}

function tell(line: string): void {
  process.stderr.write(`collector: ${line}\n`);
}
