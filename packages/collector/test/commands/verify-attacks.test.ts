/** What `collector verify` says of each thing that someone could do to a log (docs/INTEGRITY.md). */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { verifyLog } from '../../src/commands/verify/verification.js';
import type { VerifyFinding } from '../../src/store/log-audit.js';
import { writeSinkStates } from '../../src/transparency/state-files.js';
import { nodeFiles } from '../../src/files.js';
import { frameReceivedAt } from '../../src/store/embedded/frame.js';
import { encodeSegmentHeader, segmentName } from '../../src/store/embedded/segment.js';
import { run, temporaryDirectory } from '../running/collector-process.js';
import { copyOf, scratch } from '../running/scratch.js';
import { idOf } from '../store/candidate.js';
import { flipBit, segmentPaths } from '../store/embedded/filled-directory.js';
import { fillSigned, firstKey, loggedEvent } from './signed-directory.js';
import {
  AT,
  changed,
  frameAt,
  framesIn,
  putFrames,
  rebuild,
  rebuildTree,
  renumbered,
  resealHeader,
  sealed,
  sign,
  tamper,
} from './tampering.js';

const EVENTS = Array.from({ length: 300 }, (_, i) => loggedEvent(`event ${i + 1}`));
const BATCHES = Array.from({ length: 30 }, (_, i) => EVENTS.slice(i * 10, i * 10 + 10));
const SEGMENT = 'ledger/0000000000000001.segment';

let signed: string;
let segmented: string;
let dataDir: string;

/** A directory that vanishes with the test. */
beforeAll(async () => {
  signed = temporaryDirectory();
  await fillSigned(signed, BATCHES, { segmentBytes: 1 << 20 });
  segmented = temporaryDirectory();
  await fillSigned(segmented, BATCHES, { segmentBytes: 20_000 });
});

afterAll(() => {
  for (const directory of [signed, segmented]) fs.rmSync(directory, { recursive: true, force: true });
});

function id(sequence: number): string {
  const event = EVENTS[sequence - 1];
  return event === undefined ? '' : idOf(event);
}

/** Where an event lies in the log as it was written. */
function at(sequence: number): { file: string; offset: number } {
  return { file: SEGMENT, offset: frameAt(signed, sequence).offset };
}

function atText(sequence: number): string {
  return `${SEGMENT}, byte ${at(sequence).offset}`;
}

/** What `collector verify` lists; that its exit code follows from it is for verify.test.ts. */
async function verified(
  directory: string,
  against: readonly string[] = [],
): Promise<readonly VerifyFinding[]> {
  const { findings } = await verifyLog({
    ...{ dataDir: directory, files: nodeFiles, against, keys: [] },
    onProgress: () => undefined,
  });
  expect(findings.intact).toBe(findings.faults === 0);
  return findings.listed;
}

/** Notes left out. */
async function faultsIn(
  directory: string,
  against: readonly string[] = [],
): Promise<readonly VerifyFinding[]> {
  return (await verified(directory, against)).filter(({ kind }) => kind !== 'note');
}

function altered(sequence: number, message: string): VerifyFinding {
  return {
    ...{ kind: 'altered', sequence, event_id: id(sequence), ...at(sequence) },
    message: `${message}; ${atText(sequence)}`,
  };
}

/** From an event on, where another one stands, nothing is what was signed. */
function otherHistory(sequence: number, stands: number | string, holds: number): VerifyFinding {
  const event_id = typeof stands === 'string' ? stands : id(stands);
  const message = expect.stringContaining(
    `from event ${sequence} on the log is not the one that was signed: entries were removed, put in, put in another ` +
      `order, or all of them altered; it holds ${holds}, and 300 were signed; the first: event ${sequence} (${event_id}) `,
  ) as string;
  return { kind: 'forked', sequence, event_id, ...at(sequence), message };
}

/** What is said of the log around the first event that is not as it was signed. */
function around(sequence: number, behind: string): string {
  const before = `the entries up to event ${sequence - 1} are proved to be those that were signed`;
  return `of what was not as signed, event ${sequence} is the first: ${before}, and ${behind}`;
}

const FITTED = '; the checksum of its frame was made to fit';
const KEPT = 'its envelope and payload are those that were signed';

