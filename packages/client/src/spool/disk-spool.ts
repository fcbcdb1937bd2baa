/**
 * The spool on the disk: the appender writes, the backlog reads, the process directory keeps others away. What a crash
 * at any moment leaves is in docs/CLIENT_SPEC.md.
 */
import type { EventKind } from '@clinical-events/protocol';
import { adopt, examine, type Abandoned } from './adoption.js';
import { Appender } from './appender.js';
import { Backlog } from './backlog.js';
import {
  SpoolKeyWrong,
  SpoolUnwritable,
  type Refusal,
  type Spool,
  type SpooledEvent,
  type SpoolOptions,
  type SpoolState,
} from './contract.js';
import { nodeFiles, type SpoolFiles } from './files.js';
import { placeOf } from './place.js';
import { HEARTBEAT_MS, Neighbours, preparePrivate, ProcessDirectory } from './process-directory.js';
import { Quarantine } from './quarantine.js';
import { MAX_SEGMENT_BYTES } from './segment.js';
import { Takers } from './takers.js';
import type { TakenEvent } from './taken-event.js';
import type { OnTrouble } from './trouble.js';
import type { WaitingSegment } from './waiting-segment.js';

const SEGMENT_BYTES = 16 << 20;
export const MAX_BYTES = 8 * 2 ** 30;
/** What is done is noted so often. */
const NOTE_MS = 500;

interface Parts {
  readonly files: SpoolFiles;
  readonly root: string;
  readonly home: ProcessDirectory;
  readonly neighbours: Neighbours;
  readonly key: Uint8Array | undefined;
  readonly onTrouble: OnTrouble;
}

export class DiskSpool implements Spool {
  readonly #parts: Parts;
  readonly #backlog: Backlog;
  readonly #appender: Appender;
  readonly #takers: Takers<TakenEvent>;
  readonly #quarantine: Quarantine;
  #quarantined = 0;
  readonly #timers: NodeJS.Timeout[];
  #minding: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;
  readonly #lastGasp = () => this.#writeNow();

