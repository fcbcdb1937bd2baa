/** Collects the state of the parts of a running collector as they are created. */
import fs from 'node:fs';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Ingest } from '../../ingest/ingest.js';
import type { Listener } from '../../ingest/listener.js';
import type { OtlpReceiver } from '../../otlp/receiver.js';
import { LedgerCounters } from '../../ledger/ledger-counters.js';
import { type KeyRing, shownKeys } from '../../access/key-ring.js';
import type {
  Alarm,
  BackupState,
  CheckpointState,
  DiskSpace,
  Phase,
  Snapshot,
  VerifyState,
} from '../../operate/snapshot.js';
import {
  type CheckpointTroubleState,
  readBackupNote,
  readCheckpointTrouble,
  readVerifyResult,
} from '../../tree/state-files.js';
import { checkpointOf } from '../../tree/log-view.js';
import type { Publisher } from '../../tree/publisher.js';
import { exposureOf } from '../../store/directory-lock.js';
import type { AccessSocketWorker } from './access-socket-worker.js';
import type { Follower } from './follower.js';
import type { LedgerWorker } from './ledger-worker.js';
import { isGone, liesElsewhere, type KeyPlace } from '../../tree/key-files.js';
import type { ServerCertificate } from '../../ingest/tls.js';
import { commit, ownName, version } from '../typed.js';

export interface CollectorParts {
  readonly dataDir: string;
  readonly keyPlace: KeyPlace;
  readonly keys: KeyRing;
  readonly ingest: Ingest;
  readonly publisher: Publisher;
  readonly tokenInClear: boolean;
  readonly clockSteps: () => Snapshot['clockSteps'];
  readonly droppedLines: () => Snapshot['droppedLines'];
  /** The currently configured value. */
  readonly backupMaxAgeMs: () => number;
  /** Counters of the ledger's thread. */
  readonly counters: SharedArrayBuffer;
  readonly listens: boolean;
  readonly certificate: ServerCertificate | undefined;
}

/** Minimum interval between reads of small files, in milliseconds. */
const FILES_EVERY_MS = 1000;
const DISK_EVERY_MS = 5000;

/** Contents of small files in the data directory. */
interface Files extends Pick<Snapshot, 'lastVerify' | 'lastBackup' | 'logBeganAt' | 'exposed' | 'keyGone'> {
  readonly trouble: CheckpointTroubleState | undefined;
}

export class RunningStatus {
  readonly version = version();
  readonly commit = commit();
  readonly startedAt = Date.now();
  /** Called when the phase changes. */
  onPhase: () => void = () => undefined;
  /** The ledger's thread, once it exists. */
  thread: LedgerWorker | undefined;
  listener: Listener | undefined;
  otlpSide: { readonly listener: Listener; readonly receiver: OtlpReceiver } | undefined;
  follower: Follower | undefined;
  accessSocket: AccessSocketWorker | undefined;
  #phase: Phase = 'starting';
  #checkpoint: CheckpointState | undefined;
  /** The last report of the ledger's thread, wrapped in a list; undefined before the first report. */
  #trouble: readonly [CheckpointTroubleState | undefined] | undefined;
  readonly #alarms = new Set<Alarm>();
  #keyLiesElsewhere: boolean | undefined;
  readonly #parts: CollectorParts;
  readonly #counters: LedgerCounters;
  #files: Files | undefined;
  #filesUntil = 0;
  #disk: DiskSpace | undefined;
  #diskUntil = 0;

  constructor(parts: CollectorParts) {
    this.#parts = parts;
    this.#counters = new LedgerCounters(parts.counters);
  }