describe('collector verify catches a byte that was changed', () => {
  test('[R-907] in a payload, also when the checksum was made to fit', async () => {
    dataDir = copyOf(signed);
    const { file, offset, frame } = frameAt(dataDir, 17);
    const message = `the payload of event 17 (${id(17)}), or its salt, is not the one that was signed; its envelope is`;
    flipBit(file, offset + frame.length - 5);
    expect(await faultsIn(dataDir)).toEqual([altered(17, message)]);
    flipBit(file, offset + frame.length - 5);
    expect(await faultsIn(dataDir)).toEqual([]);
    tamper(dataDir, (frames) => frames.with(16, changed(frame, frame.length - 5)));
    expect(await faultsIn(dataDir)).toEqual([altered(17, message + FITTED)]);
  });

  test('[R-907] in each field of the header of a frame, also when the checksum was made to fit', async () => {
    const fields: [field: keyof typeof AT, name: string][] = [
      ['size', 'size'],
      ['version', 'format version'],
      ['state', 'payload state'],
      ['saltLength', 'salt length'],
      ['payloadLength', 'payload length'],
      ['sequence', 'sequence'],
      ['durableBefore', 'durable-before, or that of the frame in front of it'],
      ['commitment', 'commitment'],
    ];
    // The first and the last event have no neighbour on one side to tell them by.
    for (const sequence of [1, 17, 300]) {
      for (const [field, name] of fields) {
        const message = `the frame of event ${sequence} (${id(sequence)}) has changed (${name}); ${KEPT}`;
        dataDir = copyOf(signed);
        const { file, offset } = frameAt(dataDir, sequence);
        flipBit(file, offset + AT[field]);
        expect(await faultsIn(dataDir), field).toEqual([altered(sequence, message)]);
        flipBit(file, offset + AT[field]);
        tamper(dataDir, (frames) =>
          frames.map((frame, i) => (i === sequence - 1 ? changed(frame, AT[field]) : frame)),
        );
        expect(await faultsIn(dataDir), field).toEqual([altered(sequence, message + FITTED)]);
      }
    }
  });

  test('[R-907] in the checksum itself, and in lengths that still add up', async () => {
    dataDir = copyOf(signed);
    const { file, offset } = frameAt(dataDir, 17);
    flipBit(file, offset + AT.checksum);
    const checksum = `the frame of event 17 (${id(17)}) has changed (checksum or durable-before); ${KEPT}`;
    expect(await faultsIn(dataDir)).toEqual([altered(17, checksum)]);
    flipBit(file, offset + AT.checksum);
    // The body would begin a byte later, and salt and payload are as they were.
    tamper(dataDir, (frames) => {
      const frame = frames[16] ?? Buffer.alloc(0);
      frame.writeUInt16LE(17, AT.saltLength);
      frame.writeUInt32LE(frame.readUInt32LE(AT.payloadLength) - 1, AT.payloadLength);
      sealed(frame);
      return frames;
    });
    const lengths = `the frame of event 17 (${id(17)}) has changed (salt length, payload length); ${KEPT}`;
    expect(await faultsIn(dataDir)).toEqual([altered(17, lengths + FITTED)]);
  });

  test('[R-907] in every byte of an envelope, also when the checksum was made to fit', async () => {
    const { frame } = frameAt(signed, 17);
    const { organisation, keyId } = EVENTS[16] ?? { organisation: '', keyId: '' };
    const bytes = 45 + organisation.length + keyId.length;
    for (let i = 0; i < bytes; i++) {
      dataDir = copyOf(signed);
      const { file, offset } = frameAt(dataDir, 17);
      flipBit(file, offset + AT.envelope + i);
      for (const fitted of ['', FITTED]) {
        const [fault, ...others] = await faultsIn(dataDir);
        expect(others).toEqual([]);
        expect(fault).toMatchObject({ kind: 'altered', sequence: 17, ...at(17) });
        // The lengths of its texts say where the salt begins.
        const lengths = i === 3 || i === 4;
        const what = lengths ? 'more than one of ' : 'its envelope has changed, or its payload together';
        expect(fault?.message).toMatch(
          /^event 17 \([0-9a-f-]{36}\) (is not the one that was signed|cannot be read): /,
        );
        if (!fault?.message.includes('cannot be read')) expect(fault?.message).toContain(what);
        expect(fault?.message.includes(FITTED)).toBe(fitted !== '');
        tamper(dataDir, (frames) => {
          frame.copy(frames[16] ?? Buffer.alloc(0));
          flip(frames[16], AT.envelope + i);
          return frames;
        });
      }
    }
    const message =
      `event 17 (${id(17)}) is not the one that was signed: its envelope has changed, or its payload together with ` +
      'the commitment to it';
    expect(await faultsIn(dataDir)).toEqual([altered(17, message + FITTED)]);
  });

  test('[R-907] in a payload, with the commitment made to fit', async () => {
    dataDir = copyOf(signed);
    const other = loggedEvent('something else', { eventId: id(17) });
    tamper(dataDir, (frames) => {
      const frame = frames[16] ?? Buffer.alloc(0);
      const salted = frame.subarray(frame.length - other.salted.length);
      expect(salted.length).toBeLessThan(frame.length);
      Buffer.from(other.commitment).copy(frame, AT.commitment);
      const head = Buffer.from(frame.subarray(0, frame.length - (EVENTS[16]?.salted.length ?? 0)));
      head.writeUInt32LE(head.length + other.salted.length, AT.size);
      head.writeUInt32LE(other.body.length, AT.payloadLength);
      return frames.with(16, sealed(Buffer.concat([head, other.salted])));
    });
    const message =
      `event 17 (${id(17)}) is not the one that was signed: its envelope has changed, or its payload together with ` +
      'the commitment to it';
    expect(await faultsIn(dataDir)).toEqual([altered(17, message + FITTED)]);
  });

  test('[R-907] in a hash of the tree, at the two levels that 300 events have, and says that the log is true', async () => {
    dataDir = copyOf(signed);
    const levels: [level: number, index: number, tile: string, of: string, sequence: number][] = [
      [0, 16, 'tile 0', 'event 17 comes', 17],
      [0, 299, 'tile 1', 'event 300 comes', 300],
      [1, 0, 'tile 0', 'events 1 to 256 come', 1],
    ];
    for (const [level, index, tile, of, sequence] of levels) {
      const file = `tree/level-${level}`;
      flipBit(path.join(dataDir, file), index * 32 + 5);
      const message =
        `hash ${index} of level ${level} (${tile}, in ${file} at byte ${index * 32}) is not what ${of} to: the tree ` +
        'was changed, and not the log';
      const fault = { kind: 'tile_altered', sequence, file, offset: index * 32, message };
      expect(await faultsIn(dataDir)).toEqual([fault]);
      flipBit(path.join(dataDir, file), index * 32 + 5);
    }
    fs.truncateSync(path.join(dataDir, 'tree/level-0'), 9000);
    const message = 'tree/level-0 is cut short: it lacks the hashes from number 281 on';
    const fault = { kind: 'tile_altered', file: 'tree/level-0', offset: 281 * 32, message };
    expect(await faultsIn(dataDir)).toEqual([fault]);
  });

  test('[R-907] in a log without its tree, which anybody may remove', async () => {
    dataDir = copyOf(signed);
    const tree = path.join(dataDir, 'tree');
    fs.rmSync(tree, { recursive: true });
    const notes = async () => (await verified(dataDir)).filter(({ kind }) => kind === 'note');
    const note = { kind: 'note', file: 'tree', message: 'tree/ is not there; the next start rebuilds it' };
    expect([await faultsIn(dataDir), await notes()]).toEqual([[], [note]]);
    fs.mkdirSync(tree);
    expect([await faultsIn(dataDir), await notes()]).toEqual([[], [note]]);
    // One that is there is to hold what it should.
    fs.writeFileSync(path.join(tree, 'level-0'), '');
    expect(await faultsIn(dataDir)).toMatchObject([{ kind: 'tile_altered' }, { kind: 'tile_altered' }]);
    fs.rmSync(path.join(tree, 'level-0'));
    const { file, offset, frame } = frameAt(dataDir, 17);
    flipBit(file, offset + frame.length - 5);
    const payload = `the payload of event 17 (${id(17)}), whose hash the tree lacks, does not fit the commitment to it`;
    expect(await faultsIn(dataDir)).toMatchObject([
      { kind: 'unreadable', file: 'checkpoints/latest' },
      altered(17, payload),
    ]);
    tamper(dataDir, (frames) => frames.with(16, sealed(frames[16] ?? Buffer.alloc(0))));
    const fitted = `the payload of event 17 (${id(17)}), or its salt, is not the one that was signed; its envelope is`;
    expect(await faultsIn(dataDir)).toEqual([altered(17, fitted + FITTED)]);
    tamper(dataDir, (frames) => frames.with(16, changed(frames[16] ?? Buffer.alloc(0), AT.envelope + 12)));
    expect(await notes()).toMatchObject([
      {
        message:
          'tree/ is not there; with it more could be told of which events are not those that were signed',
      },
      {
        message:
          'of what was not as signed, event 17 is the first: no entry before it is proved to be the one that was ' +
          'signed, and nothing proves those from event 18 on',
      },
    ]);
  });

  test('[R-907] in a hash of the third level', async () => {
    dataDir = scratch();
    const batch = (_: unknown, i: number) =>
      Array.from({ length: 1024 }, (__, k) => loggedEvent(`${i} ${k}`));
    await fillSigned(dataDir, Array.from({ length: 65 }, batch), { segmentBytes: 64 << 20 });
    expect(await faultsIn(dataDir)).toEqual([]);
    flipBit(path.join(dataDir, 'tree/level-2'), 31);
    const message =
      'hash 0 of level 2 (tile 0, in tree/level-2 at byte 0) is not what events 1 to 65536 come to: the tree was ' +
      'changed, and not the log';
    const fault = { kind: 'tile_altered', sequence: 1, file: 'tree/level-2', offset: 0, message };
    expect(await faultsIn(dataDir)).toEqual([fault]);
  });

  test('[R-907] in the header of a segment, also when the checksum was made to fit', async () => {
    const [, second = ''] = segmentPaths(segmented).map((file) => path.basename(file));
    const header = `the header of ledger/${second}`;
    const fields: [at: number, fitted: string | undefined][] = [
      [0, 'does not begin as one'],
      [12, 'names another format version'],
      [16, undefined],
      [24, undefined],
      [40, 'is that of another ledger'],
      [60, "says that 68719476736 of the entries in front of it are the log's own, and 0 are"],
    ];
    for (const [at, fitted] of fields) {
      dataDir = copyOf(segmented);
      const file = path.join(dataDir, 'ledger', second);
      flipBit(file, at);
      const [fault, ...others] = await faultsIn(dataDir);
      expect([fault?.kind, others]).toEqual(['altered', []]);
      expect(fault?.message).toContain('does not have its checksum'.slice(at < 12 ? 99 : 0));
      resealHeader(file);
      const message = fitted === undefined ? undefined : `${header} ${fitted}`;
      const [sealedFault, ...more] = await faultsIn(dataDir);
      expect([sealedFault?.kind, more]).toEqual(['altered', []]);
      if (message !== undefined) expect(sealedFault?.message).toBe(message);
      if (at === 24)
        expect(sealedFault?.message).toMatch(/^the header of \S+ says that it is \d{16}\.segment$/);
      if (at === 16) {
        expect(sealedFault?.message).toMatch(
          /^the header of \S+ says that \d+ bytes of events are in front of it, and \d+ are$/,
        );
      }
    }
  });
});

