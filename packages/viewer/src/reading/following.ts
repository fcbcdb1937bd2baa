/**
 * Keeps the viewer's catalogue up to date and follows erasures. After an erasure, names of its events are
 * removed, the key of names is replaced, and the erasure is reported. An interruption at any point is
 * completed by the next call.
 */
import {
  Catalogue,
  CatalogueBusy,
  removeCatalogue,
  resealCatalogue,
} from '@clinical-events/collector/catalogue/catalogue';
import { BEGAN, type ReadingState } from '../contract.js';
import { NamesKeys } from './names-keys.js';
import { KeysAway, type KeysState, OpenedLog, type ViewersLog } from './opened-log.js';
import { ownCatalogue, type ReadingPlaces } from './reading-places.js';
import { KEYS_AWAY, NO_LOG, sentenceOf } from './trouble.js';
import { StateFile } from './viewer-state.js';

/** Maximum duration of an update between two states. It ends with a transaction, of about a second. */
const SLICE_MS = 1000;
/** Batches of this size leave no row unsummed at the end of a transaction, so that questions do not wait. */
const ENTRIES_OF_A_SLICE = 512;
const WAIT_MS = 5000;

export interface FollowingOptions extends ReadingPlaces {
  /** Called with each state. */
  readonly onState: (state: ReadingState) => void;
  /** Called once for an erasure that has been followed, and after each start until `reported` is called. */
  readonly onFollowed: (action: string) => void;
  readonly onTrouble: (message: string) => void;
}

export class Following {
  readonly #state: StateFile;
  readonly #namesKeys: NamesKeys;
  readonly #opened: OpenedLog;
  #catalogue: Catalogue | undefined;
  #ledger = '';
  /** Whether the open catalogue is updated in small batches. */
  #isSliced = false;
  /** Erasures that were passed on, and not yet reported. */
  readonly #passedOn = new Set<string>();
  #asOf: string | undefined;
  #keys: KeysState = 'none';
  #progress = 0;
  #isStopped = false;

  constructor(private readonly options: FollowingOptions) {
    this.#state = new StateFile(options.stateDir);
    this.#namesKeys = new NamesKeys(options.stateDir);
    this.#opened = new OpenedLog(options, this.#namesKeys, { needsKeys: true });
  }

  /**
   * Adds what the log has. Errors become the state.
   * @returns whether the catalogue is up to date.
   */
  async follow(): Promise<boolean> {
    try {
      return await this.#follow();
    } catch (error) {
      if (error instanceof KeysAway) {
        this.#keys = 'away';
        this.#show(this.#isBuilt ? undefined : KEYS_AWAY);
        return true;
      }
      // Another thread of the viewer has the file for a moment.
      if (error instanceof CatalogueBusy) return false;
      this.#show(sentenceOf(error));
      this.options.onTrouble(sentenceOf(error));
      await this.#reset();
      return true;
    }
  }

  /** On return the erasure is not reported again. */
  reported(action: string): void {
    const { reported } = this.#state.current;
    this.#state.update({ reported: [...reported.filter((each) => each !== action), action] });
    this.#passedOn.delete(action);
  }

  async close(): Promise<void> {
    this.#isStopped = true;
    await this.#reset();
  }

