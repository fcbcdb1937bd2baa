/**
 * The reading of a log from its beginning to its end for `collector verify`, and what is told of it: see
 * commands/verify/verification.ts for the order in which things are read.
 */
import fs from 'node:fs';
import path from 'node:path';
import { hash } from 'node:crypto';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { Audit, type EventFault, type Verdict } from '../../integrity/audit.js';
import { HASH_BYTES, leafHash } from '../../integrity/merkle.js';
import {
  frameCommitment,
  frameDurableBefore,
  frameEnvelope,
  frameIsOwn,
  frameKind,
  framePayloadLength,
  frameReceivedAt,
  frameSalted,
} from './frame.js';
import { headerHolds } from './frame-parts.js';
import { exists } from '../../files.js';
import { ForensicReader, type Question, type Rest, type WholeFrame } from './forensic-reader.js';
import { counted } from '../../quantity.js';
import { SEGMENT_HEADER_BYTES } from './segment.js';
import { surveySegments } from './segment-survey.js';
import type { TreeReader } from '../contract.js';
import {
  alteredFinding,
  misplacedFinding,
  missingFinding,
  ownLeaf,
  placeFinding,
  restFinding,
  storedLeaf,
  type FrameBytes,
  type LogEnd,
} from './event-findings.js';
import type {
  AuditedLog,
  AuditedRoots,
  AuditOptions,
  CheckedRoot,
  FindingList,
  HeadListener,
  VerifyFinding,
  Waiting,
} from '../log-audit.js';
import { rootFindings, tileFindings } from './tree-findings.js';

const CHUNK = 4096;
/** Places are numbers that hold both, the segment in front. */
const MOST_IN_SEGMENT = 2 ** 33;
/** So many events are looked at one by one; the rest is counted. */
const MOST_SUSPECTS = 10_000;

/** An event whose frame says what it should not, or whose payload does not fit it. */
interface Suspect {
  readonly sequence: number;
  readonly before: number | undefined;
}

/** One reading of the log from its beginning to its end, against the tree and the checkpoints. */
export class LogReading {
  readonly #options: AuditOptions;
  readonly #tree: TreeReader;
  readonly #audit: Audit<CheckedRoot>;
  readonly #reader: ForensicReader;
  readonly #hashes = Buffer.alloc(CHUNK * HASH_BYTES);
  readonly #places = new Float64Array(CHUNK);
  #count = 0;
  #entries = 0;
  /** How many of them are the log's own, and in each segment. */
  #own = 0;
  readonly #ownIn: number[] = [];
  /** By place. */
  readonly #suspects = new Map<number, Suspect>();
  #unlisted = 0;
  /** What is no frame that holds, and durable-before of the frame in front of it. */
  readonly #rests: { readonly rest: Rest; readonly before: number | undefined }[] = [];
  /** Durable-before of the frame that was read last; undefined when it is not known. */
  #before: number | undefined;
  /** Frames and stretches of which something is to be told. */
  #doubtful = 0;
  /** Whether every frame so far stood where its number says, from 1 on. */
  #inOrder = true;
  /** The first event behind the largest checkpoint, and the last one. */
  #waiting: Waiting | undefined;
  /** Segments that are no files. */
  readonly #irregular: string[] = [];
  /** Where each segment's events end. */
  readonly #ends: number[] = [];

  constructor(
    options: AuditOptions,
    tree: TreeReader,
    { roots, newest }: AuditedRoots,
    private readonly accessLog: HeadListener,
  ) {
    this.#options = options;
    this.#tree = tree;
    this.#audit = new Audit(tree, roots);
    const { covered } = this.#audit;
    const ledgerId = /^collector\/([0-9a-f]{32})$/.exec(newest?.origin ?? '')?.[1];
    const segments = surveySegments(options.files, path.join(options.dataDir, 'ledger'), ledgerId, (name) =>
      this.#irregular.push(name),
    );
    this.#reader = new ForensicReader(options.files, segments, { covered });
  }