describe('[R-907] no byte of a log can be changed unseen', () => {
  let segment: string;
  let frames: Buffer[];

  beforeEach(async () => {
    dataDir = scratch();
    await fillSigned(dataDir, [EVENTS.slice(0, 2), EVENTS.slice(2, 3)], { segmentBytes: 64 << 10 });
    [segment = ''] = segmentPaths(dataDir);
    frames = framesIn(segment);
  });

  /** Each of so many bytes of a file in turn. */
  async function expectSeen(file: string, bytes: number): Promise<void> {
    const before = fs.readFileSync(file);
    const fd = fs.openSync(file, 'r+');
    for (let at = 0; at < bytes; at++) {
      fs.writeSync(fd, Buffer.of((before[at] ?? 0) ^ (1 << (at % 8))), 0, 1, at);
      expect((await faultsIn(dataDir)).length, `byte ${at} of ${file}`).toBeGreaterThan(0);
      fs.writeSync(fd, before, at, 1, at);
    }
    fs.closeSync(fd);
    expect(await faultsIn(dataDir)).toEqual([]);
  }

  test('in a segment', async () => {
    await expectSeen(
      segment,
      frames.reduce((sum, { length }) => sum + length, 64),
    );
  });

  test('in the tree and in what was signed', async () => {
    await expectSeen(path.join(dataDir, 'tree/level-0'), 96);
    for (const name of fs.readdirSync(path.join(dataDir, 'checkpoints'))) {
      const file = path.join(dataDir, 'checkpoints', name);
      // What ends the line of the key can be any white space.
      await expectSeen(file, fs.statSync(file).size - (name === 'origin.vkey' ? 1 : 0));
    }
  });

  test('in the header of a segment with a checksum that fits, but for when it was made and, of a lone one, its ledger id', async () => {
    for (let at = 12; at < 64; at++) {
      flipBit(segment, at);
      resealHeader(segment);
      expect((await faultsIn(dataDir)).length > 0, `byte ${at}`).toBe(at < 32 || at >= 56);
      flipBit(segment, at);
      resealHeader(segment);
    }
    expect(await faultsIn(dataDir)).toEqual([]);
  });

  test.each([0, 1, 2])('in frame %i with a checksum that fits', async (i) => {
    const frame = frames[i] ?? Buffer.alloc(0);
    expect(frame.length).toBeGreaterThan(100);
    for (let at = 4; at < frame.length; at++) {
      tamper(dataDir, () => frames.with(i, changed(Buffer.from(frame), at)));
      expect((await faultsIn(dataDir)).length, `byte ${at} of frame ${i}`).toBeGreaterThan(0);
    }
    tamper(dataDir, () => frames);
    expect(await faultsIn(dataDir)).toEqual([]);
  });
});

