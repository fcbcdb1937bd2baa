/**
 * The embedded driver: segments are authoritative, the id index is derived from them.
 *
 * Order of an append: look up each event (index, then the batch itself), stage the frames of new ones, make
 * room, write and flush, then add them to the index. So the index never names an event that is not durable,
 * and a repeat is reported only when the first copy is durable: it is in the index, or earlier in the same
 * batch, whose flush precedes all answers.
 */
import fs from 'node:fs';
import path from 'node:path';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { type Files, type HeldFile, nodeFiles } from '../../files.js';
import { repeatOutcome } from '../content.js';
import {
  type Candidate,
  keysUnwritable,
  NotCommitted,
  type Outcome,
  type Store,
  StoreDamaged,
} from '../contract/events.js';
import { chainBack, noteAction } from './action-chain.js';
import { expanding } from './compacted-segment.js';
import { CommittedEntries } from './committed-entries.js';
import {
  HEADER_BYTES,
  NO_ACTION,
  decodeFrame,
  encodeFrame,
  frameEventId,
  frameKind,
  frameOrganisation,
  framePayloadState,
  frameSequence,
  frameSize,
  plausibleSize,
  ERASED,
} from './frame.js';
import { Actions, eventsOf, takenBy } from '../../privacy/actions.js';
import { KeysUnfit } from '../../privacy/key-vault.js';
import type { PayloadKeys, TakenKeys } from '../../privacy/payload-keys.js';
import type { Suite } from '../../privacy/sealing.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { IdIndex, type IdIndexStats } from './id-index/id-index.js';
import { publishedTo } from './id-index/index-state.js';
import { numberAt } from './log-frames.js';
import { bucketOf, FrameOpener, FrameSealer, keyNameIn, type Opening } from './sealed-frame.js';
import { SegmentLog, type TornTail } from './segment-log.js';

/** A power of two larger than any batch; `CAPACITY` keeps the table at most half full. */
const SLOTS = 8192;
const CAPACITY = SLOTS / 2;

/** The events staged for one batch, by fingerprint. The id index does not contain them yet. */
class BatchIds {
  /** Staged events in order: fingerprint, and offset of the frame in the staging buffer. */
  readonly high = new Uint32Array(CAPACITY);
  readonly low = new Uint32Array(CAPACITY);
  readonly place = new Float64Array(CAPACITY);
  count = 0;
  // A slot is valid only if it was filled for the current batch, so the table is never cleared.
  readonly #filledFor = new Float64Array(SLOTS);
  readonly #numbers = new Int32Array(SLOTS);
  #batch = 0;

  /** Starts a batch. */
  begin(): void {
    this.#batch++;
    this.count = 0;
  }

