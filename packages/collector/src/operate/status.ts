/** What the management listener may know of the collector: everything here is a count, an instant, a state or a name. */
import type { KeyUse } from '../access/key-ring.js';
import type { ClockStep } from '../clock.js';
import type { IngestCounters } from '../ingest/ingest-counters.js';
import type { OtlpCounters } from '../otlp/otlp-counters.js';
import type { QueueState, StorageState } from '../ingest/ingest.js';
import { TIME_BOUNDS_MS, quantile } from '../ledger/buckets.js';
import { type LedgerCounts } from '../ledger/ledger-counters.js';
import type { PrivacyState } from '../ledger/lifecycle.js';
import type { SinkView } from '../tree/publisher.js';
import type { CheckpointTroubleState } from '../tree/state-files.js';

/** `starting`: the ledger is being opened. `stopping`: no new events are taken. */
export type Phase = 'starting' | 'running' | 'stopping';

/** The newest checkpoint. */
export interface CheckpointState {
  /** How many entries it covers, those of the log's own among them. */
  readonly entries: number;
  /** When it was signed, in milliseconds since 1970 UTC. */
  readonly at: number;
}

/** The id index as its driver tells of it. */
export interface IndexState {
  readonly entries: number;
  readonly runs: number;
  /** Full tables in memory that wait to be written. */
  readonly frozenTables: number;
  readonly diskBytes: number;
  readonly memoryBytes: number;
}