describe('collector verify catches an event', () => {
  test('[R-907] that was removed from the middle, as it is or with all others numbered again', async () => {
    dataDir = copyOf(signed);
    tamper(dataDir, (frames) => frames.toSpliced(16, 1));
    expect(await faultsIn(dataDir)).toEqual([
      {
        kind: 'missing',
        sequence: 17,
        ...at(17),
        message: `event 17 is missing: event 16 is followed by event 18; ${atText(17)}`,
      },
    ]);
    dataDir = copyOf(signed);
    tamper(dataDir, (frames) => renumbered(frames.toSpliced(16, 3)));
    expect(await faultsIn(dataDir)).toEqual([otherHistory(17, 20, 297)]);
    expect((await verified(dataDir)).filter(({ kind }) => kind === 'note')).toMatchObject([
      { message: around(17, 'none behind it agrees again') },
    ]);
  });

  test('[R-907] that was removed from the middle, with the tree rebuilt', async () => {
    dataDir = copyOf(signed);
    tamper(dataDir, (frames) => renumbered(frames.toSpliced(16, 1)));
    rebuildTree(dataDir);
    const message =
      'checkpoints/latest was signed over 300 entries, and the log holds 299: 1 entry is missing from its end or, if ' +
      'the others were numbered again, from anywhere; or this is an older copy of it';
    expect(await faultsIn(dataDir)).toEqual([{ kind: 'missing', sequence: 300, message }]);
  });

  test('[R-907] that was removed and made up for by another one at the end, with the tree rebuilt', async () => {
    dataDir = copyOf(signed);
    tamper(dataDir, (frames) => renumbered([...frames.toSpliced(16, 1), Buffer.from(frames[0] ?? [])]));
    rebuildTree(dataDir);
    const message =
      'the log is not the one that checkpoints/latest was signed over, of 300 entries: it was rebuilt or forked ' +
      'somewhere in events 1 to 300; no smaller checkpoint was found that agrees';
    expect(await faultsIn(dataDir)).toEqual([
      { kind: 'forked', sequence: 1, file: 'checkpoints/latest', message },
    ]);
  });

  test('[R-907] that was removed from the end, against the newest checkpoint and against one from elsewhere', async () => {
    dataDir = copyOf(signed);
    tamper(dataDir, (frames) => frames.slice(0, 290));
    const message =
      'events 291 to 300 are missing from the end of the log, or this is an older copy of it: checkpoints/latest was ' +
      'signed over 300 entries';
    expect(await faultsIn(dataDir)).toEqual([{ kind: 'missing', sequence: 291, message }]);

    // With the tree and the checkpoints of back then, nothing in the directory tells.
    const older = scratch();
    await fillSigned(older, BATCHES.slice(0, 20), { segmentBytes: 1 << 20 });
    const outside = path.join(scratch(), 'newest.txt');
    const newer = copyOf(older);
    await fillSigned(newer, BATCHES.slice(20), { segmentBytes: 1 << 20 });
    fs.copyFileSync(path.join(newer, 'checkpoints/latest'), outside);
    expect(await faultsIn(older)).toEqual([]);
    const gone =
      `${outside} was signed over 300 entries, and the log holds 200: 100 entries are missing from its end or, if the ` +
      'others were numbered again, from anywhere behind event 200; or this is an older copy of it';
    expect(await faultsIn(older, [outside])).toEqual([{ kind: 'missing', sequence: 201, message: gone }]);
    expect(await faultsIn(newer, [outside])).toEqual([]);
  });

  test('[R-907] that changed places with another, as they are or numbered again', async () => {
    for (const number of [(frames: Buffer[]) => frames, renumbered]) {
      for (const [one, other] of [
        [17, 18],
        [17, 200],
        [299, 300],
      ] as const) {
        dataDir = copyOf(signed);
        const places = [frameAt(dataDir, one), frameAt(dataDir, other)];
        tamper(dataDir, (frames) =>
          number(
            frames
              .with(one - 1, places[1]?.frame ?? Buffer.alloc(0))
              .with(other - 1, places[0]?.frame ?? Buffer.alloc(0)),
          ),
        );
        const faults = await faultsIn(dataDir);
        const kind = other === 300 ? 'forked' : 'altered';
        const first = { kind, sequence: one, event_id: id(other), ...at(one) };
        const { offset } = frameAt(dataDir, other);
        const second = { kind, sequence: other, event_id: id(one), file: SEGMENT, offset };
        expect(faults).toMatchObject(other === 200 ? [first, second] : [first]);
        expect(faults[0]?.message).toContain(`event ${one} (${id(other)}) is not the one that was signed: `);
        if (other === 18) expect(faults[0]?.message).toMatch(/; event 18 is not as signed either$/);
      }
    }
  });

  test('[R-907] that was slipped in, as it is or with all others numbered again', async () => {
    const stranger = '00000000-0000-4000-8000-000000000000';
    for (const number of [(frames: Buffer[]) => frames, renumbered]) {
      dataDir = copyOf(signed);
      tamper(dataDir, (frames) => {
        const made = Buffer.from(frames[16] ?? []);
        Buffer.from(stranger.replaceAll('-', ''), 'hex').copy(made, AT.envelope + 13);
        return number(frames.toSpliced(16, 0, sealed(made)));
      });
      expect(await faultsIn(dataDir)).toEqual([otherHistory(17, stranger, 301)]);
    }
  });

  test('[R-907] that cannot be read, and reads on behind it', async () => {
    dataDir = copyOf(signed);
    const { file, offset } = frameAt(dataDir, 17);
    const { offset: end } = frameAt(dataDir, 20);
    const bytes = fs.readFileSync(file);
    bytes.fill(0xff, offset, end);
    fs.writeFileSync(file, bytes);
    flipBit(file, frameAt(signed, 250).offset + 200);
    const unreadable = `events 17 to 19 cannot be read: the ${end - offset} bytes in their place hold no frame; ${atText(17)}`;
    const payload = `the payload of event 250 (${id(250)}), or its salt, is not the one that was signed; its envelope is`;
    expect(await faultsIn(dataDir)).toEqual([
      { kind: 'unreadable', sequence: 17, ...at(17), message: unreadable },
      altered(250, payload),
    ]);
    expect((await verified(dataDir)).at(-1)?.message).toBe(around(17, 'those from event 251 on are again'));
  });

  test('[R-907] that cannot be read and whose hash is changed too, and says what can no longer be told', async () => {
    dataDir = copyOf(signed);
    const { file, offset, frame } = frameAt(dataDir, 17);
    flipBit(file, offset + frame.length - 5);
    flipBit(path.join(dataDir, 'tree/level-0'), 16 * 32);
    const altered17 =
      `event 17 (${id(17)}) is not the one that the tree holds: more than one of its envelope, its payload and the ` +
      'commitment to it has changed';
    const message =
      'checkpoints/latest: its root over 300 entries does not come out, and with events that cannot be read no one can ' +
      'tell whether the others are those that were signed; in question: events 1 to 300';
    expect(await faultsIn(dataDir)).toEqual([
      { kind: 'unreadable', sequence: 1, file: 'checkpoints/latest', message },
      altered(17, altered17),
    ]);
  });

  test('[R-907] in each of many, tells neighbours together, and lists the first hundred', async () => {
    dataDir = copyOf(signed);
    tamper(dataDir, (frames) => frames.map((frame) => changed(frame, frame.length - 5)));
    const payload = `the payload of event 1 (${id(1)}), or its salt, is not the one that was signed; its envelope is`;
    const [all] = await faultsIn(dataDir);
    expect(all?.message).toBe(`${payload}${FITTED}; ${atText(1)}; events 2 to 300 are not as signed either`);
    dataDir = copyOf(signed);
    tamper(dataDir, (frames) =>
      frames.map((frame, i) => (i % 2 === 0 ? changed(frame, frame.length - 5) : frame)),
    );
    const { code, stdout } = await run(['verify', '--json', '--data-dir', dataDir]);
    const { findings, findings_not_listed } = JSON.parse(stdout) as Record<string, unknown> & {
      findings: VerifyFinding[];
    };
    const faults = findings.filter(({ kind }) => kind !== 'note');
    expect([code, faults.length, findings_not_listed]).toEqual([3, 100, 50]);
    const { stdout: text } = await run(['verify', '--data-dir', dataDir]);
    expect(text).toMatch(/^NOT INTACT: 150 findings\n/);
    expect(text).toContain('\nand 50 more that are not listed\n');
  });
});