  /**
   * The current state. Waits only for small files of the data directory, and asks the ledger's thread for a
   * report.
   */
  snapshot(): Snapshot {
    const { ingest, keys, publisher, ...parts } = this.#parts;
    const { trouble, ...files } = this.#readFiles();
    const now = Date.now();
    const uses = [...keys.uses()];
    const listed = shownKeys(uses, now);
    const checkpointTrouble = this.#trouble === undefined ? trouble : this.#trouble[0];
    if (this.#phase === 'running') this.thread?.ask();
    this.#lookAtDisk();
    return {
      now,
      monotonic: performance.now(),
      version: this.version,
      commit: this.commit,
      command: ownName(),
      startedAt: this.startedAt,
      phase: this.#phase,
      ingest: ingest.counters.read(),
      queue: ingest.queue,
      storage: ingest.storage,
      otlp: this.otlpSide && {
        signals: this.otlpSide.receiver.counters.signals,
        shortened: this.otlpSide.receiver.counters.shortened,
        events: ingest.counters.ofRequests,
      },
      ledger: this.ledger,
      ledgerLivedAt: this.thread?.livedAt,
      busyMs: performance.eventLoopUtilization().active,
      listens: parts.listens,
      connections: (this.listener?.connections ?? 0) + (this.otlpSide?.listener.connections ?? 0),
      index: this.thread?.index,
      privacy: this.thread?.privacy,
      breakGlass: this.accessSocket?.breakGlass ?? { looks: 0, at: undefined },
      runs: this.follower?.tally,
      catalogueTroubleSince: this.follower?.troubleSince,
      keys: listed,
      keysNotListed: uses.length - listed.length,
      keysCurrent: keys.current,
      sinks: publisher.sinks,
      checkpoint: this.#checkpoint,
      checkpointTroubleSince: checkpointTrouble && Date.parse(checkpointTrouble.since),
      alarms: this.#alarms,
      certificates: parts.certificate
        ? [{ name: 'ingest', notAfter: parts.certificate.x509.validToDate.getTime() }]
        : [],
      backupMaxAgeMs: parts.backupMaxAgeMs(),
      tokenInClear: parts.tokenInClear,
      clockSteps: parts.clockSteps(),
      droppedLines: parts.droppedLines(),
      disk: this.#disk,
      ...files,
    };
  }

  get ledger(): Snapshot['ledger'] {
    return this.#counters.read();
  }

  entered(phase: Phase): void {
    this.#phase = phase;
    this.onPhase();
  }

  /** A new checkpoint. The first may have been signed by an earlier process. */
  noteCheckpoint(note: string): void {
    const { size: entries } = checkpointOf(note);
    const signedBefore =
      this.#checkpoint === undefined
        ? unlessUnreadable(() => fs.statSync(path.join(this.#parts.dataDir, 'checkpoints', 'latest')).mtimeMs)
        : undefined;
    this.#checkpoint = { entries, at: signedBefore ?? Date.now() };
    // Determined at the first checkpoint, when the key exists, and only once: its file system may hang later.
    const { keyPlace } = this.#parts;
    this.#keyLiesElsewhere ??= unlessUnreadable(() => liesElsewhere(keyPlace));
  }

  /** Reported by the thread that makes checkpoints, since a full disk prevents writing the file. */
  noteCheckpointTrouble(trouble: CheckpointTroubleState | undefined): void {
    this.#trouble = [trouble];
  }

  /** An alarm stays until the process ends. */
  noteAlarm(about: Alarm): void {
    this.#alarms.add(about);
  }

  #readFiles(): Files {
    if (this.#files !== undefined && performance.now() < this.#filesUntil) return this.#files;
    const { dataDir, keyPlace } = this.#parts;
    this.#files = {
      trouble: unlessUnreadable(() => readCheckpointTrouble(dataDir)),
      lastVerify: unlessUnreadable(() => verifyStateOf(dataDir)),
      lastBackup: unlessUnreadable(() => backupStateOf(dataDir)),
      // Written once, when the log is created or restored.
      logBeganAt: unlessUnreadable(
        () => fs.statSync(path.join(dataDir, 'checkpoints', 'origin.vkey')).mtimeMs,
      ),
      exposed: unlessUnreadable(() => exposureOf(dataDir)) !== undefined,
      keyGone: unlessUnreadable(() => this.#isGone(keyPlace)) ?? false,
    };
    this.#filesUntil = performance.now() + FILES_EVERY_MS;
    return this.#files;
  }

  #isGone(place: KeyPlace): boolean {
    // Before the first checkpoint, the key is being created.
    return this.#keyLiesElsewhere === false && isGone(place);
  }

  /** At most one query is pending: a hanging mount must not occupy several threads of the pool. */
  #lookAtDisk(): void {
    if (performance.now() < this.#diskUntil) return;
    this.#diskUntil = Infinity;
    fs.promises
      .statfs(this.#parts.dataDir)
      .then(({ bsize, bavail, blocks }) => {
        this.#disk = { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
      })
      .catch(() => undefined)
      .finally(() => (this.#diskUntil = performance.now() + DISK_EVERY_MS));
  }
}

function verifyStateOf(dataDir: string): VerifyState | undefined {
  const result = readVerifyResult(dataDir);
  return result && { ...result, at: Date.parse(result.at) };
}

function backupStateOf(dataDir: string): BackupState | undefined {
  const note = readBackupNote(dataDir);
  return note && { ...note, at: Date.parse(note.at) };
}

/** Ignores errors: an unreadable file is reported by the part that owns it. */
function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
