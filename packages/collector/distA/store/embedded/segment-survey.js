/**
 * What segments there are, for a reader that goes on where the collector would refuse: a header that does not hold is
 * reported, and the segment is read all the same.
 *
 * The hole: when a segment was created is no evidence, and can be changed with the checksum.
 */
import fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { systemCode } from '../../system-code.js';
import { frameSequence, HEADER_BYTES, plausibleSize } from './frame.js';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, segmentName } from './segment.js';
const NAME = /^\d{16}\.segment$/;
/** Shows what is the same in every header. */
const SAMPLE = encodeSegmentHeader({ base: 0, firstSequence: 1, ledgerId: '00'.repeat(16), ownBefore: 0 }, 0);
/**
 * The segments in a directory, in their order; none when the directory is not there.
 * @param ledgerId of the ledger; undefined when nothing says it: then it is the one that most of them have.
 * @param irregular is called with what has the name of a segment and is no file, like a pipe, on which a reader would
 *   wait.
 */
export function surveySegments(files, directory, ledgerId, irregular = () => undefined) {
    const found = listed(files, directory)
        .filter((name) => NAME.test(name))
        .filter((name) => {
        const isFile = fs.statSync(path.join(directory, name), { throwIfNoEntry: false })?.isFile() ?? false;
        if (!isFile)
            irregular(name);
        return isFile;
    })
        .map((name) => ({ name, ...beginningOf(files, path.join(directory, name)) }));
    const common = ledgerId ?? mostCommon(found.map(({ header }) => idIn(header)));
    const surveyed = found.map(({ name, header, begins }) => {
        const named = Number.parseInt(name, 10);
        const faults = faultsOf(header, named, common);
        const base = faults.length === 0 ? Number(header.readBigUInt64LE(16)) : undefined;
        const ownBefore = faults.length === 0 ? Number(header.readBigUInt64LE(56)) : undefined;
        // The one of two files that have changed names is read in the place of the other.
        const firstSequence = begins !== undefined && begins === firstIn(header) ? begins : named;
        return { path: path.join(directory, name), name, firstSequence, base, ownBefore, faults };
    });
    return surveyed.sort((a, b) => a.firstSequence - b.firstSequence);
}
function listed(files, directory) {
    try {
        return files.list(directory);
    }
    catch (error) {
        if (systemCode(error) === 'ENOENT')
            return [];
        throw error;
    }
}
/** The header of a segment, and the sequence that its first frame says, if there is one. */
function beginningOf(files, file) {
    const bytes = Buffer.alloc(SEGMENT_HEADER_BYTES + HEADER_BYTES);
    const fd = files.open(file, 'r');
    try {
        const held = files.read(fd, bytes, 0, bytes.length, 0);
        return {
            header: bytes.subarray(0, Math.min(held, SEGMENT_HEADER_BYTES)),
            begins: plausibleSize(bytes, SEGMENT_HEADER_BYTES, held) > 0
                ? frameSequence(bytes, SEGMENT_HEADER_BYTES)
                : undefined,
        };
    }
    finally {
        files.close(fd);
    }
}
function firstIn(header) {
    return header.length < SEGMENT_HEADER_BYTES ? undefined : Number(header.readBigUInt64LE(24));
}
function idIn(header) {
    return header.toString('hex', 40, 56);
}
function mostCommon(texts) {
    const counts = new Map();
    for (const text of texts)
        counts.set(text, (counts.get(text) ?? 0) + 1);
    const most = Math.max(...counts.values());
    return texts.find((text) => counts.get(text) === most);
}
function faultsOf(header, named, ledgerId) {
    if (header.length < SEGMENT_HEADER_BYTES)
        return ['is cut short'];
    const faults = [];
    const asInAll = (start, end) => header.subarray(start, end).equals(SAMPLE.subarray(start, end));
    if (!asInAll(0, 8))
        faults.push('does not begin as one');
    if (crc32(header.subarray(12)) !== header.readUInt32LE(8))
        faults.push('does not have its checksum');
    if (!asInAll(12, 16))
        faults.push('names another format version');
    const first = firstIn(header) ?? 0;
    if (first !== named)
        faults.push(`says that it is ${segmentName(first)}`);
    if (idIn(header) !== ledgerId)
        faults.push('is that of another ledger');
    return faults;
}
//# sourceMappingURL=segment-survey.js.map