describe('collector verify catches a segment', () => {
  test('[R-907] that is missing, wherever it was', async () => {
    const names = segmentPaths(segmented).map((file) => path.basename(file));
    expect(names.length).toBeGreaterThan(3);
    const firsts = [...names.map((name) => Number.parseInt(name, 10)), 301];
    for (const [i, name] of names.entries()) {
      dataDir = copyOf(segmented);
      fs.rmSync(path.join(dataDir, 'ledger', name));
      const [first = 0, next = 0] = firsts.slice(i);
      const range = `events ${first} to ${next - 1} are missing`;
      const faults = await faultsIn(dataDir);
      expect(faults).toHaveLength(1);
      expect(faults[0]).toMatchObject({ kind: 'missing', sequence: first });
      expect(faults[0]?.message).toMatch(
        i === 0
          ? `${range}: the log begins with event ${next}; ledger/${names[1] ?? ''}, byte 0`
          : i === names.length - 1
            ? `${range} from the end of the log, or this is an older copy of it: checkpoints/latest was signed over 300 entries`
            : `${range}: event ${first - 1} is followed by event ${next}; ledger/${names[i - 1] ?? ''}, byte `,
      );
    }
  });

  test('[R-907] that has the name of another, was emptied, cut short, or is of another log', async () => {
    const [, second = '', third = ''] = segmentPaths(segmented).map((file) => path.basename(file));
    const [first, next] = [second, third].map((name) => Number.parseInt(name, 10)) as [number, number];
    const other = scratch();
    await fillSigned(other, BATCHES, { segmentBytes: 20_000 });
    const header = (name: string, fault: string): VerifyFinding => {
      const file = `ledger/${name}`;
      return { kind: 'altered', file, message: `the header of ${file} ${fault}` };
    };
    const place = { file: `ledger/${second}`, offset: 64 };
    const deeds: [(file: (name: string) => string) => void, VerifyFinding[]][] = [
      [
        (file) => {
          fs.renameSync(file(second), file('spare'));
          fs.renameSync(file(third), file(second));
          fs.renameSync(file('spare'), file(third));
        },
        [header(third, `says that it is ${second}`), header(second, `says that it is ${third}`)],
      ],
      [
        (file) => fs.truncateSync(file(second)),
        [
          header(second, 'is cut short'),
          {
            ...{ kind: 'forked', sequence: first, file: `ledger/${second}` },
            message: `ledger/${second} holds no event, and others follow it: it was slipped in, or emptied`,
          },
          {
            ...{ kind: 'missing', sequence: first, ...place },
            message:
              `events ${first} to ${next - 1} are missing: event ${first - 1} is followed by event ${next}; ` +
              `${place.file}, byte 64`,
          },
        ],
      ],
      [
        (file) => fs.truncateSync(file(second), 64 + 3),
        [
          {
            ...{ kind: 'unreadable', sequence: first, ...place },
            message:
              `events ${first} to ${next - 1} cannot be read: the 3 bytes in their place hold no frame; ` +
              `${place.file}, byte 64`,
          },
        ],
      ],
      [
        (file) => fs.copyFileSync(path.join(other, 'ledger', second), file(second)),
        [header(second, 'is that of another ledger')],
      ],
    ];
    for (const [deed, faults] of deeds) {
      dataDir = copyOf(segmented);
      deed((name) => path.join(dataDir, 'ledger', name));
      expect(await faultsIn(dataDir)).toEqual(faults);
    }
  });

  test('[R-907] whose last events were taken out', async () => {
    dataDir = copyOf(segmented);
    const [, second = '', third = ''] = segmentPaths(dataDir);
    const next = Number.parseInt(path.basename(third), 10);
    putFrames(second, framesIn(second).slice(0, -2));
    const faults = await faultsIn(dataDir);
    expect(faults).toMatchObject([
      {
        ...{ kind: 'missing', sequence: next - 2 },
        message: expect.stringContaining(
          `events ${next - 2} to ${next - 1} are missing: event ${next - 3} is followed by event ${next}; ledger/`,
        ) as string,
      },
    ]);
  });
});

describe('collector verify catches another history', () => {
  const outside = (name = 'kept.checkpoint') => path.join(scratch(), name);

  test('[R-907] the whole log rebuilt and signed with the true key, which only a checkpoint from elsewhere shows', async () => {
    dataDir = copyOf(signed);
    const kept = outside();
    fs.copyFileSync(path.join(dataDir, 'checkpoints/latest'), kept);
    await fillSigned(dataDir, [[loggedEvent('one more')]], { segmentBytes: 1 << 20 });
    tamper(dataDir, (frames) => frames.with(16, changed(frames[16] ?? Buffer.alloc(0), AT.envelope + 12)));
    await rebuild(dataDir);
    expect(await faultsIn(dataDir)).toEqual([]);
    const message =
      `this log and ${kept} part in events 1 to 300; no smaller checkpoint was found that agrees; both are signed by ` +
      'keys of this log (this log in checkpoints/latest, of 301 entries): it was restored from an old copy, or rebuilt';
    expect(await faultsIn(dataDir, [kept])).toEqual([{ kind: 'forked', sequence: 1, file: kept, message }]);
  });

  test('[R-907] a fork: two checkpoints of one size, both signed by the key of the log', async () => {
    dataDir = copyOf(signed);
    const kept = outside();
    fs.writeFileSync(kept, await sign(dataDir, 300, Buffer.alloc(32, 7)));
    const faults = await faultsIn(dataDir, [kept]);
    expect(faults).toEqual([
      {
        ...{ kind: 'forked', file: kept },
        message:
          `checkpoints/latest and ${kept} are both signed by a key of this log, over 300 entries each, and have ` +
          'different roots: proof that the log was forked',
      },
    ]);
  });

  test('[R-907] a back-up that was restored and went on', async () => {
    const backup = scratch();
    await fillSigned(backup, BATCHES.slice(0, 20), { segmentBytes: 1 << 20 });
    const worm = scratch();
    const sink = (directory: string, size: number) => {
      const name = `${String(size).padStart(16, '0')}.checkpoint`;
      fs.copyFileSync(path.join(directory, 'checkpoints/latest'), path.join(worm, name));
      return path.join(worm, name);
    };
    sink(backup, 200);
    const lost = copyOf(backup);
    await fillSigned(lost, BATCHES.slice(20), { segmentBytes: 1 << 20 });
    const kept = sink(lost, 300);
    await fillSigned(backup, [Array.from({ length: 150 }, (_, i) => loggedEvent(`after it ${i}`))], {
      segmentBytes: 1 << 20,
    });
    expect(await faultsIn(backup)).toEqual([]);
    const message =
      `this log and ${kept} agree up to event 200 (checkpoints/0000000000000200.checkpoint) and part in events 201 to ` +
      '300; both are signed by keys of this log (this log in checkpoints/latest, of 350 entries): it was restored from ' +
      'an old copy, or rebuilt';
    expect(await faultsIn(backup, [worm])).toEqual([{ kind: 'forked', sequence: 201, file: kept, message }]);
  });

  test('[R-907] a back-up that was restored and took fewer events than are lost: all that are lost are counted', async () => {
    const backup = scratch();
    await fillSigned(backup, BATCHES.slice(0, 20), { segmentBytes: 1 << 20 });
    const worm = scratch();
    const lost = copyOf(backup);
    const signed = [[], EVENTS.slice(200, 201), EVENTS.slice(201, 202), EVENTS.slice(202, 210)];
    for (const batch of signed) {
      if (batch.length > 0) await fillSigned(lost, [batch], { segmentBytes: 1 << 20 });
      const size = framesIn(path.join(lost, SEGMENT)).length;
      fs.copyFileSync(
        path.join(lost, 'checkpoints/latest'),
        path.join(worm, `${String(size).padStart(16, '0')}.checkpoint`),
      );
    }
    const missing = async (more: number) => {
      await fillSigned(
        backup,
        Array.from({ length: more }, (_, i) => [loggedEvent(`other ${i}`)]),
        {
          segmentBytes: 1 << 20,
        },
      );
      const faults = await faultsIn(backup, [worm]);
      return faults
        .filter(({ kind }) => kind === 'missing')
        .map(({ sequence, message }) => ({ sequence, message }));
    };
    const kept = `${worm}/${'210'.padStart(16, '0')}.checkpoint`;
    const message = (of: string) =>
      `${kept} was signed over 210 entries, and this log, of ${of}, has others in their place: events 201 to 210 of it are missing`;
    expect(await missing(1)).toEqual([{ sequence: 201, message: message('201 entries') }]);
    fs.rmSync(path.join(worm, `${'201'.padStart(16, '0')}.checkpoint`));
    expect(await missing(2)).toEqual([
      { sequence: 201, message: `${message('203 entries')}, save those before event 202 that both have` },
    ]);
  });

  test('[R-907] the log rebuilt without the key, between the last checkpoint that agrees and the first that does not', async () => {
    dataDir = scratch();
    await fillSigned(dataDir, BATCHES.slice(0, 10), { segmentBytes: 1 << 20 });
    await fillSigned(dataDir, BATCHES.slice(10, 20), { segmentBytes: 1 << 20 });
    await fillSigned(dataDir, BATCHES.slice(20), { segmentBytes: 1 << 20 });
    tamper(dataDir, (frames) => frames.with(150, changed(frames[150] ?? Buffer.alloc(0), AT.envelope + 12)));
    rebuildTree(dataDir);
    const message =
      'the log is not the one that checkpoints/0000000000000200.checkpoint was signed over, of 200 entries: it was ' +
      'rebuilt or forked somewhere in events 101 to 200; up to event 100 it agrees with ' +
      'checkpoints/0000000000000100.checkpoint';
    expect(await faultsIn(dataDir)).toEqual([
      { kind: 'forked', sequence: 101, file: 'checkpoints/0000000000000200.checkpoint', message },
    ]);
  });
});

