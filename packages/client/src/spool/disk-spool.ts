/**
 * The spool on disk: the appender writes, the backlog reads, and the process directory keeps other processes
 * away.
 */
import type { EventKind } from '@clinical-events/protocol';
import { type Abandoned, adopt, examine } from './adoption.js';
import { Appender } from './appender.js';
import { Backlog } from './backlog.js';
import { errorCode, isFull, nodeFiles, type SpoolFiles } from './files.js';
import { MemorySpool } from './memory-spool.js';
import {
  HEARTBEAT_MS,
  Neighbours,
  placeOf,
  PATIENCE_MS,
  preparePrivate,
  ProcessDirectory,
} from './process-directory.js';
import { MAX_SEGMENT_BYTES, newSeries, type WaitingSegment } from './segment.js';
import { Quarantine, quarantineBytes } from './set-aside.js';
import {
  MAX_BYTES,
  type OnTrouble,
  type Refusal,
  type Spool,
  SpoolClosed,
  type SpooledEvent,
  SpoolFull,
  SpoolKeyWrong,
  type SpoolOptions,
  type SpoolState,
  SpoolUnwritable,
} from './spool.js';
import { TakeQueue } from './take-queue.js';

const SEGMENT_BYTES = 16 << 20;
/** Interval of writing marks. */
const NOTE_MS = 500;

interface Parts {
  readonly files: SpoolFiles;
  readonly root: string;
  readonly neighbours: Neighbours;
  readonly key: Uint8Array | undefined;
  readonly onTrouble: OnTrouble;
  readonly options: SpoolOptions;
  readonly maxBytes: number;
  readonly segmentBytes: number;
}

/**
 * Opens a spool. On return the events that ended processes left in the directory wait in it too.
 * @throws SpoolUnwritable if the directory cannot be used, or other users can write to it; SpoolKeyWrong for
 * an invalid key and for events that the key does not open, before anything is changed; RangeError for an
 * invalid size.
 */
export async function openSpool(options: SpoolOptions): Promise<Spool> {
  return options.durability === 'memory' ? new MemorySpool(options) : DiskSpool.open(options);
}

/** The part of this process. */
interface Home {
  directory: ProcessDirectory;
  readonly appender: Appender;
}

export class DiskSpool implements Spool {
  readonly #parts: Parts;
  readonly #backlog: Backlog;
  /** Undefined while the disk is full. */
  #home: Home | undefined;
  #renewing: Promise<void> | undefined;
  readonly #queue: TakeQueue;
  readonly #quarantine: Quarantine;
  #quarantined = 0;
  readonly #timers: NodeJS.Timeout[];
  #minding: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;
  readonly #lastGasp = () => this.#writeNow();