  private constructor(parts: Parts, options: SpoolOptions, maxBytes: number, segmentBytes: number) {
    const { files, root, home, key, onTrouble } = parts;
    this.#parts = parts;
    this.#backlog = new Backlog(files, root, onTrouble, options.onDamage, options.reading);
    this.#takers = new Takers(this.#backlog);
    this.#appender = new Appender({
      ...{ files, key, onTrouble, maxBytes, segmentBytes },
      directory: home.path,
      series: home.series,
      durability: options.durability,
      backlog: this.#backlog,
      onAppended: () => this.#takers.serve(),
    });
    const durable = options.durability === 'fsync';
    this.#quarantine = new Quarantine({ files, root, series: home.series, key, durable });
    this.#timers = [
      setInterval(() => this.#backlog.notes.write(), NOTE_MS).unref(),
      setInterval(() => this.#mind(), HEARTBEAT_MS).unref(),
    ];
    process.on('exit', this.#lastGasp);
  }

  /** See `Spool.open`. */
  static async open(options: SpoolOptions): Promise<DiskSpool> {
    const { files = nodeFiles, maxBytes = MAX_BYTES } = options;
    const segmentBytes = options.segmentBytes ?? Math.min(SEGMENT_BYTES, Math.floor(maxBytes / 4));
    const { root, key } = placeOf(options);
    if (!(maxBytes >= 1 && segmentBytes >= 1 && segmentBytes <= MAX_SEGMENT_BYTES)) {
      throw new RangeError('the sizes of a spool are from 1 byte on, and of a segment up to 256 MiB');
    }
    const { onTrouble = () => undefined } = options;
    await preparePrivate(files, root);
    const neighbours = new Neighbours(files, root, onTrouble);
    // Before anything is made or moved: with the wrong key nothing is touched.
    const left = await examineAll(files, await neighbours.abandoned(), key, onTrouble);
    const home = await ProcessDirectory.create(files, root);
    const parts = { files, root, home, neighbours, key: key && Buffer.from(key), onTrouble };
    const spool = new DiskSpool(parts, options, maxBytes, segmentBytes);
    await spool.#adoptAll(left);
    return spool;
  }

  append(kind: EventKind, body: Uint8Array): Promise<'durable'> {
    return this.#appender.append(kind, body);
  }

  take(count: number, bytes: number, signal?: AbortSignal): Promise<SpooledEvent[]> {
    return this.#takers.take(count, bytes, signal);
  }

  done(event: SpooledEvent): void {
    if (this.#backlog.isOut(event)) this.#backlog.done(event);
  }

  giveBack(event: SpooledEvent): void {
    if (!this.#backlog.isOut(event)) return;
    this.#backlog.giveBack(event);
    this.#takers.serve();
  }

  async quarantine(event: SpooledEvent, refusal: Refusal): Promise<void> {
    if (!this.#backlog.isOut(event)) return;
    await this.#quarantine.add(event, refusal);
    this.#quarantined++;
    this.#backlog.done(event);
    // At once: after a crash it would stand there twice.
    await this.#backlog.notes.written();
  }

  get state(): SpoolState {
    const { waiting, waitingBytes, oldest } = this.#backlog;
    return {
      waiting,
      waitingBytes,
      quarantined: this.#quarantined,
      ...(oldest !== undefined && { oldest: new Date(oldest).toISOString() }),
    };
  }

  async flush(): Promise<void> {
    await this.#appender.flush();
    await this.#backlog.notes.written();
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#appender.close();
    await this.#takers.close();
    await this.#minding;
    await this.#backlog.close();
    process.off('exit', this.#lastGasp);
    try {
      await this.#parts.home.release();
    } catch (error) {
      this.#parts.onTrouble('the directory of this process could not be released', error);
    }
  }

  /** Shows that this process lives, and takes over what processes that do not any more have left. */
  #mind(): void {
    this.#minding = this.#minding.then(async () => {
      const { files, home, neighbours, key, onTrouble } = this.#parts;
      try {
        await home.touch();
      } catch (error) {
        this.#loseHome(error);
        return;
      }
      try {
        await this.#adoptAll(
          await examineAll(files, await neighbours.abandoned(home.path), key, onTrouble, true),
        );
      } catch (error) {
        onTrouble('what other processes may have left could not be looked at', error);
      }
    });
  }

  /** Somebody has removed the directory, or has taken it over: what is written there now, nobody would find. */
  #loseHome(error: unknown): void {
    const lost = new SpoolUnwritable(`${this.#parts.home.path} was taken away`, { cause: error });
    this.#appender.refuse(lost);
    this.#parts.onTrouble(lost.message, error);
  }

  async #adoptAll(left: readonly Abandoned[]): Promise<void> {
    const { files, home, onTrouble } = this.#parts;
    const segments: WaitingSegment[] = [];
    for (const abandoned of left) segments.push(...(await adopt(files, abandoned, home.path, onTrouble)));
    // By their names, and so by the time at which they were begun.
    this.#backlog.adopt(segments.sort((one, other) => (one.name < other.name ? -1 : 1)));
    this.#takers.serve();
  }

  #writeNow(): void {
    const { onTrouble } = this.#parts;
    try {
      this.#appender.writeNow();
    } catch (error) {
      const { unwritten } = this.#appender;
      onTrouble(`${unwritten} captured events could not be kept at the end of the process`, error);
    }
    try {
      this.#backlog.notes.writeNow();
    } catch (error) {
      onTrouble('what is done could not be noted at the end of the process; it is sent again', error);
    }
  }
}

/**
 * @param lenient whether the wrong key is only told as well: while running there is nobody to refuse.
 * @throws SpoolKeyWrong
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
      if (!lenient && error instanceof SpoolKeyWrong) throw error;
      onTrouble(`${directory} is left as it is`, error);
    }
  }
  return left;
}