describe('collector verify never accepts a checkpoint', () => {
  const invalid = (file: string, reason: string): VerifyFinding => ({
    ...{ kind: 'checkpoint_invalid', file },
    message: `${file} is not a checkpoint of this log: ${reason}`,
  });

  test('[R-907] that another key has signed, or that is of another log', async () => {
    dataDir = copyOf(signed);
    const [same, other] = [scratch(), scratch()];
    await fillSigned(same, BATCHES, { segmentBytes: 1 << 20 });
    await fillSigned(other, BATCHES, { origin: 'log.example/another', segmentBytes: 1 << 20 });
    const latest = path.join(dataDir, 'checkpoints/latest');
    fs.copyFileSync(path.join(same, 'checkpoints/latest'), latest);
    expect(await faultsIn(dataDir)).toEqual([
      invalid('checkpoints/latest', 'none of the known keys has signed the note'),
    ]);
    fs.copyFileSync(path.join(other, 'checkpoints/latest'), latest);
    expect(await faultsIn(dataDir)).toEqual([
      invalid('checkpoints/latest', 'it is of the log log.example/another'),
    ]);
    fs.copyFileSync(path.join(signed, 'checkpoints/latest'), latest);
    const kept = path.join(other, 'checkpoints/latest');
    expect(await faultsIn(dataDir, [kept])).toEqual([invalid(kept, 'it is of the log log.example/another')]);
  });

  test('[R-907] whose text was changed after it was signed, or that has another name than its size', async () => {
    dataDir = copyOf(signed);
    const latest = path.join(dataDir, 'checkpoints/latest');
    const note = fs.readFileSync(latest, 'utf8');
    fs.writeFileSync(latest, note.replace('\n300\n', '\n299\n'));
    const faults = await faultsIn(dataDir);
    expect(faults).toHaveLength(1);
    expect(faults[0]?.message).toMatch(
      /^checkpoints\/latest is not a checkpoint of this log: a signature in the note is not by the key [0-9a-f]{8} that it names$/,
    );
    fs.writeFileSync(latest, note);
    const renamed = 'checkpoints/0000000000000250.checkpoint';
    fs.renameSync(path.join(dataDir, 'checkpoints/0000000000000300.checkpoint'), path.join(dataDir, renamed));
    expect(await faultsIn(dataDir)).toEqual([
      invalid(renamed, 'it speaks of 300 entries, and its name of 250'),
    ]);
  });

  test('[R-907] that was cut short, at any byte, in the directory or from elsewhere', async () => {
    dataDir = copyOf(signed);
    const latest = path.join(dataDir, 'checkpoints/latest');
    const note = fs.readFileSync(latest);
    const kept = path.join(scratch(), 'kept');
    for (let bytes = 0; bytes < note.length; bytes++) {
      fs.writeFileSync(latest, note.subarray(0, bytes));
      expect(await faultsIn(dataDir), `${bytes} bytes`).toMatchObject([
        { kind: 'checkpoint_invalid', file: 'checkpoints/latest' },
      ]);
      fs.writeFileSync(kept, note.subarray(0, bytes));
      fs.writeFileSync(latest, note);
      expect(await faultsIn(dataDir, [kept]), `${bytes} bytes`).toMatchObject([
        { kind: 'checkpoint_invalid', file: kept },
      ]);
    }
    fs.writeFileSync(latest, note.subarray(0, 100));
    expect(await faultsIn(dataDir)).toEqual([
      invalid('checkpoints/latest', 'the note does not end with a newline'),
    ]);
  });

  test('[R-907] that is not there, nor events without one, nor a chain of keys with a piece missing', async () => {
    dataDir = copyOf(signed);
    fs.rmSync(path.join(dataDir, 'checkpoints/latest'));
    const missing = 'checkpoints/latest is missing, although the log holds 300 entries';
    expect(await faultsIn(dataDir)).toEqual([
      { kind: 'checkpoint_missing', file: 'checkpoints/latest', message: missing },
    ]);
    fs.rmSync(path.join(dataDir, 'checkpoints'), { recursive: true });
    expect(await faultsIn(dataDir)).toEqual([
      { kind: 'checkpoint_missing', file: 'checkpoints/latest', message: missing },
    ]);
    dataDir = copyOf(signed);
    fs.rmSync(path.join(dataDir, 'checkpoints/origin.vkey'));
    const faults = await faultsIn(dataDir);
    expect(faults).toMatchObject([
      {
        kind: 'checkpoint_missing',
        message:
          'checkpoints/origin.vkey is missing, the verifier key that the log began with: put it back, or give it by --key',
      },
      { kind: 'checkpoint_invalid', message: '3 checkpoints cannot be checked: there is no key of the log' },
    ]);
  });
});

/** The frame with `text` behind its envelope, in the place of salt and payload; its checksum does not fit. */
function saltless(frame: Buffer, text = ''): Buffer {
  const end = AT.envelope + 61 + (frame[AT.envelope + 3] ?? 0) + (frame[AT.envelope + 4] ?? 0);
  const cut = Buffer.concat([frame.subarray(0, end), Buffer.from(text)]);
  cut.writeUInt32LE(cut.length, AT.size);
  cut.writeUInt16LE(0, AT.saltLength);
  cut.writeUInt32LE(text.length, AT.payloadLength);
  return cut;
}

