/** What the parts of a running collector tell the management listener, gathered while they come into being. */
import fs from 'node:fs';
import path from 'node:path';
import type { KeyRing, KeyUse } from '../../access/key-ring.js';
import type { Ingest } from '../../ingest/ingest.js';
import type { Listener } from '../../ingest/listener.js';
import type { OtlpCounters } from '../../otlp/otlp-counters.js';
import type { OtlpReceiver } from '../../otlp/receiver.js';
import { LedgerCounters, type LedgerCounts } from '../../ledger/ledger-counters.js';
import type { PrivacyState } from '../../ledger/lifecycle.js';
import type {
  Alarm,
  BackupState,
  CertificateState,
  CheckpointState,
  DiskSpace,
  IndexState,
  Phase,
  RunState,
  VerifyState,
  CollectorStatus,
} from '../../operate/status.js';
import {
  type CheckpointTroubleState,
  readBackupNote,
  readCheckpointTrouble,
  readVerifyResult,
} from '../../tree/state-files.js';
import { checkpointOf } from '../../tree/sink-queue.js';
import type { Publisher, SinkView } from '../../tree/publisher.js';
import { exposureOf } from '../../store/directory-lock.js';
import type { Follower } from './follower.js';
import type { LedgerWorker } from './ledger-worker.js';
import { isGone, liesElsewhere, type KeyPlace } from '../../tree/key-files.js';
import { ownName, typedByName, version } from '../typed.js';

export interface CollectorParts {
  readonly dataDir: string;
  readonly keyPlace: KeyPlace;
  readonly keys: KeyRing;
  readonly ingest: Ingest;
  readonly publisher: Publisher;
  readonly tokenInClear: boolean;
  readonly clockSteps: CollectorStatus['clockSteps'];
  readonly droppedLines: CollectorStatus['droppedLines'];
  /** As it is configured now. */
  readonly backupMaxAgeMs: () => number;
  /** What the ledger's thread counts in. */
  readonly counters: SharedArrayBuffer;
  readonly listens: boolean;
}

/** Small files are looked at so often at most, in milliseconds, however often someone asks. */
const FILES_EVERY_MS = 1000;