export interface DiskSpace {
  /** What the collector's user may still write. */
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** A certificate that the collector presents. */
export interface CertificateState {
  /** Which one, in the collector's own words: never a path, never anything out of the certificate. */
  readonly name: string;
  /** The last instant of its validity, in milliseconds since 1970 UTC. */
  readonly notAfter: number;
}

/** What `collector verify` found when it ran last on this data directory. */
export interface VerifyState {
  readonly at: number;
  readonly intact: boolean;
  readonly events: number;
}

/** The last run of `collector backup` on this data directory. */
export interface BackupState {
  /** When it began, in milliseconds since 1970 UTC. */
  readonly at: number;
  /** That it holds. */
  readonly events: number;
  /** Whether it was a round of `--follow`. */
  readonly follows?: boolean;
}

/** How complete the runs are that began in a while, and which of their events are orphans (catalogue/). */
export interface RunState {
  /** Milliseconds since 1970 UTC. */
  readonly since: number;
  readonly full: number;
  readonly minimum: number;
  readonly incomplete: number;
  readonly retired: number;
  /** Of all of these. */
  readonly withoutOutcome: number;
  readonly orphanEvents: number;
  /** Events of the log that are taken in, whenever they came. */
  readonly events: number;
}

/**
 * The access log is not the one that the log has heads of; the log in a database is behind what was signed; or
 * acknowledged events are gone from it.
 */
export type Alarm = 'access-log' | 'fork' | 'lost';

/** Asked again each time, on the thread that speaks HTTP. No call waits for anything or touches a disk that may hang. */
export interface CollectorStatus {
  readonly version: string;
  /** How `collector` is typed on its host, without a path. */
  readonly command: string;
  /** The text with each `collector COMMAND` so. */
  readonly typed: (text: string) => string;
  /** When the collector started, in milliseconds since 1970 UTC. */
  readonly startedAt: number;
  readonly ingest: {
    readonly counters: IngestCounters;
    readonly queue: QueueState;
    readonly storage: StorageState;
  };
  phase(): Phase;
  ledger(): LedgerCounts;
  /** Asks the ledger's thread to say that it lives. */
  askThread(): void;
  /** When it last said so, on the monotonic clock in milliseconds; undefined while it is being opened. */
  ledgerLivedAt(): number | undefined;
  /** Whether there is a listener for events. */
  listens(): boolean;
  /** Connections to it that are open, those for OTLP among them. */
  connections(): number;
  /** What came of spans and log records; undefined where OTLP is not taken. */
  otlp(): OtlpCounters | undefined;
  index(): IndexState | undefined;
  /** Undefined where payloads are not encrypted. */
  privacy(): PrivacyState | undefined;
  /** Undefined before the first count. */
  runs(): RunState | undefined;
  /** Since when the catalogue cannot be brought up to date, in milliseconds since 1970 UTC. */
  catalogueTroubleSince(): number | undefined;
  keys(): Iterable<KeyUse>;
  /** Whether the keys could be read the last time. */
  keysCurrent(): boolean;
  sinks(): readonly SinkView[];
  checkpoint(): CheckpointState | undefined;
  checkpointTrouble(): CheckpointTroubleState | undefined;
  /** What was found that someone has to look after. */
  alarms(): ReadonlySet<Alarm>;
  certificates(): readonly CertificateState[];
  lastVerify(): VerifyState | undefined;
  lastBackup(): BackupState | undefined;
  /** From which age of the last back-up on someone should know, in milliseconds; 0: never. */
  backupMaxAgeMs(): number;
  /** When the log began or was restored here, in milliseconds since 1970 UTC; undefined while that is not known. */
  logBeganAt(): number | undefined;
  /** Whether the operator's token comes from other machines for everybody on the way to read. */
  tokenInClear(): boolean;
  /** Whether other users of the host may enter the data directory. */
  exposed(): boolean;
  /** Log lines that standard error did not take, and when the last one was, in milliseconds since 1970 UTC. */
  /** How often this host's clock was set since the start, and how the last time. */
  clockSteps(): { readonly count: number; readonly last: ClockStep | undefined };
  droppedLines(): { readonly lines: number; readonly at: number | undefined };
  /** Whether a file of the signing key, on the disk of the data directory, is not there any more. */
  keyGone(): boolean;
  /** Looks at the file system of the data directory; may take as long as it likes, or reject. */
  lookAtDisk(): Promise<DiskSpace>;
}

/* The last five minutes, second by second: how many events came, and how long an acknowledgement took. */

/** What happened between two looks at the counters, about a second apart. */
export interface Sample {
  /** When it ended, in milliseconds since 1970 UTC. */
  readonly at: number;
  /** How long it was, in milliseconds: a thread that is busy looks late. */
  readonly ms: number;
  readonly accepted: number;
  readonly refused: number;
  /** Milliseconds to the acknowledgement; null when nothing was acknowledged. */
  readonly p50: number | null;
  readonly p99: number | null;
}

const KEPT_SECONDS = 300;

export class Samples {
  readonly #ring: Sample[] = [];
  #next = 0;
  #accepted = 0;
  #refused = 0;
  #latencies: Float64Array;
  #lookedAt: number;

  /** @param monotonicMs now; the first sample begins here. */
  constructor(
    private readonly counters: Pick<IngestCounters, 'acceptedEvents' | 'answers' | 'latencies'>,
    monotonicMs: number,
  ) {
    this.#latencies = new Float64Array(TIME_BOUNDS_MS.length + 1);
    this.#lookedAt = monotonicMs;
  }

