/**
 * A log in a database, laid out as segments for the audit that a log in files has, with what is wrong with it. No
 * collector reads these segments:
 *
 *   a row that its leaf does not commit to   a frame whose checksum does not hold
 *   a row that is not there                  no frame: the next one says its own sequence
 *   the end                                  an empty segment, so that what lacks in front of it is missing, and not torn
 *
 * Payloads that are encrypted stay so. Their keys are found by the places that collectors have counted, and not by the
 * sequence: {@link placeOf} has them.
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
/** Places are kept by chunks of so many sequences. */
const CHUNK = 65_536;
const NO_ID = Buffer.alloc(16);
const NO_SALT = Buffer.alloc(SALT_BYTES);
/** Stands for an envelope that cannot be read. */
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
  /** In the file, of it and of what is staged. */
  #position = 0;
  #address = 0;
  #own = 0;
  /** The newest action that can be read. */
  #newestAction = NO_ACTION;
  #due = 1;
  #wasWhole = true;
  readonly #places = new Map<number, Uint32Array>();

  /** @param directory the data directory in which `ledger/` is made. */
  constructor(
    private readonly directory: string,
    private readonly ledgerId: string,
  ) {
    nodeFiles.makeDirectory(this.#ledger);
    this.#begin(1);
  }

  /** @param row with a higher sequence than the one before. */
  add(row: EvidenceRow): void {
    const { sequence, fits } = row;
    // What is damaged beside a gap would be taken for several entries.
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

  /** @param entries how many the log says that it has. On return all of it can be read. */
  end(entries: number): void {
    if (this.#due > 1 || entries > 0) this.#begin(Math.max(this.#due, entries + 1));
    this.#close();
  }

  /** By which the key of an encrypted payload is found; 0 where there is none. */
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
  // As FrameSealer writes it: in front of the sealed salt stands what says by which key it is opened.
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