  private constructor(parts: Parts, home: ProcessDirectory | undefined) {
    const { files, root, key, onTrouble, options } = parts;
    this.#parts = parts;
    this.#backlog = new Backlog(files, root, onTrouble, options.onDamage, options.reading);
    this.#queue = new TakeQueue(this.#backlog);
    const durable = options.durability === 'fsync';
    const series = home?.series ?? newSeries();
    this.#quarantine = new Quarantine({ files, root, series, key, durable });
    this.#home = home && this.#homeIn(home);
    this.#timers = [
      setInterval(() => this.#backlog.notes.write(), NOTE_MS).unref(),
      setInterval(() => this.#mind(), HEARTBEAT_MS).unref(),
    ];
    process.on('exit', this.#lastGasp);
  }

  /** See `openSpool`. */
  static async open(options: SpoolOptions): Promise<DiskSpool> {
    const { files = nodeFiles, maxBytes = MAX_BYTES, onTrouble = () => undefined } = options;
    const segmentBytes = options.segmentBytes ?? Math.min(SEGMENT_BYTES, Math.floor(maxBytes / 4));
    const { root, key } = placeOf(options);
    if (!(maxBytes >= 1 && segmentBytes >= 1 && segmentBytes <= MAX_SEGMENT_BYTES)) {
      throw new RangeError('maxBytes must be at least 1, and segmentBytes from 1 to 256 MiB');
    }
    const neighbours = new Neighbours(files, root, onTrouble, options.patienceMs);
    let left: readonly Abandoned[] = [];
    let home: ProcessDirectory | undefined;
    try {
      await preparePrivate(files, root);
      // The key is checked before any change: a wrong key must leave the directory untouched.
      left = await examineAll(files, await neighbours.abandoned(), key, onTrouble);
      home = await ProcessDirectory.create(files, root);
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      onTrouble(`the disk is full: until it has room, no events are captured or sent from ${root}`, error);
    }
    const place = { files, root, neighbours, key: key && Buffer.from(key), onTrouble };
    const spool = new DiskSpool({ ...place, options, maxBytes, segmentBytes }, home);
    await spool.#weighQuarantine();
    await spool.#adoptAll(left);
    return spool;
  }

  append(kind: EventKind, body: Uint8Array): Promise<'durable'> {
    if (this.#home) return this.#home.appender.append(kind, body);
    return Promise.reject(
      this.#closing ? new SpoolClosed('the spool is closed') : new SpoolFull('the disk is full'),
    );
  }

  take(count: number, bytes: number, signal?: AbortSignal): Promise<SpooledEvent[]> {
    return this.#queue.take(count, bytes, signal);
  }

  done(event: SpooledEvent): void {
    this.#backlog.done(event);
  }

  giveBack(event: SpooledEvent): void {
    this.#backlog.giveBack(event);
    this.#queue.serve();
  }

  async quarantine(event: SpooledEvent, refusal: Refusal): Promise<void> {
    if (!this.#backlog.isOut(event)) return;
    await this.#quarantine.add(event, this.#full ? shortened(refusal) : refusal);
    this.#quarantined++;
    this.#backlog.done(event);
    // Marked immediately: otherwise the event could be in quarantine twice after a crash.
    await this.#backlog.notes.written();
  }

  get state(): SpoolState {
    const { waiting, waitingBytes, oldest, cut } = this.#backlog;
    return {
      ...{ waiting, waitingBytes, cut, watched: this.#parts.neighbours.watched },
      quarantined: this.#quarantined,
      ...(oldest !== undefined && { oldest: new Date(oldest).toISOString() }),
    };
  }

  async flush(): Promise<void> {
    await this.#home?.appender.flush();
    await this.#backlog.notes.written();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#home?.appender.close();
    await this.#queue.close();
    await this.#minding;
    await this.#backlog.close();
    process.off('exit', this.#lastGasp);
    try {
      await this.#home?.directory.release();
    } catch (error) {
      this.#parts.onTrouble('the part of this process could not be released', error);
    }
  }

  /** Whether waiting events and quarantine have reached `maxBytes`. */
  get #full(): boolean {
    return this.#backlog.storedBytes + this.#quarantine.bytes >= this.#parts.maxBytes;
  }

  #homeIn(directory: ProcessDirectory): Home {
    const { files, key, onTrouble, maxBytes, segmentBytes, options } = this.#parts;
    const appender = new Appender({
      ...{ files, key, onTrouble, maxBytes, segmentBytes, home: directory },
      durability: options.durability,
      backlog: this.#backlog,
      quarantine: this.#quarantine,
      onAppended: () => this.#queue.serve(),
      onHomeGone: () => this.#renew(),
    });
    return { directory, appender };
  }

  /** Touches `owner`, and adopts abandoned parts. */
  #mind(): void {
    this.#minding = this.#minding.then(async () => {
      const { files, neighbours, key, onTrouble } = this.#parts;
      try {
        if (this.#home) await this.#home.directory.touch();
        else await this.#settle();
      } catch (error) {
        if (errorCode(error) === 'ENOENT') await this.#renew().catch(() => undefined);
        else onTrouble('the owner file of this process could not be touched', error);
      }
      await this.#weighQuarantine();
      await this.#backlog.endRests();
      if (!this.#home) return;
      try {
        const left = await neighbours.abandoned(this.#home.directory.path);
        await this.#adoptAll(await examineAll(files, left, key, onTrouble, true));
      } catch (error) {
        onTrouble('the parts of other processes could not be read', error);
      }
    });
  }

  /** Tries again to create a part. */
  async #settle(): Promise<void> {
    const { files, root, onTrouble } = this.#parts;
    try {
      await preparePrivate(files, root);
      const directory = await ProcessDirectory.create(files, root);
      if (this.#closing) await directory.release();
      else this.#home = this.#homeIn(directory);
    } catch (error) {
      onTrouble(`no part can be created in ${root}: new events are refused`, error);
    }
  }

  async #weighQuarantine(): Promise<void> {
    const { files, root, onTrouble } = this.#parts;
    try {
      this.#quarantine.bytes = await quarantineBytes(files, root);
    } catch (error) {
      onTrouble('the size of the quarantine could not be read', error);
    }
  }

  /**
   * Creates a new part after the old one was removed, or adopted while this process was paused.
   * @throws SpoolUnwritable, SpoolFull
   */
  #renew(): Promise<void> {
    this.#renewing ??= this.#moved().finally(() => (this.#renewing = undefined));
    return this.#renewing;
  }

  async #moved(): Promise<void> {
    const home = this.#home;
    if (!home) return;
    const { files, root, onTrouble } = this.#parts;
    const lost = home.directory;
    try {
      await preparePrivate(files, root);
      home.directory = await ProcessDirectory.create(files, root);
    } catch (error) {
      onTrouble(`${lost.path} was removed, and no other part can be created: new events are refused`, error);
      throw isDiskFull(error) ? new SpoolFull('the disk is full') : error;
    }
    home.appender.moveTo(home.directory);
    onTrouble(`${lost.path} was removed; new events go to ${home.directory.path}`, undefined);
    await lost.release().catch(() => undefined);
  }

  async #adoptAll(left: readonly Abandoned[]): Promise<void> {
    const { files, neighbours, onTrouble } = this.#parts;
    if (!this.#home) return;
    const segments: WaitingSegment[] = [];
    for (const abandoned of left) {
      const mayComeBack = neighbours.mayComeBack(abandoned.directory);
      const taken = await adopt(files, abandoned, this.#home.directory.path, onTrouble);
      if (mayComeBack) {
        const rest = (this.#parts.options.patienceMs ?? PATIENCE_MS) / 6;
        for (const segment of taken) segment.restsUntil = performance.now() + rest;
      }
      segments.push(...taken);
    }
    // Names sort by age.
    this.#backlog.adopt(segments.sort((one, other) => (one.name < other.name ? -1 : 1)));
    this.#queue.serve();
  }

  #writeNow(): void {
    const { onTrouble } = this.#parts;
    try {
      this.#home?.appender.writeNow();
    } catch (error) {
      const { unwritten = 0 } = this.#home?.appender ?? {};
      onTrouble(`${unwritten} captured events were lost at the end of the process`, error);
    }
    try {
      this.#backlog.notes.writeNow();
    } catch (error) {
      onTrouble('done events could not be marked at the end of the process; they are sent again', error);
    }
  }
}

function isDiskFull(error: unknown): boolean {
  return error instanceof SpoolUnwritable && isFull(error.cause);
}

/** Omits the server's message and details, which may be long. */
function shortened({ status, code, at }: Refusal): Refusal {
  return { status, ...(code !== undefined && code.length <= 64 && { code }), at };
}

/**
 * Reads the headers of all segments. A spool without a key leaves encrypted segments alone.
 * @param lenient reports a wrong key or an earlier format instead of throwing, once the spool is open.
 * @throws SpoolKeyWrong, SpoolUnwritable
 */
async function examineAll(
  files: SpoolFiles,
  directories: readonly string[],
  key: Uint8Array | undefined,
  onTrouble: OnTrouble,
  lenient = false,
): Promise<Abandoned[]> {
  const left: Abandoned[] = [];
  for (const directory of directories) {
    try {
      const examined = await examine(files, directory, key);
      for (const { path, why } of examined.unfit)
        onTrouble(`${path} ${why}; it is left unchanged`, undefined);
      left.push(examined);
    } catch (error) {
      const wrongKey = key !== undefined && error instanceof SpoolKeyWrong;
      if (!lenient && (wrongKey || error instanceof SpoolUnwritable)) throw error;
      onTrouble(`${directory} is left unchanged`, error);
    }
  }
  return left;
}