  /** Collects the offsets of events with this fingerprint into `places`. */
  find(high: number, low: number, places: number[]): void {
    places.length = 0;
    for (let slot = low % SLOTS; this.#filledFor[slot] === this.#batch; slot = (slot + 1) % SLOTS) {
      const number = numberAt(this.#numbers, slot);
      if (this.high[number] === high && this.low[number] === low) places.push(numberAt(this.place, number));
    }
  }

  add(high: number, low: number, place: number): void {
    if (this.count === CAPACITY) throw new RangeError(`more than ${CAPACITY} events in one batch`);
    let slot = low % SLOTS;
    while (this.#filledFor[slot] === this.#batch) slot = (slot + 1) % SLOTS;
    this.#filledFor[slot] = this.#batch;
    this.#numbers[slot] = this.count;
    this.high[this.count] = high;
    this.low[this.count] = low;
    this.place[this.count] = place;
    this.count++;
  }
}

export interface Encryption {
  readonly suite: Suite;
  /**
   * @param isNeeded whether the newest events are encrypted, so that their keys must exist.
   * @param isNew whether the log is empty.
   */
  readonly openKeys: (
    ledgerId: string,
    isNeeded: boolean,
    isNew: boolean,
  ) => Promise<PayloadKeys | undefined>;
}

export interface EmbeddedStoreOptions {
  readonly directory: string;
  readonly segmentBytes: number;
  /** Id of a new ledger; random by default. */
  readonly ledgerId?: string;
  /** Encryption of payloads; without it they are stored in plain text. */
  readonly encryption?: Encryption;
  /** See SegmentLogOptions. */
  readonly lock?: HeldFile | undefined;
  /** Number of entries that a signed checkpoint covers; 0 by default. */
  readonly vouchedEntries?: number;
  /** The file calls; tests replace them to make the disk fail. */
  readonly files?: Files;
  /** Called when the store is degraded, but nothing is lost or refused. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Called after the flush of each batch, with the duration of the flush and the size of the log. */
  readonly onFlushed?: (milliseconds: number, held: Held) => void;
}

/** The size of the log. */
export interface Held {
  readonly events: number;
  /** Number of events and of the log's own entries. */
  readonly entries: number;
  /** Bytes of all frames. */
  readonly bytes: number;
}

/** The result of opening a ledger. */
export interface Opened extends Held {
  readonly segments: number;
  /** Random id that never changes; 32 hexadecimal digits. */
  readonly ledgerId: string;
  /** Number of entries added to the index because it did not cover them. */
  readonly replayed: number;
  readonly tornTail: TornTail | undefined;
}

/** Entries per index commit during a replay. */
const COMMIT_EVERY = 1024;
/** Frames read before the event loop gets a turn. */
const YIELD_EVERY = 4096;
/** Maximum bytes of organisation and key id before the body. */
const SENDER_BYTES = 512;

export class EmbeddedStore implements Store {
  readonly concurrency = 1;
  readonly outlivesDoubt = false;
  readonly #log: SegmentLog;
  readonly #index: IdIndex;
  readonly #batch = new BatchIds();
  readonly #places: number[] = [];
  readonly #sealer: FrameSealer | undefined;
  readonly #opener: FrameOpener;
  #staging = Buffer.alloc(1 << 20);
  #staged = 0;
  /** Staging offsets of the actions in the batch. */
  #stagedActions: number[] = [];
  /** The newest action once the batch is stored. */
  #newestAction = NO_ACTION;
  /** Number of the log's own entries in the batch. */
  #ownStaged = 0;
  #closed: Promise<void> | undefined;

  private constructor(
    log: SegmentLog,
    index: IdIndex,
    /** All actions in the log. */
    readonly actions: Actions,
    /** Undefined if payloads are not encrypted. */
    readonly keys: PayloadKeys | undefined,
    private readonly options: EmbeddedStoreOptions,
    readonly opened: Opened,
  ) {
    this.#log = log;
    this.#index = index;
    this.#sealer = keys && options.encryption && new FrameSealer(keys, options.encryption.suite);
    this.#opener = new FrameOpener(() => keys?.stored);
  }

  /**
   * Opens the ledger in `directory` or creates one. On return the log is whole, the index covers all of it,
   * and every reachable key directory lacks the keys that an action destroyed. The caller holds the lock of
   * the data directory.
   * @throws StoreDamaged if the log is damaged.
   */
  static async open(options: EmbeddedStoreOptions): Promise<EmbeddedStore> {
    const { directory, segmentBytes, onTrouble } = options;
    const indexDirectory = path.join(directory, 'index');
    const log = await SegmentLog.open({
      directory: path.join(directory, 'ledger'),
      segmentBytes,
      lock: options.lock,
      ...(options.ledgerId !== undefined && { ledgerId: options.ledgerId }),
      vouchedTo: publishedTo(directory),
      vouchedEntries: options.vouchedEntries ?? 0,
      files: expanding(options.files ?? nodeFiles),
      onRoomTrouble: (error) => onTrouble('the next segment cannot be allocated', error),
    });
    const keys = await options.encryption?.openKeys(
      log.ledgerId,
      log.newestSealed !== undefined,
      log.nextSequence === 1,
    );
    const actions = actionsOf(log, onTrouble);
    const openIndex = () =>
      IdIndex.open({
        directory: indexDirectory,
        logEnd: log.end,
        onError: (error) =>
          onTrouble(
            'the id index could not be read or written; missing entries are read from the log',
            error,
          ),
      });
    let index = openIndex();
    if (!isIndexOf(log, index)) {
      // Using it would store events twice. It is derived, so it is rebuilt from the log.
      onTrouble(
        'the id index belonged to another ledger or to a diverged copy of this one; it is rebuilt',
        undefined,
      );
      await index.abandon();
      fs.rmSync(indexDirectory, { recursive: true });
      index = openIndex();
    }
    const replayed = takeIn(log, index);
    // If the log was restored from an old copy, notes beside the keys name erasures that it lacks.
    const noted = takenBy(keys?.stored.noted() ?? []);
    try {
      if (keys !== undefined && log.newestSealed !== undefined)
        assertHasKey(keys, log.newestSealed, actions.erased.with(eventsOf(noted)));
    } catch (error) {
      await index.close();
      await log.close();
      throw error;
    }
    await keys?.destroy([...actions.taken('all'), ...noted]);
    return new EmbeddedStore(log, index, actions, keys, options, {
      ...heldBy(log),
      segments: log.segments.length,
      ledgerId: log.ledgerId,
      replayed,
      tornTail: log.tornTail,
    });
  }

  append(batch: readonly Candidate[]): Outcome[] | Promise<Outcome[]> {
    const outcomes = this.#stage(batch);
    if (this.#staged === 0) return outcomes;
    // An event that is not in the index could be stored twice.
    if (this.#index.room < this.#batch.count)
      throw new NotCommitted('the id index cannot be written', { reason: 'index_unwritable' });
    // No event is durable before its root is.
    if (this.keys?.isDurable === false) return this.#flushKeys().then(() => this.#store(outcomes));
    return this.#store(outcomes);
  }

  #store(outcomes: Outcome[]): Outcome[] | Promise<Outcome[]> {
    const room = this.#log.makeRoom(this.#staged);
    if (room !== undefined) return room.then(() => this.#commit(outcomes));
    return this.#commit(outcomes);
  }

  /** Reads through the descriptors that the log writes through. */
  get committed(): CommittedEntries {
    return new CommittedEntries(this.#log);
  }

  /** By kind, the body of the newest own entry in the last segment when the log was opened. */
  get newestOwn(): ReadonlyMap<number, Buffer> {
    return this.#log.newestOwn;
  }

  /**
   * Selects from each list the keys of events in the log that no action has erased, including events whose
   * payload a compaction removed. Reads the segments concerned. Reports and skips a segment that cannot be
   * read.
   * @returns the keys found for each list; fewer after an abort.
   */
  async keysIn(lists: readonly (readonly TakenKeys[])[], signal: AbortSignal): Promise<TakenKeys[][]> {
    const wanted = eventsOf(lists.flat()).without(this.actions.erased);
    const found = new Map<TakenKeys, number[]>(lists.flat().map((keys) => [keys, []]));
    const byOrganisation = Map.groupBy(found.keys(), ({ organisation }) => organisation);
    const end = this.#log.nextSequence;
    const { segments } = this.#log;
    const isOver = () => signal.aborted;
    let passed = 0;
    for (const [i, { base, firstSequence }] of segments.entries()) {
      const next = segments[i + 1]?.firstSequence ?? end;
      if (isOver() || !wanted.meets(firstSequence, next)) continue;
      try {
        for (const { buffer, offset } of this.#log.framesFrom(base)) {
          const sequence = frameSequence(buffer, offset);
          if (sequence >= next || isOver()) break;
          if (wanted.has(sequence)) {
            const [tag, isTaken] = [bucketOf(buffer, offset), framePayloadState(buffer, offset) === ERASED];
            for (const keys of byOrganisation.get(frameOrganisation(buffer, offset)) ?? [])
              if ((tag === keys.tag || isTaken) && keys.sequences.has(sequence))
                found.get(keys)?.push(sequence);
          }
          if (++passed % YIELD_EVERY === 0) await new Promise(setImmediate);
        }
      } catch (error) {
        if (!(error instanceof StoreDamaged)) throw error;
        this.options.onTrouble('a segment cannot be read; its events were skipped', error);
      }
    }
    return lists.map((list) =>
      list.flatMap((keys) => {
        const { tag, organisation } = keys;
        const sequences = SequenceSet.of(found.get(keys) ?? []);
        return sequences.size > 0 ? [{ tag, organisation, sequences }] : [];
      }),
    );
  }

  /** On return none of these events is in the current segment. @throws NotCommitted, CommitUnknown */
  async endSegmentOf(events: SequenceSet): Promise<void> {
    const from = this.#log.segments.at(-1)?.firstSequence ?? 1;
    if (events.meets(from, this.#log.nextSequence)) await this.#log.endSegment();
  }

  look(): void {
    this.#log.look();
  }

  async prove(): Promise<void> {
    if (this.#index.room === 0)
      throw new NotCommitted('the id index cannot be written', { reason: 'index_unwritable' });
    await this.proveKeys();
    await this.#log.prove();
  }

  async proveKeys(): Promise<void> {
    try {
      await this.keys?.prove();
    } catch (error) {
      throw keysUnwritable(error);
    }
  }

  async #flushKeys(): Promise<void> {
    try {
      await this.keys?.flush();
    } catch (error) {
      throw keysUnwritable(error);
    }
  }

  /** Id index statistics. */
  indexStats(): IdIndexStats {
    return this.#index.stats();
  }

  /**
   * Closes the store once; a later call waits for the first one, because the descriptors may belong to other
   * files by then.
   */
  close(): Promise<void> {
    return (this.#closed ??= this.#index.close().then(() => this.#log.close()));
  }

  /** Decides the outcome of each event and writes the frames of new ones into the staging buffer. */
  #stage(batch: readonly Candidate[]): Outcome[] {
    const durableBefore = this.#log.nextSequence;
    let sequence = durableBefore;
    this.#staged = this.#ownStaged = 0;
    this.#stagedActions = [];
    this.#newestAction = this.#log.newestAction;
    this.#batch.begin();
    const outcomes: Outcome[] = [];
    for (const candidate of batch) {
      const index = this.#index;
      index.fingerprint(candidate.organisation, candidate.eventId, 0);
      const { hi, lo } = index;
      const began = performance.now();
      const known = this.#known(candidate, hi, lo);
      outcomes.push(known ?? 'accepted');
      if (known !== undefined) {
        candidate.comparedMs = performance.now() - began;
        continue;
      }
      const isOwn = typeof candidate.kind === 'number';
      const sealer = isOwn || candidate.isErased ? undefined : this.#sealer;
      this.#grow(this.#staged + frameSize(candidate, sealer));
      this.#batch.add(hi, lo, this.#staged);
      if (isOwn) this.#ownStaged++;
      const place = this.#staged;
      const actionBefore = this.#newestAction;
      if (candidate.kind === ENTRY_KINDS.lifecycleAction) {
        this.#stagedActions.push(place);
        this.#newestAction = { sequence, address: this.#log.end + place };
      }
      this.#staged += encodeFrame(
        ...([this.#staging, place, candidate, sequence++, durableBefore, sealer, actionBefore] as const),
      );
    }
    return outcomes;
  }

  #commit(outcomes: Outcome[]): Outcome[] {
    const start = this.#log.end;
    const { count, high, low, place } = this.#batch;
    this.#log.commit(this.#staging, this.#staged, count, this.#ownStaged, this.#newestAction);
    for (const at of this.#stagedActions)
      noteAction(this.actions, this.#staging, at, this.#staging.readUInt32LE(at + 4));
    for (let i = 0; i < count; i++) {
      this.#index.add(numberAt(high, i), numberAt(low, i), start + numberAt(place, i));
    }
    this.#index.commit(this.#log.end);
    this.options.onFlushed?.(this.#log.flushMs, heldBy(this.#log));
    return outcomes;
  }

  /** The outcome of an event whose id is in the log or earlier in the batch; undefined for a new one. */
  #known(candidate: Candidate, hi: number, lo: number): Outcome | undefined {
    this.#batch.find(hi, lo, this.#places);
    for (const place of this.#places) {
      if (!isSameId(this.#staging, place, candidate)) continue;
      const size = this.#staging.readUInt32LE(place + 4);
      return this.#compare(Buffer.from(this.#staging.subarray(place, place + size)), candidate);
    }
    const found = this.#index.find(hi, lo, this.#places);
    for (let i = 0; i < found; i++) {
      const outcome = this.#compareStored(numberAt(this.#places, i), candidate);
      if (outcome !== undefined) return outcome;
    }
    return undefined;
  }

  #compareStored(address: number, candidate: Candidate): Outcome | undefined {
    if (address >= this.#log.end) return undefined;
    // By its fingerprint the event is most likely stored here. Storing it again could duplicate it.
    const bytes = this.#readFrame(address);
    if (bytes === undefined) return 'unreadable';
    return isSameId(bytes, 0, candidate) ? this.#compare(bytes, candidate) : undefined;
  }

  /** @param frame a copy, in which the payload is decrypted. */
  #compare(frame: Buffer, candidate: Candidate): Outcome {
    // This holds even while the key exists: the content of an erased event must not be revealed.
    if (this.actions.erased.has(frameSequence(frame, 0))) return 'erased';
    return repeatOutcome(decodeFrame(frame, 0), candidate, () =>
      this.#open(frame) === 'plain' ? decodeFrame(frame, 0).body : undefined,
    );
  }

  /** Decrypts a stored event. Unreadable keys of one event must not stop the batch. */
  #open(frame: Buffer): Opening {
    this.#opener.readAgain();
    try {
      return this.#opener.open(frame, 0, frame.readUInt32LE(4));
    } catch (error) {
      this.options.onTrouble('a stored event cannot be decrypted: its keys cannot be read', error);
      return 'no-key';
    }
  }

  /** The frame at an address; undefined if it cannot be read: one bad sector must not stop the batch. */
  #readFrame(address: number): Buffer | undefined {
    let trouble: unknown;
    try {
      const frame = this.#log.frameAt(address);
      if (frame !== undefined) return frame;
      trouble = new Error('the frame is damaged');
    } catch (error) {
      trouble = error;
    }
    const { file, offset } = this.#log.placeOf(address);
    this.options.onTrouble(
      `a stored event cannot be read: ${file}, byte ${offset}; see collector doctor`,
      trouble,
    );
    return undefined;
  }

  #grow(bytes: number): void {
    if (bytes <= this.#staging.length) return;
    const larger = Buffer.alloc(2 ** Math.ceil(Math.log2(bytes)));
    this.#staging.copy(larger, 0, 0, this.#staged);
    this.#staging = larger;
  }
}

/** Reads the actions of a log. @throws StoreDamaged if the whole log must be read and is damaged. */
function actionsOf(log: SegmentLog, onTrouble: EmbeddedStoreOptions['onTrouble']): Actions {
  const actions = new Actions();
  const { files, segments } = log.written(log.start);
  const found = log.isChained ? chainBack(files, segments, log.newestAction) : undefined;
  if (found !== undefined) {
    for (const frame of found) noteAction(actions, frame, 0, frame.length);
    return actions;
  }
  onTrouble(
    'an action does not name the previous one, so the whole log is read; see collector verify',
    undefined,
  );
  for (const { buffer, offset, size, address, sequence } of log.framesFrom(log.start)) {
    if (frameKind(buffer, offset) !== ENTRY_KINDS.lifecycleAction) continue;
    noteAction(actions, buffer, offset, size);
    log.newestAction = { sequence, address };
  }
  return actions;
}

/** Brings the index up to the end of the log. @returns the number of entries it lacked. */
function takeIn(log: SegmentLog, index: IdIndex): number {
  let replayed = 0;
  for (const { buffer, offset, size, address } of log.framesFrom(index.coveredTo)) {
    index.fingerprint(frameOrganisation(buffer, offset), frameEventId(buffer, offset), 0);
    index.add(index.hi, index.lo, address);
    if (++replayed % COMMIT_EVERY === 0) index.commit(address + size);
  }
  index.commit(log.end);
  return replayed;
}

function heldBy({ nextSequence, ownEntries, end }: SegmentLog): Held {
  return { events: nextSequence - 1 - ownEntries, entries: nextSequence - 1, bytes: end };
}

function isSameId(frame: Buffer, offset: number, { organisation, eventId }: Candidate): boolean {
  return frameEventId(frame, offset).equals(eventId) && frameOrganisation(frame, offset) === organisation;
}

/** Checks that the key of the newest encrypted event exists, unless the event is erased. @throws KeysUnfit */
function assertHasKey(keys: PayloadKeys, sealed: Buffer, erased: SequenceSet): void {
  const { tag, organisation } = keyNameIn(sealed, 0);
  const sequence = frameSequence(sealed, 0);
  const isThere = erased.has(sequence)
    ? keys.stored.knows(tag, organisation)
    : keys.stored.keyOf(tag, organisation, sequence) !== undefined;
  if (isThere) return;
  throw new KeysUnfit(
    `the key of event ${sequence} is missing; pass the directory with all keys to --encryption-keys`,
  );
}

/** Whether the newest event of each run is in the log at the address that the index gives. */
function isIndexOf(log: SegmentLog, index: IdIndex): boolean {
  for (const { hi, lo, address } of index.newestOfRuns()) {
    const bytes = log.readAt(address, HEADER_BYTES + SENDER_BYTES);
    if (plausibleSize(bytes, 0, bytes.length) === 0) return false;
    index.fingerprint(frameOrganisation(bytes, 0), frameEventId(bytes, 0), 0);
    if (index.hi !== hi || index.lo !== lo) return false;
  }
  return true;
}