export class RunningStatus implements CollectorStatus {
  readonly version = version();
  readonly command = ownName();
  readonly typed = typedByName;
  readonly startedAt = Date.now();
  readonly ingest: CollectorStatus['ingest'];
  /** Set once there is one. */
  thread: LedgerWorker | undefined;
  listener: Listener | undefined;
  otlpSide: { readonly listener: Listener; readonly receiver: OtlpReceiver } | undefined;
  follower: Follower | undefined;
  #phase: Phase = 'starting';
  #checkpoint: CheckpointState | undefined;
  /** What the ledger's thread said last, in a list of one; none before it said anything. */
  #trouble: readonly [CheckpointTroubleState | undefined] | undefined;
  readonly #alarms = new Set<Alarm>();
  #keyLiesElsewhere: boolean | undefined;
  readonly #parts: CollectorParts;
  readonly #counters: LedgerCounters;
  readonly #files: Recent<{
    readonly trouble: CheckpointTroubleState | undefined;
    readonly verify: VerifyState | undefined;
    readonly backup: BackupState | undefined;
    readonly began: number | undefined;
    readonly exposed: boolean;
    readonly keyGone: boolean;
  }>;

  constructor(parts: CollectorParts) {
    this.#parts = parts;
    const { ingest } = parts;
    this.ingest = {
      counters: ingest.counters,
      get queue() {
        return ingest.queue;
      },
      get storage() {
        return ingest.storage;
      },
    };
    this.#counters = new LedgerCounters(parts.counters);
    const { dataDir, keyPlace } = parts;
    this.#files = new Recent(() => ({
      trouble: unlessUnreadable(() => readCheckpointTrouble(dataDir)),
      verify: unlessUnreadable(() => verifyStateOf(dataDir)),
      backup: unlessUnreadable(() => backupStateOf(dataDir)),
      // Written once, when the log begins or is restored.
      began: unlessUnreadable(() => fs.statSync(path.join(dataDir, 'checkpoints', 'origin.vkey')).mtimeMs),
      exposed: unlessUnreadable(() => exposureOf(dataDir)) !== undefined,
      keyGone: unlessUnreadable(() => this.#isGone(keyPlace)) ?? false,
    }));
  }

  phase(): Phase {
    return this.#phase;
  }

  entered(phase: Phase): void {
    this.#phase = phase;
  }

  /** A checkpoint is the newest one now. The first may have been signed by the collector before. */
  noteCheckpoint(note: string): void {
    const { size: entries } = checkpointOf(note);
    const signedBefore =
      this.#checkpoint === undefined
        ? unlessUnreadable(() => fs.statSync(path.join(this.#parts.dataDir, 'checkpoints', 'latest')).mtimeMs)
        : undefined;
    this.#checkpoint = { entries, at: signedBefore ?? Date.now() };
  }

  /** As {@link checkpointTrouble}, from who makes them: a full disk keeps it out of the file. */
  noteCheckpointTrouble(trouble: CheckpointTroubleState | undefined): void {
    this.#trouble = [trouble];
  }

  ledger(): LedgerCounts {
    return this.#counters.read();
  }

  askThread(): void {
    this.thread?.ask();
  }

  listens(): boolean {
    return this.#parts.listens;
  }

  connections(): number {
    return (this.listener?.connections ?? 0) + (this.otlpSide?.listener.connections ?? 0);
  }

  otlp(): OtlpCounters | undefined {
    return this.otlpSide?.receiver.counters;
  }

  ledgerLivedAt(): number | undefined {
    return this.thread?.livedAt;
  }

  index(): IndexState | undefined {
    return this.thread?.index;
  }

  privacy(): PrivacyState | undefined {
    return this.thread?.privacy;
  }

  runs(): RunState | undefined {
    return this.follower?.tally;
  }

  catalogueTroubleSince(): number | undefined {
    return this.follower?.troubleSince;
  }

  keys(): Iterable<KeyUse> {
    return this.#parts.keys.uses();
  }

  keysCurrent(): boolean {
    return this.#parts.keys.current;
  }

  sinks(): readonly SinkView[] {
    return this.#parts.publisher.sinks;
  }

  checkpoint(): CheckpointState | undefined {
    return this.#checkpoint;
  }

  checkpointTrouble(): CheckpointTroubleState | undefined {
    return this.#trouble === undefined ? this.#files.get().trouble : this.#trouble[0];
  }

  /** As {@link alarms}; it is so until the process ends. */
  noteAlarm(about: Alarm): void {
    this.#alarms.add(about);
  }

  alarms(): ReadonlySet<Alarm> {
    return this.#alarms;
  }

  certificates(): readonly CertificateState[] {
    const tls = this.listener?.tls;
    return tls === undefined ? [] : [{ name: 'ingest', notAfter: tls.certificateExpiresAt }];
  }

  lastVerify(): VerifyState | undefined {
    return this.#files.get().verify;
  }

  lastBackup(): BackupState | undefined {
    return this.#files.get().backup;
  }

  backupMaxAgeMs(): number {
    return this.#parts.backupMaxAgeMs();
  }

  logBeganAt(): number | undefined {
    return this.#files.get().began;
  }

  tokenInClear(): boolean {
    return this.#parts.tokenInClear;
  }

  exposed(): boolean {
    return this.#files.get().exposed;
  }

  clockSteps(): ReturnType<CollectorStatus['clockSteps']> {
    return this.#parts.clockSteps();
  }

  droppedLines(): ReturnType<CollectorStatus['droppedLines']> {
    return this.#parts.droppedLines();
  }

  #isGone(place: KeyPlace): boolean {
    // Before there is a checkpoint, the key is being made.
    return this.#checkpoint !== undefined && this.#liesElsewhere(place) === false && isGone(place);
  }

  /** Where the keys lie is asked until it is known, and no longer: that file system may hang later. */
  #liesElsewhere(place: KeyPlace): boolean | undefined {
    return (this.#keyLiesElsewhere ??= liesElsewhere(place));
  }

  keyGone(): boolean {
    return this.#files.get().keyGone;
  }

  async lookAtDisk(): Promise<DiskSpace> {
    const { bsize, bavail, blocks } = await fs.promises.statfs(this.#parts.dataDir);
    return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
  }
}

function verifyStateOf(dataDir: string): VerifyState | undefined {
  const result = readVerifyResult(dataDir);
  return result === undefined ? undefined : { ...result, at: Date.parse(result.at) };
}

function backupStateOf(dataDir: string): BackupState | undefined {
  const note = readBackupNote(dataDir);
  return note === undefined ? undefined : { ...note, at: Date.parse(note.at) };
}

/** A value that is read again when it was asked for a while after the last time. */
class Recent<T> {
  #value: T | undefined;
  #until = 0;

  constructor(private readonly read: () => T) {}

  get(): T {
    if (this.#value === undefined || performance.now() >= this.#until) {
      this.#value = this.read();
      this.#until = performance.now() + FILES_EVERY_MS;
    }
    return this.#value;
  }
}

/** What cannot be read is told elsewhere, by the part whose it is. */
function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
