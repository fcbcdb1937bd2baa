/**
 * The complete reading of a log for `collector verify`, and its findings. commands/verify/verification.ts
 * defines the order in which parts are read.
 */
import fs from 'node:fs';
import path from 'node:path';
import { hash } from 'node:crypto';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { exists, type Files } from '../../files.js';
import { messageOf } from '../../system-code.js';
import { Actions } from '../../privacy/actions.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { Audit, Ranges, type Range, type Verdict } from '../../tree/audit.js';
import { HASH_BYTES, leafHash } from '../../tree/merkle.js';
import {
  type AuditedLog,
  type AuditedRoots,
  type AuditOptions,
  type CheckedRoot,
  type ErasedEvent,
  type HeadListener,
  type Waiting,
} from '../log-audit.js';
import type { TreeReader } from '../contract/tree.js';
import { finding, type FindingList, forAll, type VerifyFinding } from '../findings.js';
import { erasedEvent, ErasedElsewhere, shouldBeGone, lifecycleFindings } from '../lifecycle-findings.js';
import { missingFinding, rootFindings, tileFindings } from '../root-findings.js';
import { noteAction } from './action-chain.js';
import { ActionPointers } from './action-pointers.js';
import { expanding } from './compacted-segment.js';
import {
  alteredFinding,
  damageFinding,
  headerHolds,
  ownLeaf,
  type FrameBytes,
  type Place,
} from './altered-frame.js';
import {
  frameCommitment,
  frameDurableBefore,
  frameEnvelope,
  frameIsOwn,
  frameKind,
  framePayloadLength,
  framePayloadState,
  frameReceivedAt,
  frameSalted,
  frameSequence,
  HEADER_BYTES,
  PLAIN,
  plausibleSize,
} from './frame.js';
import {
  bytesAt,
  type Damage,
  type FrameBlock,
  type FramePlace,
  numberAt,
  readFrames,
  walk,
  framesOf,
} from './log-frames.js';
import { bucketOf, FrameOpener, keyNameIn } from './sealed-frame.js';
import {
  ACTION_BEFORE_AT,
  OtherFormat,
  SEGMENT_HEADER_BYTES,
  type Segment,
  type SurveyedSegment,
  surveySegments,
} from './segment.js';

const CHUNK = 4096;
/** A place combines the index of a segment and an offset in its file in one number. */
const MOST_IN_SEGMENT = 2 ** 33;
/** Maximum number of listed damages; more are only counted. */
const MOST_LISTED = 10_000;

/** One complete reading of the log, compared with the tree and the checkpoints. */
export class LogReading {
  readonly #options: AuditOptions;
  readonly #tree: TreeReader;
  readonly #audit: Audit<CheckedRoot>;
  readonly #files: Files;
  readonly #segments: readonly SurveyedSegment[];
  readonly #opener: FrameOpener;
  readonly #hashes = Buffer.alloc(CHUNK * HASH_BYTES);
  readonly #places = new Float64Array(CHUNK);
  #count = 0;
  #entries = 0;
  /** Number of the log's own entries, in total and by segment. */
  #own = 0;
  readonly #ownIn: number[];
  /** Entries with an unexpected header, or with a payload that does not match its commitment. */
  readonly #doubtful = new Ranges();
  /** Durable-before of the frame before each doubtful range, by the place of the range. */
  readonly #befores = new Map<number, number | undefined>();
  /** Damage, with durable-before of the frame before it. */
  readonly #damage: { readonly damage: Damage; readonly before: number | undefined }[] = [];
  #unlisted = 0;
  /** Durable-before of the last frame; undefined if unknown. */
  #before: number | undefined;
  /** Whether every frame so far had the expected sequence. */
  #inOrder = true;
  /** Number of encrypted payloads without a key directory to open them. */
  #unopened = 0;
  /** The actions in the log. */
  readonly #actions = new Actions();
  readonly #pointers = new ActionPointers((place) => this.#placeAt(place));
  /** Events without a key, as ranges. */
  readonly #keyless: { first: number; end: number }[] = [];
  readonly #elsewhere: ErasedElsewhere;
  /** Why the keys cannot be used. */
  #unfit: string | undefined;
  /** Number of entries after the largest checkpoint. */
  #unsigned = 0;
  #waiting: Waiting | undefined;
  /** Names of segments that are not regular files. */
  readonly #irregular: string[] = [];
  /** End of the events in each segment. */
  readonly #ends: number[];
  /** Number of segments whose header was passed. */
  #begun = 0;