function putSegment(
  directory: string,
  { first, base = 0 }: { first: number; base?: number },
  frames: readonly Buffer[] = [],
): string {
  const ledgerId = fs.readFileSync(path.join(directory, SEGMENT)).toString('hex', 40, 56);
  const header = encodeSegmentHeader({ base, firstSequence: first, ledgerId, ownBefore: 0 }, 1);
  const file = `ledger/${segmentName(first)}`;
  fs.writeFileSync(path.join(directory, file), Buffer.concat([header, ...frames]));
  return file;
}

function messages(findings: readonly VerifyFinding[]): string[] {
  return findings.map(({ kind, message }) => `${kind}: ${message}`);
}

describe('collector verify does not take for intact', () => {
  test('[R-907] an event whose salt and payload are gone, or replaced by something short, whatever the checksum', async () => {
    const message = `the payload of event 17 (${id(17)}) was removed or replaced: the frame has no room for a salt`;
    for (const text of ['', '{"a":"forged"}']) {
      dataDir = copyOf(signed);
      tamper(dataDir, (frames) => frames.map((frame, i) => (i === 16 ? saltless(frame, text) : frame)));
      expect(await faultsIn(dataDir)).toEqual([altered(17, message)]);
      dataDir = copyOf(signed);
      tamper(dataDir, (frames) =>
        frames.map((frame, i) => (i === 16 ? sealed(saltless(frame, text)) : frame)),
      );
      expect(await faultsIn(dataDir)).toEqual([altered(17, message + FITTED)]);
      // Without the tree nothing tells the leaf.
      fs.rmSync(path.join(dataDir, 'tree'), { recursive: true });
      expect(messages(await faultsIn(dataDir))).toEqual([`altered: ${message}${FITTED}; ${atText(17)}`]);
    }
    dataDir = copyOf(signed);
    tamper(dataDir, (frames) => {
      const forged = saltless(frames[16] ?? Buffer.alloc(0), '{"a":"forged"}');
      forged.write('evilorg', AT.envelope + 45, 'latin1');
      return frames.with(16, sealed(forged));
    });
    expect(await faultsIn(dataDir)).toEqual([altered(17, message + FITTED)]);
  });

  test('[R-907] segments whose numbers skip some', async () => {
    dataDir = copyOf(segmented);
    const [, second = '', ...behind] = segmentPaths(dataDir);
    const last = Number.parseInt(path.basename(behind[0] ?? ''), 10) - 1;
    for (const segment of behind.toReversed()) {
      const header = fs.readFileSync(segment);
      const first = Number(header.readBigUInt64LE(24)) + 50;
      const frames = renumbered(framesIn(segment), first);
      fs.rmSync(segment);
      putSegment(dataDir, { first, base: Number(header.readBigUInt64LE(16)) }, frames);
    }
    const end = framesIn(second).reduce((sum, { length }) => sum + length, 64);
    expect(messages(await faultsIn(dataDir))).toEqual([
      `missing: events ${last + 1} to ${last + 50} are missing: event ${last} is followed by event ${last + 51}; ` +
        `ledger/${path.basename(second)}, byte ${end}`,
      expect.stringMatching(`^forked: from event ${last + 51} on the log is not the one that was signed: `),
    ]);
  });

  test('[R-907] a segment that stands where another one does, or holds nothing', async () => {
    dataDir = copyOf(signed);
    const overlaps = (first: number) =>
      `forked: ledger/${segmentName(first)} begins at event ${first}, and the segment in front of it ends with ` +
      'event 300: one of them was slipped in, or numbered again';
    putSegment(dataDir, { first: 0 });
    expect(messages(await faultsIn(dataDir))).toEqual([
      `forked: ledger/${segmentName(0)} holds no event, and others follow it: it was slipped in, or emptied`,
    ]);
    fs.rmSync(path.join(dataDir, 'ledger', segmentName(0)));
    expect(await faultsIn(dataDir)).toEqual([]);
    const frames = framesIn(path.join(dataDir, SEGMENT));
    const base = frames.reduce((sum, { length }) => sum + length, 0);
    putSegment(dataDir, { first: 100, base });
    expect(messages(await faultsIn(dataDir))).toEqual([overlaps(100)]);
    fs.rmSync(path.join(dataDir, 'ledger', segmentName(100)));
    putSegment(dataDir, { first: 200, base }, renumbered(frames.slice(0, 20), 200));
    expect(messages(await faultsIn(dataDir))).toEqual([
      overlaps(200),
      expect.stringMatching(/^altered: the frame of event 301 .* has changed \(sequence/),
    ]);
    dataDir = copyOf(segmented);
    const [first = ''] = segmentPaths(dataDir);
    putSegment(dataDir, { first: 50, base: framesIn(first).reduce((sum, { length }) => sum + length, 0) });
    expect(messages(await faultsIn(dataDir))).toEqual([
      `forked: ledger/${segmentName(50)} holds no event, and others follow it: it was slipped in, or emptied`,
    ]);
  });

  test('[R-907] a fork that the owner of the key has signed, with the leaves of before put back into the tree', async () => {
    dataDir = copyOf(signed);
    const held = path.join(scratch(), 'held');
    fs.copyFileSync(path.join(dataDir, 'checkpoints/latest'), held);
    const level = path.join(dataDir, 'tree/level-0');
    const before = fs.readFileSync(level);
    tamper(dataDir, (frames) => renumbered(frames.filter((_, i) => i !== 16)));
    await rebuild(dataDir);
    fs.rmSync(path.join(dataDir, 'index'), { recursive: true, force: true });
    const parted = (size: number) =>
      `forked: this log and ${held} part in events 1 to ${Math.min(size, 300)}; no smaller checkpoint was found that agrees; ` +
      `both are signed by keys of this log (this log in checkpoints/latest, of ${size} entries): it was restored from an ` +
      'old copy, or rebuilt';
    const rebuilt = fs.readFileSync(level);
    // Not grown on: it lacks an event at its end.
    fs.writeFileSync(level, before);
    expect(messages(await faultsIn(dataDir, [held]))).toEqual([
      expect.stringMatching(/^tile_altered: hashes 16 to 298 of level 0 /),
      `missing: ${held} was signed over 300 entries, and the log holds 299: 1 entry is missing from its end or, if the ` +
        'others were numbered again, from anywhere behind event 299; or this is an older copy of it',
    ]);
    fs.writeFileSync(level, rebuilt);
    await fillSigned(dataDir, [Array.from({ length: 10 }, (_, i) => loggedEvent(`more ${i}`))], {
      segmentBytes: 1 << 20,
    });
    expect(messages(await faultsIn(dataDir, [held]))).toEqual([parted(309)]);
    const now = fs.readFileSync(level);
    fs.writeFileSync(level, Buffer.concat([before, now.subarray(300 * 32)]));
    expect(messages(await faultsIn(dataDir, [held]))).toContain(parted(309));
  });
});

describe('collector verify tells of events that no checkpoint speaks of', () => {
  function rolledBack(directory: string): void {
    const checkpoints = path.join(directory, 'checkpoints');
    fs.rmSync(path.join(checkpoints, '0000000000000300.checkpoint'));
    fs.copyFileSync(path.join(checkpoints, '0000000000000000.checkpoint'), path.join(checkpoints, 'latest'));
  }

  test('[R-907] as far as it is signed, of how many and since when', async () => {
    dataDir = copyOf(signed);
    rolledBack(dataDir);
    const received = frameReceivedAt(frameAt(dataDir, 1).frame, 0);
    expect(messages(await verified(dataDir))).toEqual([
      `note: 300 entries, from number 1 on, are under no checkpoint yet; the oldest was received at ${new Date(received).toISOString()}`,
    ]);
    const { code, stdout } = await run(['verify', '--data-dir', dataDir]);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^INTACT as far as it is signed: /)]);
  });

  test('[R-907] as a fault when nothing was signed for an hour', async () => {
    dataDir = scratch();
    const oldest = Date.parse('2026-03-01T10:00:00Z');
    const batch = (receivedAt: number) => [loggedEvent('event', { receivedAt })];
    await fillSigned(dataDir, [batch(oldest), batch(oldest + 3_600_000)]);
    fs.renameSync(
      path.join(dataDir, 'checkpoints/0000000000000002.checkpoint'),
      path.join(dataDir, 'checkpoints/0000000000000300.checkpoint'),
    );
    rolledBack(dataDir);
    expect(await faultsIn(dataDir)).toEqual([]);
    await fillSigned(dataDir, [batch(oldest + 3_600_001)]);
    fs.renameSync(
      path.join(dataDir, 'checkpoints/0000000000000003.checkpoint'),
      path.join(dataDir, 'checkpoints/0000000000000300.checkpoint'),
    );
    for (const name of fs.readdirSync(path.join(dataDir, 'checkpoints'))) {
      if (/^0{15}[1-9]/.test(name)) fs.rmSync(path.join(dataDir, 'checkpoints', name));
    }
    rolledBack(dataDir);
    expect(messages(await faultsIn(dataDir))).toEqual([
      'checkpoint_missing: 3 entries, from number 1 on, are under no checkpoint yet; the oldest was received at ' +
        '2026-03-01T10:00:00.000Z, more than an hour before the newest: nothing was signed for so long, or newer ' +
        'checkpoints were removed',
    ]);
  });

  test('[R-907] as a fault when a sink took a checkpoint over more', async () => {
    dataDir = copyOf(signed);
    const state = (size: number) => [
      { sink: 'dir:/mnt/worm', state: 'ok' as const, size, at: '2026-03-01T10:00:00.000Z' },
    ];
    writeSinkStates(dataDir, state(300));
    expect(await verified(dataDir)).toEqual([]);
    writeSinkStates(dataDir, state(301));
    expect(messages(await faultsIn(dataDir))).toEqual([
      'checkpoint_missing: checkpoints over more entries than 300 were given out (sinks.json says 301)',
    ]);
  });
});