  /**
   * Reads the log, and tells all that is not as it was written and signed. That nothing was found is not what makes it
   * the one that was signed: every frame has to stand in its place, from the first event to the last, and every signed
   * root has to come out of them.
   */
  async tell(findings: FindingList): Promise<AuditedLog> {
    await this.#read();
    const verdict = await this.#audit.finish();
    const found = findings.faults;
    for (const { name, faults } of this.#reader.segments) {
      const file = `ledger/${name}`;
      if (faults.length === 0) continue;
      findings.add({ kind: 'altered', file, message: `the header of ${file} ${faults.join(', ')}` });
    }
    for (const name of this.#irregular) {
      const file = `ledger/${name}`;
      findings.add({ kind: 'unreadable', file, message: `${file} is no regular file, and was not opened` });
    }
    await this.#tellRests(verdict, findings);
    await this.#tellEvents(verdict, findings);
    for (const finding of rootFindings(verdict)) findings.add(finding);
    if (findings.faults === found) this.#tellPlaces(findings);
    const { altered, missing, inserted, hashes } = verdict.unlisted;
    findings.unlisted += this.#unlisted + altered + missing + inserted;
    const known = findings.faults > found;
    for (const finding of tileFindings(verdict, this.#hasTree())) findings.add(finding);
    findings.unlisted += hashes;
    const doubt = this.#doubt(verdict);
    if (doubt === undefined) findings.confirm();
    else if (!known) findings.add(doubt);
    if (findings.faults === 0) this.#tellAddresses(findings);
    const [entries, events] = [this.#entries, this.#entries - this.#own];
    return { entries, events, unsigned: verdict.unsigned, waiting: this.#waiting };
  }

  /** Why the log cannot be said to be the one that was signed; undefined when it is. */
  #doubt({ roots, events, unsigned }: Verdict<CheckedRoot>): VerifyFinding | undefined {
    const against = roots.find(({ log }) => log !== 'agrees')?.root;
    if (against !== undefined) {
      const { source, file, size } = against;
      const message = `the log does not come to the root of ${source}, of ${counted(size, 'entry', 'entries')}, and it cannot be told where`;
      return { kind: 'forked', file, message };
    }
    if (!this.#inOrder) {
      const message = 'the events do not stand in the order of their numbers, and it cannot be told where';
      return { kind: 'altered', message };
    }
    const faults = this.#doubtful + events.length;
    if (faults === 0 && this.#entries === this.#audit.covered + unsigned) return undefined;
    const message =
      `${counted(faults, 'place')} of the log ${faults === 1 ? 'is' : 'are'} not as a collector writes it, and it ` +
      'cannot be told what became of them';
    return { kind: 'altered', message };
  }

  async #read(): Promise<void> {
    const { onProgress } = this.#options;
    const total = this.#audit.covered;
    const items = this.#reader.items();
    let answer: boolean | undefined;
    for (let next = items.next(); !next.done; next = items.next(answer)) {
      const item = next.value;
      if (item.kind === 'frame') {
        this.#frame(item);
        if (this.#count < CHUNK) continue;
        await this.#flush();
        onProgress(this.#entries, Math.max(total, this.#entries));
      } else if (item.kind === 'question') answer = await this.#isEvent(item);
      else await this.#rest(item);
    }
    await this.#flush();
  }

  async #flush(): Promise<void> {
    await this.#audit.leaves(this.#hashes, this.#places, this.#count);
    await this.accessLog.settle();
    this.#count = 0;
  }

  #frame({ buffer, offset, size, segment, position, sequence }: WholeFrame): void {
    const commitment = frameCommitment(buffer, offset);
    const place = segment * MOST_IN_SEGMENT + position;
    const holds = headerHolds(buffer, offset, sequence, this.#before);
    // As text, a character a byte: half the time of a Buffer for each hash.
    if (sequence !== this.#entries + 1) this.#inOrder = false;
    if (sequence > this.#audit.covered) this.#wait(sequence, frameReceivedAt(buffer, offset));
    if (
      !holds ||
      hash('sha256', frameSalted(buffer, offset, size), 'binary') !== commitment.toString('latin1')
    ) {
      this.#doubtful++;
      if (this.#suspects.size < MOST_SUSPECTS) this.#suspects.set(place, { sequence, before: this.#before });
      else this.#unlisted++;
    }
    if (frameIsOwn(buffer, offset)) {
      this.#ownIn[segment] = (this.#ownIn[segment] ?? 0) + 1;
      this.#ownEntry(buffer, offset, size, sequence);
    }
    leafHash(frameEnvelope(buffer, offset), commitment, this.#hashes, this.#count * HASH_BYTES);
    this.#places[this.#count++] = place;
    this.#before = holds ? frameDurableBefore(buffer, offset) : undefined;
    this.#ends[segment] = position + size;
    this.#entries++;
  }

  #ownEntry(buffer: Buffer, offset: number, size: number, sequence: number): void {
    this.#own++;
    if (frameKind(buffer, offset) !== ENTRY_KINDS.accessLogHead) return;
    const end = offset + size;
    this.accessLog.head(sequence, buffer.subarray(end - framePayloadLength(buffer, offset), end));
  }

  #wait(sequence: number, receivedAt: number): void {
    this.#waiting ??= { sequence, oldest: receivedAt, newest: receivedAt };
    this.#waiting.newest = Math.max(this.#waiting.newest, receivedAt);
  }

  async #rest(rest: Rest): Promise<void> {
    await this.#flush();
    if (rest.kind !== 'torn' && rest.kind !== 'spare') this.#doubtful++;
    if (rest.count > 0) await this.#audit.gap(rest.count, this.#rests.length);
    if (this.#rests.length < MOST_SUSPECTS) this.#rests.push({ rest, before: this.#before });
    else this.#unlisted++;
    this.#before = undefined;
    if (rest.kind === 'damaged') this.#entries++;
    if (rest.kind === 'damaged' || rest.kind === 'unreadable')
      this.#ends[rest.segment] = rest.position + rest.bytes;
  }

  async #isEvent({ buffer, offset, sequence }: Question): Promise<boolean> {
    if (sequence < 1) return false;
    const leaf = Buffer.alloc(HASH_BYTES);
    leafHash(frameEnvelope(buffer, offset), frameCommitment(buffer, offset), leaf, 0);
    const stored = await storedLeaf(this.#tree, sequence - 1, this.#audit.covered);
    return stored?.equals(leaf) ?? false;
  }

  async #tellRests({ gaps }: Verdict<CheckedRoot>, findings: FindingList): Promise<void> {
    const byRest = new Map(gaps.map((gap) => [gap.reference, gap]));
    for (const [i, { rest, before }] of this.#rests.entries()) {
      const gap = byRest.get(i);
      const { segment, position, bytes, sequence } = rest;
      if (rest.kind === 'empty' || rest.kind === 'overlap') continue;
      let finding: VerifyFinding | undefined;
      if (rest.kind === 'damaged' && gap?.count === 1) {
        const frame = this.#reader.bytesAt(segment, position, bytes);
        const { covered } = this.#audit;
        const leaf = await storedLeaf(this.#tree, gap.index, covered);
        finding = alteredFinding(
          { frame, sequence, before, ...this.#fileOf(segment, position) },
          { leaf, proven: gap.proven, covered: gap.index < covered },
        );
      }
      finding ??= restFinding(rest, gap?.count ?? rest.count, this.#fileOf(segment, position));
      if (finding !== undefined) findings.add(finding);
    }
  }

  /** Segments whose places fit no others. Where events are missing or were slipped in, that is the thing to tell. */
  #tellPlaces(findings: FindingList): void {
    for (const { rest } of this.#rests) {
      const finding = placeFinding(rest, this.#fileOf(rest.segment, rest.position));
      if (finding !== undefined) findings.add(finding);
    }
  }

  async #tellEvents(verdict: Verdict<CheckedRoot>, findings: FindingList): Promise<void> {
    const end = this.#logEnd(verdict);
    for (const fault of verdict.events) {
      const finding = await this.#eventFinding(fault, end);
      if (finding !== undefined) findings.add(finding);
    }
    // The leaves of these are those of the tree, or there are none to compare.
    for (const [place, { sequence, before }] of this.#suspects) {
      const bytes = this.#bytesOf(place, sequence, before);
      const leaf = sequence <= this.#audit.covered ? ownLeaf(bytes.frame) : undefined;
      const finding = alteredFinding(bytes, { leaf, proven: sequence <= verdict.provenTo });
      if (finding !== undefined) findings.add(finding);
    }
  }

  async #eventFinding(fault: EventFault, end: LogEnd): Promise<VerifyFinding | undefined> {
    const bytesAt = (place: number) =>
      this.#bytesOf(place, fault.logIndex + 1, this.#suspects.get(place)?.before);
    if (fault.kind === 'missing') {
      return missingFinding(fault, fault.place === undefined ? undefined : bytesAt(fault.place), end);
    }
    const bytes = bytesAt(fault.place);
    this.#suspects.delete(fault.place);
    if (fault.kind !== 'altered') return misplacedFinding(fault, bytes);
    const leaf = await storedLeaf(this.#tree, fault.index, this.#audit.covered);
    return alteredFinding(bytes, { leaf, proven: fault.proven });
  }

  #logEnd({ roots }: Verdict<CheckedRoot>): LogEnd {
    const largest = roots.findLast(({ root }) => root.size === this.#audit.covered)?.root;
    const source = largest?.source ?? '';
    const agreeing = roots.filter(({ log }) => log === 'agrees').map(({ root }) => root);
    // Two histories were signed when the log agrees with a checkpoint as large as one that it does not agree with.
    const other = roots.find(({ log }) => log === 'differs')?.root;
    const partsBy = agreeing.some(({ size }) => size >= (other?.size ?? Infinity)) ? other?.size : undefined;
    // Of another history that was kept elsewhere, the checkpoints of this directory say nothing.
    const ofBoth =
      partsBy === undefined
        ? agreeing
        : agreeing.filter(({ size, outside }) => size < partsBy && (outside || other?.outside === false));
    const agreesTo = Math.max(0, ...ofBoth.map(({ size }) => size));
    return { source, size: this.#audit.covered, entries: this.#entries, agreesTo, partsBy };
  }

  #hasTree(): boolean {
    const directory = path.join(this.#options.dataDir, 'tree');
    return exists(directory) && fs.readdirSync(directory).some((name) => name.startsWith('level-'));
  }

  /** Addresses are where the id index finds events. Damage moves them, and is the thing to tell then. */
  #tellAddresses(findings: FindingList): void {
    let [address, own] = [0, 0];
    for (const [i, { name, base, ownBefore }] of this.#reader.segments.entries()) {
      if (base !== address || ownBefore !== own) {
        const file = `ledger/${name}`;
        const message =
          base === address
            ? `the header of ${file} says that ${ownBefore ?? 0} of the entries in front of it are the log's own, and ${own} are`
            : `the header of ${file} says that ${base ?? 0} bytes of events are in front of it, and ${address} are`;
        findings.add({ kind: 'altered', file, message });
        return;
      }
      address += (this.#ends[i] ?? SEGMENT_HEADER_BYTES) - SEGMENT_HEADER_BYTES;
      own += this.#ownIn[i] ?? 0;
    }
  }

  #bytesOf(place: number, sequence: number, before: number | undefined): FrameBytes {
    const segment = Math.floor(place / MOST_IN_SEGMENT);
    const position = place % MOST_IN_SEGMENT;
    const frame = this.#reader.frameAt(segment, position);
    return { frame, sequence, before, ...this.#fileOf(segment, position) };
  }

  #fileOf(segment: number, offset: number): { file: string; offset: number } {
    return { file: `ledger/${this.#reader.segments[segment]?.name ?? ''}`, offset };
  }
}