  /** Ends a sample and begins the next. */
  take(wallMs: number, monotonicMs: number): void {
    const accepted = Object.values(this.counters.acceptedEvents()).reduce((sum, count) => sum + count);
    let refused = 0;
    for (const { code, count } of this.counters.answers()) if (code !== 'accepted') refused += count;
    const { counts } = this.counters.latencies();
    const since = counts.map((count, i) => count - (this.#latencies[i] ?? 0));
    this.#ring[this.#next] = {
      at: wallMs,
      ms: monotonicMs - this.#lookedAt,
      accepted: accepted - this.#accepted,
      refused: refused - this.#refused,
      p50: quantile(TIME_BOUNDS_MS, since, 0.5) ?? null,
      p99: quantile(TIME_BOUNDS_MS, since, 0.99) ?? null,
    };
    this.#next = (this.#next + 1) % KEPT_SECONDS;
    this.#accepted = accepted;
    this.#refused = refused;
    this.#latencies = counts;
    this.#lookedAt = monotonicMs;
  }

  /** Oldest first. */
  list(): Sample[] {
    return [...this.#ring.slice(this.#next), ...this.#ring.slice(0, this.#next)];
  }

  /** Per second, over the last samples that together make at least so many milliseconds, or over all there are. */
  rates(overMs: number): { readonly accepted: number; readonly refused: number } {
    let ms = 0;
    let accepted = 0;
    let refused = 0;
    for (const sample of this.list().reverse()) {
      ms += sample.ms;
      accepted += sample.accepted;
      refused += sample.refused;
      if (ms >= overMs) break;
    }
    return ms === 0
      ? { accepted: 0, refused: 0 }
      : { accepted: (accepted * 1000) / ms, refused: (refused * 1000) / ms };
  }
}

/*
 * How fast the ledger grows, and so when the disk is full. A forecast takes only growth that continues: what each of the
 * last twelve hours had, or what most of the last days had. An import of past events is in neither, a night is no end of
 * all growth, and a new collector that fills its disk within days is foreseen after half a day.
 */

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** How often a look is kept, and for how long. */
const LOOK_EVERY_MS = 10 * 60_000;
const KEPT_MS = 7 * DAY_MS;
/** Rates over less say little. */
const SHORTEST_MS = 10 * 60_000;
const STEADY_HOURS = 12;
const LEAST_DAYS = 3;
/** What an event takes beside its frame: some 33 bytes in the tree, and an entry in the id index. */
const DERIVED_BYTES = 64;

interface Look {
  /** A monotonic clock, milliseconds. */
  readonly at: number;
  readonly events: number;
  readonly bytes: number;
}

export interface Growth {
  /** How long the growth was watched, in milliseconds: at most a day. */
  readonly watchedMs: number;
  /** Events and bytes of frames an hour, over that time; undefined until it is ten minutes. */
  readonly eventsPerHour: number | undefined;
  readonly bytesPerHour: number | undefined;
  /** Bytes on the disk a day, with index and tree, of the growth that continues; undefined while that is not known. */
  readonly steadyBytesPerDay: number | undefined;
  /** In how many milliseconds it can be known; undefined when it is. */
  readonly steadyKnownInMs: number | undefined;
}

export class GrowthWatch {
  #looks: Look[] = [];

  /** Keeps a look when the last kept one is ten minutes old. */
  note(look: Look): void {
    const last = this.#looks.at(-1);
    if (last !== undefined && look.at - last.at < LOOK_EVERY_MS) return;
    this.#looks.push(look);
    // The one before the last week is needed for its beginning.
    while ((this.#looks[1]?.at ?? Infinity) <= look.at - KEPT_MS) this.#looks.shift();
  }

  /** @param now what the ledger holds now. */
  growth(now: Look): Growth {
    const watched = now.at - (this.#looks[0] ?? now).at;
    const watchedMs = Math.min(watched, DAY_MS);
    const steady = this.#steadyBytesPerDay(now, watched);
    const known = {
      watchedMs,
      steadyBytesPerDay: steady,
      steadyKnownInMs: steady === undefined ? knownIn(watched) : undefined,
    };
    if (watchedMs < SHORTEST_MS) return { ...known, eventsPerHour: undefined, bytesPerHour: undefined };
    const first = this.#at(now.at - watchedMs, now);
    return {
      ...known,
      eventsPerHour: ((now.events - first.events) / watchedMs) * HOUR_MS,
      bytesPerHour: ((now.bytes - first.bytes) / watchedMs) * HOUR_MS,
    };
  }

  #steadyBytesPerDay(now: Look, watched: number): number | undefined {
    if (watched < STEADY_HOURS * HOUR_MS) return undefined;
    const slowestHour = Math.min(...this.#grown(now, STEADY_HOURS, HOUR_MS)) * (DAY_MS / HOUR_MS);
    const days = Math.floor(Math.min(watched, KEPT_MS) / DAY_MS);
    if (days < LEAST_DAYS) return slowestHour > 0 ? slowestHour : undefined;
    const sorted = this.#grown(now, days, DAY_MS).sort((a, b) => a - b);
    // More than half of the days have grown by as much. A weekend is two quiet days of seven.
    return Math.max(slowestHour, sorted[Math.floor(days / 2) - 1] ?? 0);
  }

  /** By how many bytes of the disk each of the last stretches of time has grown. */
  #grown(now: Look, stretches: number, ms: number): number[] {
    const sizes = Array.from({ length: stretches + 1 }, (_, i) => {
      const { bytes, events } = this.#at(now.at - i * ms, now);
      return bytes + events * DERIVED_BYTES;
    });
    return sizes.slice(1).map((size, i) => (sizes[i] ?? 0) - size);
  }

  /** What the ledger held at a time, between two looks in proportion. */
  #at(time: number, now: Look): Look {
    const next = this.#looks.findIndex(({ at }) => at > time);
    const after = this.#looks[next] ?? now;
    const before = this.#looks.at(next === -1 ? -1 : Math.max(0, next - 1)) ?? after;
    const part =
      after.at > before.at ? Math.min(1, Math.max(0, (time - before.at) / (after.at - before.at))) : 0;
    const between = (a: number, b: number) => a + (b - a) * part;
    return {
      at: time,
      events: between(before.events, after.events),
      bytes: between(before.bytes, after.bytes),
    };
  }
}

/** Growth in each hour is known after twelve of them, daily growth after three days. */
function knownIn(watched: number): number {
  const hours = STEADY_HOURS * HOUR_MS;
  return (watched < hours ? hours : LEAST_DAYS * DAY_MS) - watched;
}

/** @returns undefined when that cannot be told, Infinity when nothing grows steadily. */
export function daysUntilFull({ steadyBytesPerDay }: Growth, freeBytes: number): number | undefined {
  if (steadyBytesPerDay === undefined) return undefined;
  return steadyBytesPerDay <= 0 ? Infinity : freeBytes / steadyBytesPerDay;
}

/* What has to be looked at every second, so that the listener can tell of rates and of what went on meanwhile. */

const EVERY_MS = 1000;
const DISK_EVERY_MS = 5000;
export class Watch {
  readonly samples: Samples;
  /** Undefined until the disk has answered once. What it answered last stays when it hangs. */
  disk: DiskSpace | undefined;
  readonly #collectorStatus: CollectorStatus;
  readonly #growth = new GrowthWatch();
  #timer: NodeJS.Timeout | undefined;
  #looking = false;
  #lookedAt = -Infinity;

  constructor(collectorStatus: CollectorStatus) {
    this.#collectorStatus = collectorStatus;
    this.samples = new Samples(collectorStatus.ingest.counters, performance.now());
  }

  /** Does not keep the process alive. */
  start(): void {
    this.#lookAtDisk(performance.now());
    this.#timer ??= setInterval(() => this.#look(), EVERY_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  get growth(): Growth {
    return this.#growth.growth(this.#ledger(performance.now()));
  }

  #look(): void {
    const wall = Date.now();
    const now = performance.now();
    this.samples.take(wall, now);
    // What is read while the ledger is being opened is nothing, and everything after it would look like growth.
    if (this.#collectorStatus.phase() === 'running') {
      this.#growth.note(this.#ledger(now));
      this.#collectorStatus.askThread();
    }
    if (now - this.#lookedAt >= DISK_EVERY_MS) this.#lookAtDisk(now);
  }

  /** One look is under way at most: a mount that hangs must not take one thread of the pool after the other. */
  #lookAtDisk(now: number): void {
    if (this.#looking) return;
    this.#looking = true;
    this.#lookedAt = now;
    this.#collectorStatus
      .lookAtDisk()
      .then((space) => (this.disk = space))
      .catch(() => undefined)
      .finally(() => (this.#looking = false));
  }

  #ledger(at: number): { at: number; events: number; bytes: number } {
    const { events, bytes } = this.#collectorStatus.ledger();
    return { at, events, bytes };
  }
}
