/**
 * The spool on the disk: the appender writes, the backlog reads, the process directory keeps others away. What a crash
 * at any moment leaves is in docs/CLIENT_SPEC.md.
 */
import type { EventKind } from '@clinical-events/protocol';
import { type Abandoned, adopt, examine } from './adoption.js';
import { Appender } from './appender.js';
import { Backlog } from './backlog.js';
import {
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
} from './contract.js';
import { errorCode, isFull, nodeFiles, type SpoolFiles } from './files.js';
import {
  HEARTBEAT_MS,
  Neighbours,
  placeOf,
  PATIENCE_MS,
  preparePrivate,
  ProcessDirectory,
} from './process-directory.js';
import { Quarantine, quarantineBytes } from './quarantine.js';
import { MAX_SEGMENT_BYTES, newSeries, type WaitingSegment } from './segment.js';
import { TakeQueue } from './take-queue.js';

const SEGMENT_BYTES = 16 << 20;
export const MAX_BYTES = 8 * 2 ** 30;
/** What is done is noted so often. */
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

/** Where this spool writes. */
interface Home {
  directory: ProcessDirectory;
  readonly appender: Appender;
}

export class DiskSpool implements Spool {
  readonly #parts: Parts;
  readonly #backlog: Backlog;
  /** None for as long as the disk has no room for one. */
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

  /** See `Spool.open`. */
  static async open(options: SpoolOptions): Promise<DiskSpool> {
    const { files = nodeFiles, maxBytes = MAX_BYTES, onTrouble = () => undefined } = options;
    const segmentBytes = options.segmentBytes ?? Math.min(SEGMENT_BYTES, Math.floor(maxBytes / 4));
    const { root, key } = placeOf(options);
    if (!(maxBytes >= 1 && segmentBytes >= 1 && segmentBytes <= MAX_SEGMENT_BYTES)) {
      throw new RangeError('the sizes of a spool are from 1 byte on, and of a segment up to 256 MiB');
    }
    const neighbours = new Neighbours(files, root, onTrouble, options.patienceMs);
    let left: readonly Abandoned[] = [];
    let home: ProcessDirectory | undefined;
    try {
      await preparePrivate(files, root);
      // Before anything is made or moved: with the wrong key nothing is touched.
      left = await examineAll(files, await neighbours.abandoned(), key, onTrouble);
      home = await ProcessDirectory.create(files, root);
    } catch (error) {
      if (!isForWantOfRoom(error)) throw error;
      onTrouble(
        `the disk has no room for a part in ${root}: events are neither taken nor sent until it has`,
        error,
      );
    }
    const place = { files, root, neighbours, key: key && Buffer.from(key), onTrouble };
    const spool = new DiskSpool({ ...place, options, maxBytes, segmentBytes }, home);
    await spool.#weighQuarantine();
    await spool.#adoptAll(left);
    return spool;
  }

  append(kind: EventKind, body: Uint8Array): Promise<'durable'> {
    if (this.#home) return this.#home.appender.append(kind, body);
    const { root } = this.#parts;
    return Promise.reject(
      this.#closing
        ? new SpoolClosed('the spool is closed')
        : new SpoolFull(`the disk has no room for a part in ${root}`),
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
    await this.#quarantine.add(event, this.#full ? withoutWords(refusal) : refusal);
    this.#quarantined++;
    this.#backlog.done(event);
    // At once: after a crash it would stand there twice.
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
      this.#parts.onTrouble('the directory of this process could not be released', error);
    }
  }

  /** Whether what waits and what is in quarantine take all that the spool may have. */
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

  /** Shows that this process lives, and takes over what processes that do not any more have left. */
  #mind(): void {
    this.#minding = this.#minding.then(async () => {
      const { files, neighbours, key, onTrouble } = this.#parts;
      try {
        if (this.#home) await this.#home.directory.touch();
        else await this.#settle();
      } catch (error) {
        if (errorCode(error) === 'ENOENT') await this.#renew().catch(() => undefined);
        else onTrouble('this process could not show that it lives', error);
      }
      await this.#weighQuarantine();
      await this.#backlog.endRests();
      if (!this.#home) return;
      try {
        const left = await neighbours.abandoned(this.#home.directory.path);
        await this.#adoptAll(await examineAll(files, left, key, onTrouble, true));
      } catch (error) {
        onTrouble('what other processes may have left could not be looked at', error);
      }
    });
  }

  /** Tries once more to get a home; what hinders it is told. */
  async #settle(): Promise<void> {
    const { files, root, onTrouble } = this.#parts;
    try {
      await preparePrivate(files, root);
      const directory = await ProcessDirectory.create(files, root);
      if (this.#closing) await directory.release();
      else this.#home = this.#homeIn(directory);
    } catch (error) {
      onTrouble(`there is still no part for this process in ${root}: new events are refused`, error);
    }
  }

  async #weighQuarantine(): Promise<void> {
    const { files, root, onTrouble } = this.#parts;
    try {
      this.#quarantine.bytes = await quarantineBytes(files, root);
    } catch (error) {
      onTrouble('what is in quarantine could not be measured', error);
    }
  }

  /**
   * The directory was removed, or another process adopted it while this one was stopped. On return there is another one.
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
      onTrouble(`${lost.path} was taken away, and there can be no other: new events are refused`, error);
      throw isForWantOfRoom(error) ? new SpoolFull(`the disk has no room for a part in ${root}`) : error;
    }
    home.appender.moveTo(home.directory);
    onTrouble(`${lost.path} was taken away; new events go to ${home.directory.path}`, undefined);
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
    // By their names, and so by the time at which they were begun.
    this.#backlog.adopt(segments.sort((one, other) => (one.name < other.name ? -1 : 1)));
    this.#queue.serve();
  }

  #writeNow(): void {
    const { onTrouble } = this.#parts;
    try {
      this.#home?.appender.writeNow();
    } catch (error) {
      const { unwritten = 0 } = this.#home?.appender ?? {};
      onTrouble(`${unwritten} captured events could not be kept at the end of the process`, error);
    }
    try {
      this.#backlog.notes.writeNow();
    } catch (error) {
      onTrouble('what is done could not be noted at the end of the process; it is sent again', error);
    }
  }
}

/** Whether a directory could not be made because the disk is full. */
function isForWantOfRoom(error: unknown): boolean {
  return error instanceof SpoolUnwritable && isFull(error.cause);
}

/** Of a refusal what takes no room, for a quarantine that has none left: a server's words may be long. */
function withoutWords({ status, code, at }: Refusal): Refusal {
  return { status, ...(code !== undefined && code.length <= 64 && { code }), at };
}

/**
 * @param lenient whether the wrong key, or an earlier format, is only reported: while running there is no one to refuse.
 * Sealed segments are left alone by a spool without a key.
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
      for (const { path, why } of examined.unfit) onTrouble(`${path} ${why}; it is left as it is`, undefined);
      left.push(examined);
    } catch (error) {
      const wrongKey = key !== undefined && error instanceof SpoolKeyWrong;
      if (!lenient && (wrongKey || error instanceof SpoolUnwritable)) throw error;
      onTrouble(`${directory} is left as it is`, error);
    }
  }
  return left;
}