  get #isBuilt(): boolean {
    return this.#state.current.built;
  }

  async #follow(): Promise<boolean> {
    const log = await this.#opened.log();
    const { ledgerId } = log;
    if (ledgerId === '') {
      this.#show(NO_LOG, true);
      return true;
    }
    this.#state.useLog(ledgerId);
    this.#haveKey();
    this.#passOn(BEGAN);
    this.#keys = this.#opened.keys();
    const catalogue = this.#open(log);
    if (this.#keys === 'away') throw new KeysAway('payload keys cannot be read');
    // An update may take long.
    if (this.#asOf === undefined) this.#show(undefined);
    const isThrough = await this.#update(catalogue, log);
    if (isThrough) {
      this.#asOf = new Date().toISOString();
      if (!this.#isBuilt) this.#state.update({ built: true });
      await this.#followErasures(catalogue, log);
    }
    this.#show(undefined);
    return isThrough;
  }

  /** Names are never written without a key. A catalogue whose key is lost is of no use. */
  #haveKey(): void {
    if (this.#namesKeys.ciphers().length > 0) return;
    this.#closeCatalogue();
    removeCatalogue(ownCatalogue(this.options));
    this.#state.update({ built: false });
    this.#namesKeys.add();
  }

  #open(log: ViewersLog): Catalogue {
    const isSliced = this.#isBuilt;
    if (this.#ledger !== log.ledgerId || this.#isSliced !== isSliced) this.#closeCatalogue();
    [this.#ledger, this.#isSliced] = [log.ledgerId, isSliced];
    const { names } = log;
    return (this.#catalogue ??= Catalogue.open({
      ...{ directory: ownCatalogue(this.options), ledgerId: log.ledgerId, waitMs: WAIT_MS },
      ...(names !== undefined && { names }),
      ...(isSliced && { mostEntries: ENTRIES_OF_A_SLICE }),
    }));
  }

  /** @returns whether the catalogue has everything that the log had at the start. */
  async #update(catalogue: Catalogue, log: ViewersLog): Promise<boolean> {
    const before = catalogue.cursor.sequence;
    if (this.#isBuilt && before === 1 && log.extent > 0) this.#state.update({ built: false });
    const budget = this.#isBuilt ? { budgetMs: SLICE_MS } : {};
    const onProgress = (sequence: number, share: number) => {
      // It was emptied: the log is an older copy, or the file was damaged.
      if (sequence + 1 < before && this.#isBuilt) this.#state.update({ built: false });
      this.#progress = share;
      if (!this.#isBuilt) this.#show(undefined);
    };
    const { cursor, complete } = await catalogue.update(log, { ...budget, onProgress });
    return complete && cursor.sequence >= before;
  }

  async #followErasures(catalogue: Catalogue, log: ViewersLog): Promise<void> {
    const { sequence: next } = catalogue.cursor;
    const actions = log.actions();
    const erasures = actions.logged.filter(({ said, sequence }) => said.does === 'erase' && sequence < next);
    const last = erasures.at(-1)?.sequence ?? 0;
    if (last > this.#state.current.forgotten || this.#namesKeys.ciphers().length > 1) {
      await this.#replaceKey(log);
      this.#state.update({ forgotten: last });
    }
    for (const action of new Set(erasures.map(({ said }) => said.action)))
      if (actions.isWhole(action)) this.#passOn(action);
  }

  /** Passes a report on, unless that was done. */
  #passOn(action: string): void {
    if (this.#state.current.reported.includes(action) || this.#passedOn.has(action)) return;
    this.#passedOn.add(action);
    this.options.onFollowed(action);
  }

  /** On return all names are sealed by a new key, and no other key exists. */
  async #replaceKey(log: ViewersLog): Promise<void> {
    if (this.#namesKeys.ciphers().length < 2) this.#namesKeys.add();
    await resealCatalogue(ownCatalogue(this.options), log, (error) =>
      this.options.onTrouble(sentenceOf(error)),
    );
    this.#namesKeys.removeOlder();
  }

  /** @param fault why the log cannot be read; with a catalogue, lists are shown as they are. */
  #show(fault: string | undefined, isEmpty = false): void {
    if (this.#isStopped) return;
    const isReady = this.#isBuilt && !isEmpty;
    const entries = isReady ? (this.#catalogue?.cursor.sequence ?? 1) - 1 : 0;
    this.options.onState({
      catalogue: isReady ? 'ready' : fault === undefined ? 'building' : 'unusable',
      progress: isReady ? 1 : this.#progress,
      reason: fault,
      keys: this.#keys,
      entries,
      asOf: this.#asOf,
    });
  }

  #closeCatalogue(): void {
    this.#catalogue?.close();
    this.#catalogue = undefined;
  }

  async #reset(): Promise<void> {
    try {
      this.#closeCatalogue();
      await this.#opened.close();
    } catch (error) {
      this.options.onTrouble(sentenceOf(error));
    }
  }
}
