import { checksumHolds, frameSequence, HEADER_BYTES, plausibleSize } from './frame.js';
import { judgeTail, SEGMENT_HEADER_BYTES } from './segment.js';
/** Small enough to stay in a core's own cache while its frames are hashed. */
const WINDOW_BYTES = 256 << 10;
const ZEROS = Buffer.alloc(WINDOW_BYTES);
const CLEAN = { state: 'clean' };
/** Frames that are searched for lie so close behind the one that is due. */
const MOST_SKIPPED = 2 ** 32;
/**
 * So many times the bytes of a segment are read for checksums in searching it. Nobody's damage asks for more than one;
 * headers that someone has laid one inside the other would ask for thousands.
 */
const MOST_CHECKED = 8;
export class ForensicReader {
    segments;
    #files;
    #options;
    #place = {
        ...{ kind: 'frame', buffer: Buffer.allocUnsafe(WINDOW_BYTES), offset: 0, size: 0 },
        ...{ segment: 0, position: 0, sequence: 0 },
    };
    /** The window holds the file's bytes [windowStart, windowStart + held). */
    #windowStart = 0;
    #held = 0;
    #fd = -1;
    /** Size of the file. */
    #limit = 0;
    /** The sequence of the event that is due. */
    #due = 1;
    #position = 0;
    /** Where the frames of the segment end. */
    #end = 0;
    /** Bytes of the segment that may yet be read for checksums in searching it. */
    #budget = 0;
    /** @param segments by name (segment-survey.ts). */
    constructor(files, segments, options) {
        this.segments = segments;
        this.#files = files;
        this.#options = options;
    }
    /** Everything that lies in the segments, in the order in which it lies there. To be called once. */
    *items() {
        const place = this.#place;
        for (const [i, segment] of this.segments.entries()) {
            const ahead = segment.firstSequence - this.#due;
            // Behind another segment they were reported at its end.
            if (ahead > 0)
                yield this.#rest('missing', i, 0, 0, ahead);
            this.#due += Math.max(0, ahead);
            this.#fd = this.#files.open(segment.path, 'r');
            try {
                this.#limit = this.#files.size(this.#fd);
                this.#windowStart = this.#held = 0;
                this.#position = this.#end = SEGMENT_HEADER_BYTES;
                this.#budget = MOST_CHECKED * this.#limit;
                const isEmpty = this.#frameSize(SEGMENT_HEADER_BYTES) === 0 &&
                    this.#lastByte(SEGMENT_HEADER_BYTES) === SEGMENT_HEADER_BYTES;
                if (isEmpty && i < this.segments.length - 1)
                    yield this.#rest('empty', i, 0, 0, 0);
                else if (ahead < 0)
                    yield this.#rest('overlap', i, 0, 0, -ahead);
                place.segment = i;
                while (this.#position < this.#limit) {
                    const size = this.#frameSize(this.#position);
                    if (size === 0) {
                        yield* this.#behindFrames(i);
                        continue;
                    }
                    if (frameSequence(place.buffer, this.#position - this.#windowStart) !== this.#due) {
                        const skipped = this.#skipped(i, size);
                        if (skipped > 0)
                            yield this.#rest('missing', i, this.#position, 0, skipped);
                        this.#due += skipped;
                    }
                    place.offset = this.#position - this.#windowStart;
                    place.size = size;
                    place.position = this.#position;
                    place.sequence = this.#due;
                    yield place;
                    this.#position += size;
                    this.#end = this.#position;
                    this.#due++;
                }
                yield* this.#gapBehind(i);
            }
            finally {
                this.#files.close(this.#fd);
            }
        }
    }
    /** Reads bytes of a segment; fewer at its end. */
    bytesAt(segment, position, bytes) {
        const fd = this.#files.open(this.segments[segment]?.path ?? '', 'r');
        try {
            const target = Buffer.alloc(Math.max(0, Math.min(bytes, this.#files.size(fd) - position)));
            return target.subarray(0, this.#files.read(fd, target, 0, target.length, position));
        }
        finally {
            this.#files.close(fd);
        }
    }
    /** All the bytes of the frame at a place where `items` reported one. */
    frameAt(segment, position) {
        const header = this.bytesAt(segment, position, HEADER_BYTES);
        return this.bytesAt(segment, position, plausibleSize(header, 0, header.length));
    }
    /** What lies where no frame does; on return the next frame is found, or the segment is at its end. */
    *#behindFrames(segment) {
        const isLast = segment === this.segments.length - 1;
        if (isLast && this.#due > this.#options.covered) {
            const start = this.#position;
            // Room made ahead, most often, which needs no judging and is much to read.
            const tail = this.#lastByte(start) === start ? CLEAN : judgeTail(this.#files, this.#fd, start, this.#due);
            if (tail.state === 'torn')
                yield this.#rest('torn', segment, start, tail.bytes.length, 0);
            if (tail.state !== 'damaged') {
                this.#position = this.#limit;
                return;
            }
            // A running collector may have written the frame since it was looked for. What was durable before the
            // witness was written can be read after the witness was seen.
            this.#held = 0;
            this.#limit = this.#files.size(this.#fd);
            if (this.#frameSize(start) > 0)
                return;
        }
        yield* this.#behindDamage(segment);
    }
    /** What lies from here to the next frame that holds, or to the end of the segment. */
    *#behindDamage(segment) {
        const start = this.#position;
        const found = this.#nextFrame(start + 1);
        if (found === undefined) {
            const end = this.#lastByte(start);
            this.#position = this.#limit;
            const count = Math.max(0, this.#firstBehind(segment) - this.#due);
            if (end > start) {
                const isSpare = count === 0 && this.#budget > 0;
                yield* this.#stretch(segment, start, end, count, isSpare ? 'spare' : 'unreadable');
            }
            return;
        }
        this.#position = found;
        this.#frameSize(found);
        const count = Math.max(0, frameSequence(this.#place.buffer, found - this.#windowStart) - this.#due);
        yield* this.#stretch(segment, start, found, count, 'unreadable');
    }
    /** The bytes from `start` to `end`, in the place of `count` events: frame by frame if their sizes lead there. */
    *#stretch(segment, start, end, count, kind) {
        const ends = this.#ends(start, end, count);
        if (ends.length === 0)
            yield this.#rest(kind, segment, start, end - start, count);
        let at = start;
        for (const next of ends) {
            yield this.#rest('damaged', segment, at, next - at, 1);
            at = next;
            this.#due++;
        }
        if (ends.length === 0)
            this.#due += count;
    }
    /** Where each of `count` damaged frames ends that take up these bytes; none when that cannot be known. */
    #ends(start, end, count) {
        const ends = [];
        let at = start;
        while (ends.length + 1 < count) {
            const header = this.#header(at);
            const size = plausibleSize(header, 0, header.length);
            if (size === 0 || at + size >= end)
                return [];
            at += size;
            ends.push(at);
        }
        return count === 0 ? [] : [...ends, end];
    }
    #header(position) {
        const header = Buffer.alloc(HEADER_BYTES);
        return header.subarray(0, this.#files.read(this.#fd, header, 0, header.length, position));
    }
    /** Events that the segment lacks at its end, by what the next one begins with. */
    *#gapBehind(segment) {
        const missing = (this.segments[segment + 1]?.firstSequence ?? 0) - this.#due;
        if (missing <= 0)
            return;
        yield this.#rest('missing', segment, this.#end, 0, missing);
        this.#due += missing;
    }
    /**
     * How many events are missing in front of the frame here, which says that it is another one than is due: none when
     * what follows does not go on from it, as then only its header says so, or it stands in the place of another one.
     */
    #skipped(segment, size) {
        const said = frameSequence(this.#place.buffer, this.#position - this.#windowStart);
        const next = this.#position + size;
        const follows = this.#frameSize(next) > 0
            ? frameSequence(this.#place.buffer, next - this.#windowStart)
            : this.#firstBehind(segment);
        // The window may have moved for looking ahead.
        this.#frameSize(this.#position);
        return follows > said ? Math.max(0, said - this.#due) : 0;
    }
    /** The event that the next segment begins with; behind the last one, the first that no checkpoint covers. */
    #firstBehind(segment) {
        return this.segments[segment + 1]?.firstSequence ?? this.#options.covered + 1;
    }
    /** The size of the frame at this position of the file if it holds, else 0; on return the window has all of it. */
    #frameSize(position) {
        const place = this.#place;
        let at = position - this.#windowStart;
        let size = at >= 0 && at < this.#held ? plausibleSize(place.buffer, at, this.#held) : 0;
        if (size === 0 || at + size > this.#held) {
            // Not in the window whole: move the window here, larger when this one frame asks for it.
            const left = this.#limit - position;
            if (left < HEADER_BYTES)
                return 0;
            for (let want = WINDOW_BYTES;; want = size) {
                if (want > place.buffer.length)
                    place.buffer = Buffer.allocUnsafe(want);
                this.#windowStart = position;
                this.#held = this.#files.read(this.#fd, place.buffer, 0, Math.min(place.buffer.length, left), position);
                size = plausibleSize(place.buffer, 0, this.#held);
                if (size <= this.#held || size > left)
                    break;
            }
            at = 0;
        }
        return size > 0 && at + size <= this.#held && checksumHolds(place.buffer, at, size) ? size : 0;
    }
    /**
     * Where the next frame begins that holds and can come next, from a position on; undefined when the segment has none,
     * or when no more of it may be searched.
     */
    #nextFrame(from) {
        const window = Buffer.allocUnsafe(WINDOW_BYTES);
        for (let start = from; start + HEADER_BYTES <= this.#limit; start += WINDOW_BYTES - HEADER_BYTES + 1) {
            const held = this.#files.read(this.#fd, window, 0, window.length, start);
            for (let at = 0; at + HEADER_BYTES <= held; at++) {
                const size = plausibleSize(window, at, held);
                if (size === 0 || start + at + size > this.#limit)
                    continue;
                const ahead = frameSequence(window, at) - this.#due;
                if (ahead < 0 || ahead > MOST_SKIPPED)
                    continue;
                this.#budget -= size;
                if (this.#budget <= 0)
                    return undefined;
                if (this.#frameSize(start + at) > 0)
                    return start + at;
            }
        }
        return undefined;
    }
    /** Where the last byte that is not zero ends, from a position on. */
    #lastByte(from) {
        const window = Buffer.allocUnsafe(WINDOW_BYTES);
        for (let end = this.#limit; end > from;) {
            const start = Math.max(from, end - WINDOW_BYTES);
            const held = this.#files.read(this.#fd, window, 0, end - start, start);
            if (window.compare(ZEROS, 0, held, 0, held) !== 0) {
                for (let at = held; at > 0; at--)
                    if (window[at - 1] !== 0)
                        return start + at;
            }
            end = start;
        }
        return from;
    }
    #rest(kind, segment, position, bytes, count) {
        return { kind, segment, position, bytes, sequence: this.#due, count };
    }
}
//# sourceMappingURL=forensic-reader.js.map