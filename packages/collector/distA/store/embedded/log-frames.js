import { checksumHolds, frameSequence, HEADER_BYTES, plausibleSize } from './frame.js';
import { judgeTail, damagedAt, encodeSegmentHeader, SEGMENT_HEADER_BYTES, } from './segment.js';
/** What is read with one call, unless a frame is larger. */
const BLOCK_BYTES = 1 << 20;
/**
 * Every frame from the first of `segments` on; what lies behind the last one is for segment.ts to judge.
 * @param segments a run of neighbours that ends with the ledger's last segment.
 * @param from a frame in the first of them; frames before it are not read.
 * @returns where the last segment's readable frames end.
 * @throws StoreDamaged at the first frame that does not hold, unless it is in the last segment.
 */
export function* readBlocks(files, segments, from) {
    const [first] = segments;
    let end = { address: 0, offset: SEGMENT_HEADER_BYTES, nextSequence: 1 };
    if (first === undefined)
        return end;
    const buffer = Buffer.allocUnsafe(BLOCK_BYTES);
    const block = { buffer, offsets: [], end: 0, address: 0, segment: first };
    for (const [i, segment] of segments.entries()) {
        const own = { address: segment.base, sequence: segment.firstSequence };
        if (i > 0 && end.nextSequence !== segment.firstSequence) {
            const reason = 'the segment does not go on where the one before it ends';
            throw damagedAt(segment.path, 0, end.nextSequence, reason);
        }
        block.segment = segment;
        end = yield* blocksOf(files, block, segments[i + 1]?.base, i === 0 ? (from ?? own) : own);
    }
    return end;
}
/** @param bound the address at which the segment ends; undefined for the last one. */
function* blocksOf(files, block, bound, start) {
    const { segment } = block;
    const fd = files.open(segment.path, 'r');
    try {
        const limit = bound === undefined ? files.size(fd) : offsetIn(segment, bound);
        let position = offsetIn(segment, start.address);
        let { sequence } = start;
        while (position < limit) {
            const left = limit - position;
            const held = files.read(fd, block.buffer, 0, Math.min(block.buffer.length, left), position);
            takeFrames(block, held, sequence);
            if (block.offsets.length > 0) {
                block.address = addressOf(segment, position);
                position += block.end;
                sequence += block.offsets.length;
                yield block;
                continue;
            }
            const size = plausibleSize(block.buffer, 0, held);
            if (size > block.buffer.length && size <= left) {
                block.buffer = Buffer.allocUnsafe(size);
                continue;
            }
            if (bound === undefined)
                break;
            throw damagedAt(segment.path, position, sequence, NOT_WRITTEN);
        }
        return { address: addressOf(segment, position), offset: position, nextSequence: sequence };
    }
    finally {
        files.close(fd);
    }
}
const NOT_WRITTEN = 'a frame does not hold what was written';
/** Fills in the frames that stand whole in the first `held` bytes and hold, up to the first that does not. */
function takeFrames(block, held, sequence) {
    const { buffer } = block;
    const offsets = [];
    let at = 0;
    for (;;) {
        const size = plausibleSize(buffer, at, held);
        if (size === 0 || at + size > held)
            break;
        if (frameSequence(buffer, at) !== sequence + offsets.length || !checksumHolds(buffer, at, size))
            break;
        offsets.push(at);
        at += size;
    }
    block.offsets = offsets;
    block.end = at;
}
/** As {@link readBlocks}, a frame at a time. */
export function* readFrames(files, segments, from) {
    const blocks = readBlocks(files, segments, from);
    const place = { buffer: Buffer.alloc(0), offset: 0, size: 0, address: 0 };
    try {
        for (;;) {
            const next = blocks.next();
            if (next.done)
                return next.value;
            const { buffer, offsets, end, address } = next.value;
            place.buffer = buffer;
            for (let i = 0; i < offsets.length; i++) {
                const offset = offsets[i] ?? end;
                place.offset = offset;
                place.size = (offsets[i + 1] ?? end) - offset;
                place.address = address + offset;
                yield place;
            }
        }
    }
    finally {
        blocks.return(NOWHERE);
    }
}
const NOWHERE = { address: 0, offset: 0, nextSequence: 0 };
/**
 * As {@link readBlocks}, and then what lies behind the last frame is judged.
 * @param glance where the first bytes behind it are zeros, the rest is not read: for a reader that comes often.
 * @throws StoreDamaged at the first frame that does not hold what was written and had been durable.
 */
export function* readToEnd(files, segments, from, glance = false) {
    let end = yield* readBlocks(files, segments, from);
    const last = segments.at(-1);
    if (last === undefined)
        return { ...end, tail: { state: 'clean' } };
    for (;;) {
        const tail = tailOf(files, last, end, glance);
        if (tail.state !== 'damaged')
            return { ...end, tail };
        // A running collector may have written the frame since it was looked for. What was durable before the
        // witness was written can be read after the witness was seen; if it still cannot, it is damaged.
        const again = yield* readBlocks(files, [last], { address: end.address, sequence: end.nextSequence });
        if (again.address === end.address)
            throw damagedAt(last.path, end.offset, end.nextSequence, NOT_WRITTEN);
        end = again;
    }
}
function tailOf(files, last, { offset, nextSequence }, glance) {
    const fd = files.open(last.path, 'r');
    try {
        if (glance && isBlank(files, fd, offset))
            return { state: 'clean' };
        return judgeTail(files, fd, offset, nextSequence);
    }
    finally {
        files.close(fd);
    }
}
/** Whether nothing was written where a frame would begin. */
export function isBlank(files, fd, offset) {
    const header = Buffer.alloc(HEADER_BYTES);
    files.read(fd, header, 0, header.length, offset);
    return header.every((byte) => byte === 0);
}
export function offsetIn({ base }, address) {
    return address - base + SEGMENT_HEADER_BYTES;
}
function addressOf({ base }, offset) {
    return offset - SEGMENT_HEADER_BYTES + base;
}
/**
 * For a copy of a segment: its header and its frames up to an address behind one of them, each checked as it is read. A
 * piece is valid until the next is asked for.
 * @param next the segment behind this one, which says where it ends; undefined for the last one.
 * @throws StoreDamaged at the first place that does not hold what was written there.
 */
export function* segmentPieces(files, segment, next, until) {
    yield headerOf(files, segment);
    let [address, sequence] = [segment.base, segment.firstSequence];
    if (address < until) {
        for (const { buffer, offsets, end } of readBlocks(files, next ? [segment, next] : [segment])) {
            const cut = [...offsets, end].findLast((offset) => offset <= until - address) ?? 0;
            yield buffer.subarray(0, cut);
            address += cut;
            sequence += cut === end ? offsets.length : offsets.indexOf(cut);
            if (address >= until || cut < end)
                break;
        }
    }
    if (address !== until)
        throw damagedAt(segment.path, offsetIn(segment, address), sequence, NOT_WRITTEN);
}
/** Read again, because what was read to list it is not what is copied. */
function headerOf(files, segment) {
    const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
    const fd = files.open(segment.path, 'r');
    try {
        files.read(fd, header, 0, header.length, 0);
    }
    finally {
        files.close(fd);
    }
    const created = Number(BigInt.asUintN(53, header.readBigUInt64LE(32)));
    if (header.equals(encodeSegmentHeader(segment, created)))
        return header;
    throw damagedAt(segment.path, 0, segment.firstSequence, 'the segment header has changed');
}
//# sourceMappingURL=log-frames.js.map