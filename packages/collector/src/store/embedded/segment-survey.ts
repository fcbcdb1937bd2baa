/**
 * What segments there are, for a reader that goes on where the collector would refuse: a header that does not hold is
 * told of, and the segment is read all the same, from the sequence that its name says.
 *
 * The hole: when a segment was created is nobody's evidence, and can be changed with the checksum.
 */
import path from 'node:path';
import { crc32 } from 'node:zlib';
import type { Files } from './files.js';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, segmentName } from './segment.js';

export interface SurveyedSegment {
  readonly path: string;
  readonly name: string;
  /** As its name says. */
  readonly firstSequence: number;
  /** Address of its first frame, as its header says; undefined when the header cannot be believed. */
  readonly base: number | undefined;
  /** What is wrong with its header, in words that go on from `the header of …`. */
  readonly faults: readonly string[];
}

const NAME = /^\d{16}\.segment$/;
/** Shows what is the same in every header. */
const SAMPLE = encodeSegmentHeader({ base: 0, firstSequence: 1, ledgerId: '00'.repeat(16) }, 0);

/**
 * The segments in a directory, by name; none when the directory is not there.
 * @param ledgerId of the ledger; undefined when nothing tells it: then it is the one that most of them have.
 */
export function surveySegments(
  files: Files,
  directory: string,
  ledgerId: string | undefined,
): SurveyedSegment[] {
  const found = listed(files, directory)
    .filter((name) => NAME.test(name))
    .map((name) => ({ name, header: headerOf(files, path.join(directory, name)) }));
  const common = ledgerId ?? mostCommon(found.map(({ header }) => idIn(header)));
  return found.map(({ name, header }) => {
    const firstSequence = Number.parseInt(name, 10);
    const faults = faultsOf(header, firstSequence, common);
    const base = faults.length === 0 ? Number(header.readBigUInt64LE(16)) : undefined;
    return { path: path.join(directory, name), name, firstSequence, base, faults };
  });
}

function listed(files: Files, directory: string): string[] {
  try {
    return files.list(directory);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
}

function headerOf(files: Files, file: string): Buffer {
  const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
  const fd = files.open(file, 'r');
  try {
    return header.subarray(0, files.read(fd, header, 0, header.length, 0));
  } finally {
    files.close(fd);
  }
}

function idIn(header: Buffer): string {
  return header.toString('hex', 40, 56);
}

function mostCommon(texts: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  const most = Math.max(...counts.values());
  return texts.find((text) => counts.get(text) === most);
}

function faultsOf(header: Buffer, firstSequence: number, ledgerId: string | undefined): string[] {
  if (header.length < SEGMENT_HEADER_BYTES) return ['is cut short'];
  const faults: string[] = [];
  const asInAll = (start: number, end: number) =>
    header.subarray(start, end).equals(SAMPLE.subarray(start, end));
  if (!asInAll(0, 8)) faults.push('does not begin as one');
  if (crc32(header.subarray(12)) !== header.readUInt32LE(8)) faults.push('does not have its checksum');
  if (!asInAll(12, 16)) faults.push('names another format version');
  const named = Number(header.readBigUInt64LE(24));
  if (named !== firstSequence) faults.push(`says that it is ${segmentName(named)}`);
  if (idIn(header) !== ledgerId) faults.push('is that of another ledger');
  if (!asInAll(56, 64)) faults.push('does not end with zeros');
  return faults;
}
