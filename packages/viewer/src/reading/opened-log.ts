/** The log as a thread of the viewer reads it: with the viewer's own keys of names. */
import fs from 'node:fs';
import path from 'node:path';
import type {
  Cursor,
  EventFilter,
  EventLog,
  FoundEntries,
  FoundEvent,
  Place,
  ReadEvents,
  SoughtId,
} from '@clinical-events/collector/store/contract/events';
import type { NameCipher } from '@clinical-events/collector/privacy/name-cipher';
import type { Actions } from '@clinical-events/collector/privacy/actions';
import { notesKeys } from '@clinical-events/collector/store/key-places';
import { type OpenDirectory, openStore } from '@clinical-events/collector/store/open-to-read';
import type { TreeReader } from '@clinical-events/collector/store/contract/tree';
import type { NamesKeys } from './names-keys.js';
import type { ReadingPlaces } from './reading-places.js';

/** A reader keeps tables of the events that the index of the log lacks. */
const READER_MS = 600_000;
/** How long a thread holds payload keys after the right to them was taken away. */
const KEYS_KEPT_MS = 10_000;

/** Thrown if payloads cannot be decrypted, in place of taking them in without their contents. */
export class KeysAway extends Error {
  override name = 'KeysAway';
}

export type KeysState = 'none' | 'readable' | 'away';

/** A log whose names are sealed by the viewer's keys and not by those of the collector. */
export class ViewersLog implements EventLog {
  constructor(
    private readonly log: EventLog,
    private readonly namesKeys: NamesKeys,
    /** Called for events whose payloads cannot be decrypted. */
    private readonly onEncrypted: () => void = () => undefined,
  ) {}

  get names(): NameCipher | undefined {
    return this.namesKeys.ciphers()[0];
  }

  olderNames(id: string): NameCipher | undefined {
    return this.namesKeys.ciphers().find((cipher) => cipher.id === id);
  }

  get ledgerId(): string {
    return this.log.ledgerId;
  }

  get extent(): number {
    return this.log.extent;
  }

  actions(): Actions {
    const actions = this.log.actions?.();
    if (actions === undefined) throw new TypeError('a log in files has actions');
    return actions;
  }

  holdKey(action: string) {
    return this.log.holdKey?.(action);
  }

  buckets(places: readonly Place[]) {
    return this.log.buckets?.(places) ?? [];
  }

  pass(from?: Cursor, options?: { readonly through?: number }) {
    return this.log.pass(from, options);
  }

  scan(filter: EventFilter, from?: Cursor) {
    return this.log.scan(filter, from);
  }

  entries(from?: Cursor) {
    return this.log.entries(from);
  }

  end(): Promise<Cursor> {
    return this.log.end();
  }

  async read(places: readonly Place[]): Promise<ReadEvents> {
    const read = await this.log.read(places);
    if (places.some((_, index) => read.facts(index).payloadState === 'encrypted')) this.onEncrypted();
    return read;
  }

  find(organisation: string, id: Uint8Array, before?: number): Promise<FoundEvent | undefined> {
    return this.log.find(organisation, id, before);
  }

  withId(sought: SoughtId): Promise<FoundEntries> {
    return this.log.withId(sought);
  }

  close(): Promise<void> {
    return this.log.close();
  }
}

export interface OpenedLogOptions {
  /** Whether an event that cannot be decrypted ends the reading while the keys are away. */
  readonly needsKeys: boolean;
}

/** Opens the log, and opens it again when it was restored or the reader has grown. */
export class OpenedLog {
  #store: OpenDirectory | undefined;
  #log: ViewersLog | undefined;
  #identity = '';
  #openedAt = 0;

  constructor(
    private readonly places: ReadingPlaces,
    private readonly namesKeys: NamesKeys,
    private readonly options: OpenedLogOptions,
  ) {}

  /** @throws the system's error if the log may not be read. */
  async log(): Promise<ViewersLog> {
    const identity = identityOf(this.places.dataDir);
    const isOld = performance.now() - this.#openedAt > READER_MS;
    if (this.#log !== undefined && (identity !== this.#identity || isOld)) await this.close();
    if (this.#log !== undefined) return this.#log;
    this.#identity = identity;
    this.#openedAt = performance.now();
    this.#store = openStore(this.places.dataDir, {
      kek: this.places.kek,
      keptMs: this.places.keysKeptMs ?? KEYS_KEPT_MS,
      onUnfit: () => undefined,
    });
    const onEncrypted = this.options.needsKeys ? () => this.#assertKeys() : undefined;
    return (this.#log = new ViewersLog(this.#store.events, this.namesKeys, onEncrypted));
  }

  get tree(): TreeReader {
    if (this.#store === undefined) throw new TypeError('the log is not open');
    return this.#store.tree;
  }

  /** Whether the payload keys can be read now. */
  keys(): KeysState {
    try {
      if (this.#store?.events.names !== undefined) return 'readable';
    } catch {
      return 'away';
    }
    return notesKeys(this.places.dataDir) ? 'away' : 'none';
  }

  /** On return the next use opens the log again. */
  async close(): Promise<void> {
    const store = this.#store;
    [this.#store, this.#log] = [undefined, undefined];
    await store?.tree.close();
    await store?.events.close();
  }

  /** @throws KeysAway */
  #assertKeys(): void {
    if (this.keys() === 'away') throw new KeysAway('payload keys cannot be read');
  }
}

/** Changes if the log was replaced by another copy. */
function identityOf(dataDir: string): string {
  const ledger = path.join(dataDir, 'ledger');
  const directory = fs.statSync(ledger, { throwIfNoEntry: false });
  if (directory === undefined) return '';
  const first = fs
    .readdirSync(ledger)
    .filter((name) => name.endsWith('.segment'))
    .sort()[0];
  const file =
    first === undefined ? undefined : fs.statSync(path.join(ledger, first), { throwIfNoEntry: false });
  return `${directory.dev}:${directory.ino} ${file?.ino}`;
}