  /** @throws OtherFormat */
  constructor(
    options: AuditOptions,
    tree: TreeReader,
    { roots, newest }: AuditedRoots,
    private readonly accessLog: HeadListener,
  ) {
    this.#options = options;
    this.#elsewhere = new ErasedElsewhere(options.takenSince ?? []);
    this.#tree = tree;
    this.#audit = new Audit(tree, roots);
    const ledgerId = /^collector\/([0-9a-f]{32})$/.exec(newest?.origin ?? '')?.[1];
    this.#files = expanding(options.files);
    this.#segments = surveySegments(this.#files, path.join(options.dataDir, 'ledger'), ledgerId, (name) =>
      this.#irregular.push(name),
    );
    const other = this.#segments.find(({ isOtherFormat }) => isOtherFormat);
    if (other !== undefined) throw new OtherFormat(`ledger/${other.name}: ${other.faults[0]}`);
    this.#ends = this.#segments.map(() => SEGMENT_HEADER_BYTES);
    this.#ownIn = this.#segments.map(() => 0);
    this.#opener = this.#newOpener((error) => {
      this.#unfit = messageOf(error);
    });
  }

  /**
   * Reads the log and reports every difference from what was written and signed. The absence of findings is
   * not the proof: the log is confirmed only if every frame has its sequence and the frames give every signed
   * root.
   */
  async report(findings: FindingList): Promise<AuditedLog> {
    await this.#read();
    const verdict = await this.#audit.finish();
    const found = findings.faults;
    this.#reportSegments(findings);
    if (this.#unfit !== undefined) findings.add(finding('keys_unfit', {}, this.#unfit));
    for (const { damage, before } of this.#damage)
      findings.add(await this.#damageFinding(damage, before, verdict));
    const isUnread = (size: number) =>
      this.#damage.some(({ damage: { count, sequence } }) => {
        return count > 0 && sequence > verdict.provenTo && sequence <= size;
      });
    await this.#reportEntries(verdict, isUnread, findings);
    findings.add(...this.#pointers.misnamed);
    const lifecycle = await this.#lifecycleFindings(findings);
    findings.add(...rootFindings(verdict, isUnread));
    findings.unlisted += this.#unlisted + this.#doubtful.unlisted + verdict.unlisted;
    const known = findings.faults > found;
    findings.add(...tileFindings(verdict, this.#hasTree()));
    const isWhole = this.#inOrder && this.#doubtful.list.length === 0 && this.#entries >= this.#audit.covered;
    if (isWhole && verdict.roots.every(({ log }) => log === 'agrees')) findings.confirm();
    else if (!known) findings.add(finding('log_differs', {}));
    if (findings.faults === 0) findings.add(...this.#addressFindings());
    const entries = this.#entries;
    const [events, unsigned, waiting] = [entries - this.#own, this.#unsigned, this.#waiting];
    const bytes = this.#ends.reduce((sum, end) => sum + end - SEGMENT_HEADER_BYTES, 0);
    const torn = this.#damage.find(({ damage: { kind } }) => kind === 'torn')?.damage;
    const message = torn && damageFinding(torn, this.#placeOf(torn.segment, torn.position)).message;
    return {
      ...{ entries, events, unsigned, waiting, bytes, torn: message },
      ...{ unsequenced: 0, unopened: this.#unopened, ...lifecycle },
      erasures: { actions: this.#actions, events: (of) => this.#erased(of) },
    };
  }

  *#erased(of: SequenceSet): Generator<ErasedEvent> {
    for (const { buffer, offset, sequence } of this.#framesOf(of)) {
      const event = erasedEvent(sequence, frameEnvelope(buffer, offset));
      if (event !== undefined) yield event;
    }
  }

  /** @param onUnfit see OpenerOptions. */
  #newOpener(onUnfit?: (error: unknown) => void): FrameOpener {
    const { dataDir, files, shared } = this.#options;
    const options = { asksTag: true, ...(onUnfit && { onUnfit }) };
    return shared === undefined
      ? FrameOpener.of(dataDir, files, options)
      : new FrameOpener(() => shared.keys, options);
  }

  /** The given events that the current keys still open. */
  async #stillOpen(sequences: SequenceSet): Promise<SequenceSet> {
    await this.#options.shared?.refreshKeys();
    const opener = this.#newOpener();
    const open: number[] = [];
    for (const { buffer, offset, size, sequence } of this.#framesOf(sequences)) {
      const isEncrypted = bucketOf(buffer, offset) !== undefined;
      if (isEncrypted && opener.open(buffer, offset, size) === 'plain') open.push(sequence);
    }
    return SequenceSet.of(open);
  }

  /** The frames of these events. Reads only the segments that contain some of them. */
  *#framesOf(sequences: SequenceSet): Generator<FramePlace> {
    for (const [i, segment] of this.#segments.entries()) {
      const end = this.#segments[i + 1]?.firstSequence ?? this.#entries + 1;
      if (!sequences.meets(segment.firstSequence, end)) continue;
      const options = { onDamage: 'continue', covered: this.#audit.covered } as const;
      for (const frame of readFrames(expanding(this.#options.files), [segment], options))
        if (sequences.has(frame.sequence)) yield frame;
    }
  }

  async #lifecycleFindings(findings: FindingList): Promise<ReturnType<typeof lifecycleFindings>> {
    const keyless = SequenceSet.ofStretches(this.#keyless);
    const elsewhere = this.#elsewhere.explained;
    const isExplained = keyless.without(this.#actions.erased).without(elsewhere).size === 0;
    const unread = SequenceSet.ofStretches(
      this.#damage.map(({ damage: { sequence, count } }) => ({ first: sequence, end: sequence + count })),
    );
    const keys = this.#unfit === undefined ? this.#opener.keys : undefined;
    const found = { actions: this.#actions, keyless, keys };
    const back = await this.#stillOpen(shouldBeGone({ ...found, unread }));
    const later = isExplained ? elsewhere : elsewhere.with(await this.#erasedMeanwhile());
    return lifecycleFindings({ ...found, later, back }, findings);
  }

  /** The events erased by actions that were appended after this reading passed the end of the log. */
  async #erasedMeanwhile(): Promise<SequenceSet> {
    const { dataDir, shared } = this.#options;
    if (shared !== undefined) return shared.erasedByNow();
    const files = expanding(this.#options.files);
    const actions = new Actions();
    const segments = surveySegments(files, path.join(dataDir, 'ledger'), undefined);
    const last = segments.findLastIndex(({ firstSequence }) => firstSequence <= this.#entries);
    const newest = segments.slice(Math.max(0, last));
    for (const { buffer, offset, size, sequence } of readFrames(files, newest, { onDamage: 'continue' }))
      if (sequence > this.#entries) noteAction(actions, buffer, offset, size);
    return actions.erased;
  }

  async #read(): Promise<void> {
    const { covered } = this.#audit;
    for (const item of walk(this.#files, this.#segments, { onDamage: 'continue', covered })) {
      if (item.kind === 'frames') await this.#frames(item);
      else await this.#passDamage(item);
    }
    this.#beginSegments(this.#segments.length);
    await this.#flush();
  }

  async #flush(): Promise<void> {
    await this.#audit.leaves(this.#hashes, this.#places, this.#count);
    await this.accessLog.settle();
    await this.#options.shared?.refreshKeys();
    this.#opener.readAgain();
    this.#count = 0;
    this.#options.onProgress(this.#entries, Math.max(this.#audit.covered, this.#entries));
  }

  async #frames(block: FrameBlock): Promise<void> {
    const { end, position, segment } = block;
    const index = this.#segments.indexOf(segment as SurveyedSegment);
    this.#beginSegments(index + 1);
    const start = index * MOST_IN_SEGMENT + position;
    const before = this.#own;
    for (const { buffer, offset, size, sequence } of framesOf(block)) {
      this.#frame(buffer, offset, size, sequence, start + offset);
      if (this.#count === CHUNK) await this.#flush();
    }
    this.#ends[index] = position + end;
    this.#ownIn[index] = numberAt(this.#ownIn, index) + this.#own - before;
  }

  #frame(buffer: Buffer, offset: number, size: number, sequence: number, place: number): void {
    const commitment = frameCommitment(buffer, offset);
    const holds = headerHolds(buffer, offset, sequence, this.#before);
    if (sequence !== this.#entries + 1) this.#inOrder = false;
    if (sequence > this.#audit.covered) this.#wait(sequence, frameReceivedAt(buffer, offset));
    // Hashes are compared as latin1 text, which takes half the time of a Buffer.
    const leafAt = this.#count * HASH_BYTES;
    leafHash(frameEnvelope(buffer, offset), commitment, this.#hashes, leafAt);
    const fits =
      framePayloadState(buffer, offset) !== PLAIN
        ? this.#opens(buffer, offset, size, this.#hashes.subarray(leafAt, leafAt + HASH_BYTES))
        : hash('sha256', frameSalted(buffer, offset, size), 'binary') === commitment.toString('latin1');
    if (!holds || !fits) this.#doubt({ index: sequence - 1, count: 1, place });
    if (frameIsOwn(buffer, offset)) this.#ownEntry(buffer, offset, size, sequence);
    this.#pointers.pass(buffer, offset, size, sequence, place);
    this.#places[this.#count++] = place;
    this.#before = holds ? frameDurableBefore(buffer, offset) : undefined;
    this.#entries++;
  }

  /** Whether an encrypted payload matches its commitment; true if it cannot be opened here. */
  #opens(buffer: Buffer, offset: number, size: number, leaf: Buffer): boolean {
    const opening = this.#opener.open(buffer, offset, size, leaf);
    if (opening === 'no-keys') this.#unopened++;
    if (opening === 'no-key' || opening === 'erased') {
      const sequence = frameSequence(buffer, offset);
      this.#noteKeyless(sequence);
      this.#elsewhere.meet(sequence, opening === 'no-key' ? keyNameIn(buffer, offset) : undefined);
    }
    return opening !== 'unfit';
  }

  #noteKeyless(sequence: number): void {
    const last = this.#keyless.at(-1);
    if (last?.end === sequence) last.end++;
    else this.#keyless.push({ first: sequence, end: sequence + 1 });
  }

  #doubt(range: Range): void {
    this.#doubtful.add(range);
    if (this.#doubtful.list.at(-1) === range) this.#befores.set(range.place, this.#before);
  }

  #ownEntry(buffer: Buffer, offset: number, size: number, sequence: number): void {
    this.#own++;
    noteAction(this.#actions, buffer, offset, size);
    if (frameKind(buffer, offset) !== ENTRY_KINDS.accessLogHead) return;
    const end = offset + size;
    this.accessLog.head(sequence, buffer.subarray(end - framePayloadLength(buffer, offset), end));
  }

  /** Passes the headers of the first `count` segments. */
  #beginSegments(count: number): void {
    for (; this.#begun < count; this.#begun++) {
      const segment = this.#segments[this.#begun];
      const place = this.#begun * MOST_IN_SEGMENT + ACTION_BEFORE_AT;
      if (segment !== undefined) this.#pointers.passHeader(segment, place);
    }
  }

  #wait(sequence: number, receivedAt: number): void {
    this.#unsigned++;
    this.#waiting ??= { sequence, oldest: receivedAt, newest: receivedAt };
    this.#waiting.newest = Math.max(this.#waiting.newest, receivedAt);
  }

  async #passDamage(damage: Damage): Promise<void> {
    const { kind, segment, position, bytes, sequence, count } = damage;
    await this.#flush();
    if (kind !== 'torn' && kind !== 'spare') {
      this.#inOrder = false;
      this.#pointers.passDamage(count);
    }
    if (count > 0 && kind !== 'overlap') await this.#audit.gap(count);
    if (this.#damage.length < MOST_LISTED) this.#damage.push({ damage, before: this.#before });
    else this.#unlisted++;
    this.#before = undefined;
    if (kind === 'damaged') {
      this.#entries++;
      if (sequence > this.#audit.covered) this.#unsigned++;
    }
    if (kind === 'damaged' || kind === 'unreadable')
      this.#ends[this.#segments.indexOf(segment as SurveyedSegment)] = position + bytes;
  }

  #reportSegments(findings: FindingList): void {
    for (const { name, faults } of this.#segments) {
      const file = `ledger/${name}`;
      if (faults.length > 0) findings.add(finding('segment_header', { file }, file, faults));
    }
    for (const name of this.#irregular) {
      const file = `ledger/${name}`;
      findings.add(finding('segment_irregular', { file }, file));
    }
  }

  async #damageFinding(
    damage: Damage,
    before: number | undefined,
    { provenTo }: Verdict<CheckedRoot>,
  ): Promise<VerifyFinding> {
    const { kind, segment, position, bytes, sequence } = damage;
    const place = this.#placeOf(segment, position);
    if (kind !== 'damaged') return damageFinding(damage, place);
    const frame = bytesAt(this.#files, segment, position, bytes);
    const expected = await this.#expected(sequence - 1, provenTo);
    const opened = this.#opened(frame);
    return (
      alteredFinding({ frame, sequence, before, opened, at: place }, expected) ?? damageFinding(damage, place)
    );
  }

  /** Reports each range of entries that differ from the signed ones, and the first difference. */
  async #reportEntries(
    verdict: Verdict<CheckedRoot>,
    isUnread: (size: number) => boolean,
    findings: FindingList,
  ): Promise<void> {
    const { differing, provenTo, leaves } = verdict;
    for (const range of differing) findings.add(await this.#differing(range, verdict));
    const isReported = ({ index }: Range) =>
      differing.some((each) => index >= each.index && index < each.index + each.count);
    for (const range of this.#doubtful.list) {
      if (isReported(range)) continue;
      const bytes = this.#bytesOf(range);
      // The leaf equals the one in the tree, or the tree has none.
      const leaf = range.index < this.#audit.covered ? ownLeaf(bytes.frame) : undefined;
      const first = alteredFinding(bytes, { leaf, proven: range.index < provenTo });
      if (first !== undefined) findings.add(forAll(first, range.index + 1, range.count));
    }
    const goesToEnd = differing.some((range) => this.#isOtherHistory(range, leaves));
    const { covered } = this.#audit;
    const missing = goesToEnd ? undefined : missingFinding(verdict, covered, this.#entries, isUnread);
    if (missing !== undefined) findings.add(missing);
    const difference = this.#firstDifference(verdict);
    if (difference !== undefined) findings.add(difference);
  }

  async #differing(range: Range, { provenTo, leaves }: Verdict<CheckedRoot>): Promise<VerifyFinding> {
    const bytes = this.#bytesOf(range);
    const expected = await this.#expected(range.index, provenTo);
    const first = alteredFinding(bytes, expected) ?? finding('log_differs', {});
    if (!this.#isOtherHistory(range, leaves)) return forAll(first, range.index + 1, range.count);
    const { covered } = this.#audit;
    const whole = finding('log_differs_from', {}, bytes.sequence, leaves, covered, first.message);
    return { ...first, ...whole };
  }

  /** Whether a range of differing entries extends to the end of the signed log. */
  #isOtherHistory({ index, count }: Range, leaves: number): boolean {
    return count > 1 && index + count === Math.min(leaves, this.#audit.covered);
  }

  /** Reports the first differing entry, what is proved before it, and whether later entries match. */
  #firstDifference({ differing, provenTo, leaves }: Verdict<CheckedRoot>): VerifyFinding | undefined {
    const gaps = this.#damage
      .map(({ damage: { sequence, count, kind } }) => ({ index: sequence - 1, count, kind }))
      .filter(({ count, kind }) => count > 0 && kind !== 'overlap');
    const faulty = [...differing, ...this.#doubtful.list, ...gaps];
    const first = Math.min(...faulty.map(({ index }) => index));
    if (faulty.length === 0 || first >= this.#audit.covered) return undefined;
    const last = Math.max(...faulty.map(({ index, count }) => index + count));
    const end = Math.min(leaves, this.#audit.covered);
    const after =
      last >= end
        ? 'no later entry matches'
        : `entries from ${last + 1} on ${provenTo >= end ? 'match again' : 'are not proved'}`;
    const sequence = first + 1;
    return finding('first_difference', { sequence }, sequence, Math.min(first, provenTo), after);
  }

  async #expected(index: number, provenTo: number) {
    const covered = index < this.#audit.covered;
    const stored = covered ? await this.#tree.hashes(0, index, 1) : Buffer.alloc(0);
    const leaf = stored.length === HASH_BYTES ? stored : undefined;
    return { leaf, covered, proven: index < provenTo };
  }

  #hasTree(): boolean {
    if (this.#options.shared !== undefined) return true;
    const directory = path.join(this.#options.dataDir, 'tree');
    return exists(directory) && fs.readdirSync(directory).some((name) => name.startsWith('level-'));
  }

  /** Checks the addresses and counts in segment headers. Called only without damage, which shifts them. */
  #addressFindings(): VerifyFinding[] {
    let [address, own] = [0, 0];
    for (const [i, { name, base, ownBefore }] of this.#segments.entries()) {
      const file = `ledger/${name}`;
      if (base !== address)
        return [finding('segment_count', { file }, file, 'bytes of events', base, address)];
      if (ownBefore !== own)
        return [finding('segment_count', { file }, file, "entries of the log's own", ownBefore, own)];
      address += numberAt(this.#ends, i) - SEGMENT_HEADER_BYTES;
      own += numberAt(this.#ownIn, i);
    }
    return [];
  }

  #bytesOf({ index, place }: Range): FrameBytes {
    const { segment, position } = this.#segmentAt(place);
    const header = bytesAt(this.#files, segment, position, HEADER_BYTES);
    const frame = bytesAt(this.#files, segment, position, plausibleSize(header, 0, header.length));
    return {
      ...{ frame, sequence: index + 1, before: this.#befores.get(place), opened: this.#opened(frame) },
      at: this.#placeOf(segment, position),
    };
  }

  #segmentAt(place: number): { readonly segment: Segment; readonly position: number } {
    const segment = this.#segments[Math.floor(place / MOST_IN_SEGMENT)];
    if (segment === undefined) throw new RangeError('the place is in no segment of the log');
    return { segment, position: place % MOST_IN_SEGMENT };
  }

  #placeAt(place: number): Place {
    const { segment, position } = this.#segmentAt(place);
    return this.#placeOf(segment, position);
  }

  /** Opens a copy of the frame. */
  #opened(frame: Buffer): NonNullable<FrameBytes['opened']> {
    // The lengths in a damaged frame cannot be trusted.
    if (plausibleSize(frame, 0, frame.length) !== frame.length)
      return { opening: 'unfit', salted: undefined };
    const copy = Buffer.from(frame);
    const opening = this.#opener.open(copy, 0, copy.length);
    return { opening, salted: opening === 'plain' ? frameSalted(copy, 0, copy.length) : undefined };
  }

  #placeOf({ path: file }: Segment, offset: number): Place {
    if (this.#options.shared !== undefined) return {};
    return { file: `ledger/${path.basename(file)}`, offset };
  }
}
