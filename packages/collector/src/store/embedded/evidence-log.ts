/**
 * Writes a log in a database as segments, including its faults, for the same audit as a log in files. No
 * collector reads these segments.
 *
 *   a row that does not match its leaf: a frame with a wrong checksum
 *   a missing row: no frame; the next frame has its own sequence
 *   the end: an empty segment, so that entries before it count as missing, not as torn
 *
 * Payloads stay encrypted. Their keys are found by place instead of sequence: see {@link placeOf}.
 */
import path from 'node:path';
import { ENTRY_KINDS, type Envelope, SALT_BYTES } from '@clinical-events/protocol';
import { nodeFiles } from '../../files.js';
import type { Candidate } from '../contract/events.js';
import type { EvidenceRow } from '../contract/opened.js';
import {
  encodeFrame,
  frameIsOwn,
  frameKind,
  frameSize,
  type FrameStart,
  NO_ACTION,
  type PayloadSealer,
} from './frame.js';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, segmentName } from './segment.js';

const SEGMENT_BYTES = 64 << 20;
const STAGED_BYTES = 1 << 20;
/** Sequences per chunk of places. */
const CHUNK = 65_536;
const NO_ID = Buffer.alloc(16);
const NO_SALT = Buffer.alloc(SALT_BYTES);
/** Replaces an envelope that cannot be decoded. */
const UNREADABLE: Envelope = {
  kind: ENTRY_KINDS.accessLogHead,
  profile: 'minimum',
  door: 'endpoint',
  ...{ organisation: '', keyId: '', receivedAt: 0, eventId: NO_ID, runId: NO_ID, parentId: NO_ID },
};

export class EvidenceLog {
  readonly #staging: Buffer[] = [];
  #staged = 0;
  #fd: number | undefined;
  /** File offset after the staged frames. */
  #position = 0;
  #address = 0;
  #own = 0;
  /** The newest action that can be read. */
  #newestAction = NO_ACTION;
  #due = 1;
  #wasWhole = true;
  readonly #places = new Map<number, Uint32Array>();

  /** @param directory the data directory for `ledger/`. */
  constructor(
    private readonly directory: string,
    private readonly ledgerId: string,
  ) {
    nodeFiles.makeDirectory(this.#ledger);
    this.#begin(1);
  }

  /** @param row a row with a higher sequence than the previous one. */
  add(row: EvidenceRow): void {
    const { sequence, fits } = row;
    // A damaged row next to a gap would count as several entries, so it gets its own segment.
    const isApart = sequence > this.#due && !(fits && this.#wasWhole);
    if (isApart || this.#position >= SEGMENT_BYTES) this.#begin(sequence);
    const frame = frameOf(row, this.#newestAction);
    if (frameIsOwn(frame, 0)) this.#own++;
    if (fits && frameKind(frame, 0) === ENTRY_KINDS.lifecycleAction)
      this.#newestAction = { sequence, address: this.#address + this.#position - SEGMENT_HEADER_BYTES };
    if (row.place !== undefined) this.#note(sequence, row.place);
    this.#staging.push(frame);
    this.#position += frame.length;
    this.#staged += frame.length;
    if (this.#staged >= STAGED_BYTES) this.#write();
    this.#due = sequence + 1;
    this.#wasWhole = fits;
  }

  /** Completes the segments. @param entries number of entries by the database. */
  end(entries: number): void {
    if (this.#due > 1 || entries > 0) this.#begin(Math.max(this.#due, entries + 1));
    this.#close();
  }

  /** The place of an encrypted payload's key; 0 if there is none. */
  placeOf(sequence: number): number {
    return this.#places.get(Math.floor(sequence / CHUNK))?.[sequence % CHUNK] ?? 0;
  }

  #note(sequence: number, place: number): void {
    const number = Math.floor(sequence / CHUNK);
    const chunk = this.#places.get(number) ?? new Uint32Array(CHUNK);
    chunk[sequence % CHUNK] = place;
    this.#places.set(number, chunk);
  }

  #begin(firstSequence: number): void {
    this.#close();
    const segment = {
      ...{ base: this.#address, firstSequence, ledgerId: this.ledgerId },
      ...{ ownBefore: this.#own, actionBefore: this.#newestAction },
    };
    const header = encodeSegmentHeader(segment, Date.now());
    this.#fd = nodeFiles.open(path.join(this.#ledger, segmentName(firstSequence)), 'wx+');
    nodeFiles.write(this.#fd, header, header.length, 0);
    this.#position = SEGMENT_HEADER_BYTES;
  }

  #close(): void {
    if (this.#fd === undefined) return;
    this.#write();
    nodeFiles.close(this.#fd);
    this.#fd = undefined;
    this.#address += this.#position - SEGMENT_HEADER_BYTES;
  }

  #write(): void {
    if (this.#fd === undefined || this.#staged === 0) return;
    const bytes = Buffer.concat(this.#staging.splice(0));
    nodeFiles.write(this.#fd, bytes, bytes.length, this.#position - bytes.length);
    this.#staged = 0;
  }

  get #ledger(): string {
    return path.join(this.directory, 'ledger');
  }
}

function frameOf(row: EvidenceRow, actionBefore: FrameStart): Buffer {
  const { sequence, envelope, commitment, state, stored, fits } = row;
  // As written by FrameSealer: the parameters of the key come before the sealed salt.
  const overhead = state === 'encrypted' ? SEALED_OVERHEAD : 0;
  const salted = state === 'erased' ? NO_SALT : stored.subarray(overhead);
  const candidate: Candidate = {
    ...(envelope ?? UNREADABLE),
    ...{ salted: salted.length < SALT_BYTES ? NO_SALT : salted, commitment },
    ...(state === 'erased' && { isErased: true }),
  };
  const copier: PayloadSealer | undefined =
    overhead === 0 ? undefined : { overhead, seal: (target, _offset, at) => void stored.copy(target, at) };
  const frame = Buffer.alloc(frameSize(candidate, copier));
  encodeFrame(frame, 0, candidate, sequence, sequence, copier, actionBefore);
  if (!fits) frame[0] = (frame[0] ?? 0) ^ 1;
  return frame;
}

/** Suite, tag of the bucket and tag of the cipher (sealed-frame.ts). */
const SEALED_OVERHEAD = 24;