describe('collector verify comes to an end', () => {
  const pipe = (file: string) => execFileSync('mkfifo', [file]);

  test('[R-907] where a pipe has the name of a file', async () => {
    dataDir = copyOf(signed);
    pipe(path.join(dataDir, 'ledger', segmentName(301)));
    expect(messages(await faultsIn(dataDir))).toEqual([
      `unreadable: ledger/${segmentName(301)} is no regular file, and was not opened`,
    ]);
    dataDir = copyOf(signed);
    const against = scratch();
    fs.copyFileSync(path.join(dataDir, 'checkpoints/latest'), path.join(against, 'held'));
    pipe(path.join(against, 'pipe'));
    fs.symlinkSync('nowhere', path.join(against, 'link'));
    expect(messages(await verified(dataDir, [against]))).toEqual([
      `note: ${against}/link is no regular file and was passed over`,
      `note: ${against}/pipe is no regular file and was passed over`,
    ]);
    expect(
      await run(['verify', '--data-dir', dataDir, '--against', path.join(against, 'pipe')]),
    ).toMatchObject({
      code: 6,
      stderr: `collector: ${against}/pipe is no regular file: nothing was compared\n`,
    });
    pipe(path.join(dataDir, 'checkpoints/cosigned-00000000'));
    expect(await run(['verify', '--data-dir', dataDir])).toMatchObject({
      code: 1,
      stderr: `collector: ${dataDir}/checkpoints/cosigned-00000000 is no regular file, and was not opened\n`,
    });
  });

  test('[R-907] where headers of frames were laid one inside the other', async () => {
    dataDir = copyOf(signed);
    const nested = Buffer.alloc(4 << 20, 1);
    const step = 109;
    for (let at = 0; at + step <= nested.length; at += step) {
      const header = nested.subarray(at, at + step).fill(0);
      header.writeUInt32LE(nested.length - at, AT.size);
      header[AT.version] = 2;
      header.writeUInt32LE(nested.length - at - step, AT.payloadLength);
      header.writeUInt32LE(2, AT.sequence);
      header.writeUInt32LE(2, AT.durableBefore);
    }
    fs.truncateSync(path.join(dataDir, SEGMENT), 64);
    fs.appendFileSync(path.join(dataDir, SEGMENT), nested);
    const once = (await processorTime(() => Array.from({ length: 20 }, () => crc32(nested)))) / 20;
    let faults: readonly VerifyFinding[] = [];
    const used = await processorTime(async () => (faults = await faultsIn(dataDir)));
    expect(messages(faults)).toEqual([
      `unreadable: events 1 to 300 cannot be read: the ${nested.length} bytes in their place hold no frame; ${SEGMENT}, byte 64`,
    ]);
    // One checksum over each of the headers would take some 20,000 times as much as one over all.
    expect(used / once).toBeLessThan(2_000);
  });

  test('[R-907] where a large file that was given holds no note', async () => {
    const held = path.join(scratch(), 'held');
    const used = async (repeats: number) => {
      fs.writeFileSync(held, 'no note\n\n'.repeat(repeats));
      return processorTime(async () => {
        expect(await faultsIn(signed, [held])).toMatchObject([{ kind: 'checkpoint_invalid', file: held }]);
      });
    };
    await used(1 << 18);
    // Four times as much for four times as much, and not sixteen times.
    expect((await used(4 << 20)) / (await used(1 << 20))).toBeLessThan(10);
  });
});

/** In microseconds, of this process. */
async function processorTime(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  return process.cpuUsage(before).user;
}

test('[R-907] keys of other logs are passed over when one of those that were given is of this one', async () => {
  const other = scratch();
  await fillSigned(other, [[loggedEvent('event')]], { origin: 'log.example/ward-8' });
  const { findings } = await verifyLog({
    ...{ dataDir: signed, files: nodeFiles, against: [], keys: [firstKey(other), firstKey(signed)] },
    onProgress: () => undefined,
  });
  expect(findings.intact).toBe(true);
  expect(messages(findings.listed)).toEqual([
    "note: --key: the key of the log log.example/ward-8 is none of this log's, and was not used",
  ]);
});

function flip(bytes: Buffer | undefined, at: number): void {
  if (bytes === undefined) return;
  bytes[at] = (bytes[at] ?? 0) ^ 0x10;
  sealed(bytes);
}
