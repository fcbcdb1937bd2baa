/** Updates the file of a catalogue: one update at a time, under SQLite's lock. */
import type { EventLog } from '../store/contract/events.js';
import { CatalogueFile, removeFile } from './catalogue-file.js';
import { CatalogueBusy, CatalogueDamaged, faultOf, isBusy } from './faults.js';
import { Tables } from './tables.js';
import { Updating, type Updated, type UpdateOptions } from './updating.js';

export interface CatalogueOptions {
  /** Directory of the file; created for its owner only. */
  readonly directory: string;
  readonly ledgerId: string;
  /** The current key of names; an update checks for a newer one. */
  readonly names?: EventLog['names'];
  /** Time that an update waits for another process, in milliseconds. */
  readonly waitMs?: number;
  /** Called about ten times a second while an update waits for another process. */
  readonly onWait?: (elapsedMs: number) => void;
  /** Limits of the events of a batch and of the pages of the file, for tests. */
  readonly mostEntries?: number;
  readonly mostPages?: number;
}

const WAIT_MS = 60_000;
const STEP_MS = 100;
const EVENTS_OF_A_BATCH = 32_768;

export class TakingIn {
  #file: CatalogueFile;
  #tables: Tables;
  #updating: Promise<unknown> = Promise.resolve();
  /** The place of the newest event when this process last saw it in this log. */
  #seen: { readonly log: EventLog; readonly at: number | undefined } | undefined;
  /** Whether the journal may hold pages from before names were removed or encrypted again. */
  hasRemnants: boolean;

  /** @throws CatalogueFault if the file cannot be created or opened. */
  constructor(private readonly options: CatalogueOptions) {
    this.#file = this.#open();
    this.#tables = new Tables(this.#file.writer, options.names);
    // An earlier update may have left remnants.
    this.hasRemnants = options.names !== undefined;
  }

  /** The key of names since the last update. */
  get names(): EventLog['names'] {
    return this.#tables.names.cipher;
  }

  get file(): CatalogueFile {
    return this.#file;
  }

  /** @param isDamaged whether a question found damage. */
  update(log: EventLog, options: UpdateOptions, isDamaged: boolean): Promise<Updated> {
    const update = this.#updating.then(() => this.#update(log, options, isDamaged));
    this.#updating = update.catch(() => undefined);
    return update;
  }

  close(isDamaged: boolean): void {
    // Removes the file only if another process has not rebuilt it.
    const mayRemove = isDamaged && this.#file.isCurrent;
    this.#file.close();
    if (mayRemove) removeFile(this.options.directory);
  }

  async #update(log: EventLog, options: UpdateOptions, isDamaged: boolean): Promise<Updated> {
    // Another process removed the file: further writes would be invisible to others.
    if (isDamaged || !this.#file.isCurrent) this.#reopen(isDamaged);
    try {
      const updated = await this.#run(log, options);
      this.#truncate();
      return updated;
    } catch (error) {
      const fault = faultOf(error, this.options.directory);
      if (!(fault instanceof CatalogueDamaged)) throw fault;
      this.#reopen(true);
    }
    try {
      return await this.#run(log, options);
    } catch (error) {
      throw faultOf(error, this.options.directory);
    }
  }

  async #run(log: EventLog, options: UpdateOptions): Promise<Updated> {
    const updating = this.#updatingOf(log, options);
    try {
      const updated = await updating.run();
      this.#seen = { log, at: updating.newestAt };
      return updated;
    } finally {
      this.hasRemnants ||= updating.leavesRemnants;
    }
  }

  /** On return names are encrypted by the newest key. @throws as `update`. */
  async reseal(log: EventLog, signal?: AbortSignal): Promise<void> {
    const updating = this.#updatingOf(log, { signal });
    await updating.reseal();
    this.hasRemnants ||= updating.leavesRemnants;
    this.#truncate();
  }

  #updatingOf(log: EventLog, options: UpdateOptions): Updating {
    const { directory, ledgerId, mostEntries = EVENTS_OF_A_BATCH } = this.options;
    return new Updating({
      ...options,
      ...{ tables: this.#tables, log, directory, ledgerId, mostEntries },
      lock: () => this.#lock(options.signal),
      seenAt: this.#seen?.log === log ? this.#seen.at : undefined,
    });
  }

  /** Empties the journal. Fails while other processes read an older state; a later update tries again. */
  #truncate(): void {
    if (!this.hasRemnants) return;
    const { writer } = this.#file;
    writer.exec('PRAGMA busy_timeout = 0');
    const { busy } = writer.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number };
    writer.exec('PRAGMA busy_timeout = 5000');
    this.hasRemnants = busy !== 0;
  }

  #open(): CatalogueFile {
    const { directory, ledgerId, names, mostPages } = this.options;
    return CatalogueFile.open(directory, { ledgerId, names: names?.id }, mostPages);
  }

  #reopen(isDamaged: boolean): void {
    this.close(isDamaged);
    this.#file = this.#open();
    this.#tables = new Tables(this.#file.writer, this.#tables.names.cipher);
  }

  /** Begins an exclusive write transaction. Waits in steps, between which the process can do other work. */
  async #lock(signal: AbortSignal | undefined): Promise<void> {
    const { directory, waitMs = WAIT_MS, onWait } = this.options;
    const { writer } = this.#file;
    const began = performance.now();
    writer.exec('PRAGMA busy_timeout = 0');
    for (;;) {
      try {
        writer.exec('BEGIN IMMEDIATE');
        break;
      } catch (error) {
        if (!isBusy(error)) throw error;
        const elapsed = performance.now() - began;
        if (elapsed >= waitMs) {
          throw new CatalogueBusy(
            `another process has been writing the catalogue in ${directory} for too long`,
            {
              cause: error,
            },
          );
        }
        onWait?.(elapsed);
      }
      await new Promise((resolve) => setTimeout(resolve, STEP_MS));
      signal?.throwIfAborted();
    }
    writer.exec('PRAGMA busy_timeout = 5000');
  }
}
