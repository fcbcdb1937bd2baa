/** The files of `collector import`: their lines, what became of each, rejects. */
import fs from 'node:fs';
import { EVENT_KINDS } from '@clinical-events/protocol';
import { isBlank, LineInput, STANDARD_INPUT } from '../importing/lines.js';
import { readLine } from '../importing/offered-line.js';
import { RejectFile, RejectsExist, RejectsUnsafe } from '../importing/reject-file.js';
import { fixTimestamps, Zone } from '../importing/timestamp-fix.js';
import { organisationFrom, wordFrom } from './arguments.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import { ProgressBar } from './terminal.js';
/** Fewer are read before anybody wonders. */
const BAR_FROM_MEBIBYTES = 32;
const UNREADABLE = /\.(gz|zst|br)$/i;
export class LineFiles {
    tallies;
    /** How many lines were refused, by code. */
    refused = new Map();
    rejects;
    #rules;
    #zone;
    #bar;
    /** Undefined when no one can know. */
    #totalBytes;
    /**
     * On return the reject file is made, which `close` has to be called for.
     * @throws CommandFailure when a file is not there or is none, or when an option cannot be meant.
     */
    constructor(files, { kind, organisation, rejects, fix, json }) {
        this.#rules = {
            kind: kind === undefined ? undefined : wordFrom('--kind', kind, EVENT_KINDS),
            organisation: organisation === undefined ? undefined : organisationFrom(organisation),
        };
        this.#zone = fix === undefined ? undefined : zoneFrom(fix);
        this.#totalBytes = bytesOf(files);
        this.tallies = files.map((file) => ({
            ...{ file, lines: 0, empty: 0, passed: 0, fixed: 0, refused: 0, bytes: null, sha256: null },
        }));
        this.#bar = new ProgressBar({
            ...{ wanted: json !== true && process.stderr.isTTY, unit: 'MiB', per: 1 << 20 },
            ...{ from: BAR_FROM_MEBIBYTES, rate: true },
        });
        this.rejects = rejects === undefined ? undefined : openRejects(rejects);
    }
    /** All lines of all files that are not blank, as many at a time as have come; ends early when `stop` is aborted. */
    async *read(stop) {
        let before = 0;
        for (const tally of this.tallies) {
            const input = new LineInput(tally.file);
            for await (const lines of input.lines(stop)) {
                yield lines.flatMap((line) => this.#read(line, tally) ?? []);
                if (this.#totalBytes !== undefined)
                    this.#bar.show(before + input.bytes, this.#totalBytes);
            }
            if (stop?.aborted === true)
                return;
            before += input.bytes;
            Object.assign(tally, { bytes: input.bytes, sha256: input.sha256 });
        }
    }
    passed({ tally, fixed }) {
        tally.passed++;
        if (fixed)
            tally.fixed++;
    }
    /** On return the reject file, if there is one, has the line. */
    refuse({ tally, number, bytes }, fault, outcome = 'rejected') {
        tally.refused++;
        this.refused.set(fault.code, (this.refused.get(fault.code) ?? 0) + 1);
        this.rejects?.write(tally.file, { ...fault, outcome, line: number, bytes });
    }
    sum(count) {
        return this.tallies.reduce((total, tally) => total + tally[count], 0);
    }
    /** A few lines for a person. @param passed what is true of the others, such as "stored". */
    asText(passed) {
        const [lines, events, fixed, refused] = ['lines', 'passed', 'fixed', 'refused'].map((count) => this.sum(count));
        const read = `${counted(lines, 'line')} of ${counted(this.tallies.length, 'file')} read`;
        const text = [`${read}: ${counted(events, 'event')} ${passed}, ${spelt(refused) || 'none'} refused.`];
        if (fixed > 0)
            text.push(`Timestamps fixed in ${counted(fixed, 'event')}.`);
        if (refused > 0) {
            const byCode = [...this.refused].map(([code, count]) => `${spelt(count)} ${code}`).join(', ');
            const where = this.rejects === undefined
                ? 'name a file by --rejects for all of them.'
                : `see ${this.rejects.path}. It holds patient data: delete it when it is dealt with.`;
            text.push(`Refused: ${byCode}; ${where}`);
        }
        return text.map((line) => `${line}\n`).join('');
    }
    /** For scripts; the names are a promise. @param passed the name for what is true of the others. */
    asJson(passed, more) {
        const told = {
            ...{ ...more, lines: this.sum('lines'), empty: this.sum('empty'), [passed]: this.sum('passed') },
            ...{ fixed: this.sum('fixed'), refused: this.sum('refused') },
            refused_by_code: Object.fromEntries(this.refused),
            rejects: this.rejects !== undefined && this.rejects.lines > 0 ? this.rejects.path : null,
            files: this.tallies.map(({ file, lines, passed: count, refused, bytes, sha256 }) => ({
                ...{ file, lines, [passed]: count, refused, bytes, sha256 },
            })),
        };
        return `${JSON.stringify(told, undefined, 2)}\n`;
    }
    /** On return the rejects are on stable storage, or their file is gone if it is empty. */
    close() {
        this.#bar.clear();
        this.rejects?.close();
    }
    #read(line, tally) {
        const { bytes, number, length, offset } = line;
        tally.lines = number;
        if (bytes === undefined) {
            // Not held, and so not in the reject file: where it stands instead.
            const offered = { code: 'body_too_large', details: { bytes: length, offset } };
            return { ...line, tally, offered, fixed: false };
        }
        if (isBlank(bytes)) {
            tally.empty++;
            return undefined;
        }
        const offered = readLine(bytes, this.#rules);
        if (this.#zone === undefined || 'code' in offered)
            return { ...line, tally, offered, fixed: false };
        const fixed = fixTimestamps(offered.body.toString(), offered.kind, this.#zone);
        if (fixed === undefined)
            return { ...line, tally, offered, fixed: false };
        return { ...line, tally, offered: { ...offered, body: Buffer.from(fixed) }, fixed: true };
    }
}
/** 1,234: such numbers are long, and no one counts digits. Empty for none. */
function spelt(number) {
    return number === 0 ? '' : number.toLocaleString('en-US');
}
function counted(number, thing) {
    return `${spelt(number) || '0'} ${thing}${number === 1 ? '' : 's'}`;
}
function zoneFrom(text) {
    const zone = /^timestamps=(.+)$/.exec(text)?.[1];
    if (zone === undefined)
        throw usage(`--fix: ${JSON.stringify(text)} is not timestamps=ZONE`);
    try {
        return new Zone(zone);
    }
    catch (error) {
        if (!(error instanceof RangeError))
            throw error;
        throw usage(`--fix: ${JSON.stringify(zone)} is neither an offset such as +01:00 nor a zone such as Europe/Berlin`);
    }
}
/**
 * How much there is to read; undefined when no one can know.
 * @throws CommandFailure when a file is not there or is none, before anything is done.
 */
function bytesOf(files) {
    if (files.filter((file) => file === STANDARD_INPUT).length > 1) {
        throw usage('- stands for standard input, which can be read only once');
    }
    let bytes = 0;
    for (const file of files) {
        const found = file === STANDARD_INPUT ? undefined : checkedFile(file);
        bytes = bytes !== undefined && found?.isFile() === true ? bytes + found.size : undefined;
    }
    return bytes;
}
function checkedFile(file) {
    const found = fs.statSync(file, { throwIfNoEntry: false });
    if (found === undefined)
        throw new CommandFailure(`there is no file ${file}`, EXIT.notFound);
    if (found.isDirectory())
        throw usage(`${file} is a directory`);
    if (UNREADABLE.test(file))
        throw usage(`${file} is compressed: decompress it into -`);
    fs.accessSync(file, fs.constants.R_OK);
    return found;
}
function openRejects(file) {
    try {
        return RejectFile.open(file);
    }
    catch (error) {
        if (error instanceof RejectsUnsafe)
            throw usage(`${error.message}. Name another by --rejects`);
        if (!(error instanceof RejectsExist))
            throw error;
        throw usage(`${error.message}: it may hold what an earlier run refused. Move it, or name another by --rejects`);
    }
}
//# sourceMappingURL=line-files.js.map