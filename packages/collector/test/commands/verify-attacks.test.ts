/**
 * What `collector verify` finds of each thing that someone could do to a log (docs/INTEGRITY.md): kinds and places
 * here; its sentences are in verify-sentences.txt.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { verifyLog } from '../../src/commands/verify/verification.js';
import type { VerifyFinding } from '../../src/store/findings.js';
import { writeSinkStates } from '../../src/tree/state-files.js';
import { nodeFiles } from '../../src/files.js';
import { frameReceivedAt, NO_ACTION } from '../../src/store/embedded/frame.js';
import { encodeSegmentHeader, SEGMENT_HEADER_BYTES, segmentName } from '../../src/store/embedded/segment.js';
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
  rootOf,
  sealed,
  sign,
  tamper,
} from './tampering.js';

const EVENTS = Array.from({ length: 300 }, (_, i) => loggedEvent(`event ${i + 1}`));
const BATCHES = Array.from({ length: 30 }, (_, i) => EVENTS.slice(i * 10, i * 10 + 10));
const SEGMENT = 'ledger/0000000000000001.segment';
const LATEST = 'checkpoints/latest';
const ONE_SEGMENT = { segmentBytes: 1 << 20 };
const EMPTY = Buffer.alloc(0);

let signed: string;
let segmented: string;
let dataDir: string;

beforeAll(async () => {
  signed = temporaryDirectory();
  await fillSigned(signed, BATCHES, ONE_SEGMENT);
  segmented = temporaryDirectory();
  await fillSigned(segmented, BATCHES, { segmentBytes: 20_000 });
});

afterAll(() => {
  for (const directory of [signed, segmented]) fs.rmSync(directory, { recursive: true, force: true });
});

type Found = { readonly [Name in keyof Omit<VerifyFinding, 'message'>]: VerifyFinding[Name] | undefined };

function id(sequence: number): string {
  const event = EVENTS[sequence - 1];
  return event === undefined ? '' : idOf(event);
}

/** Where an event lies in the log as it was written. */
function at(sequence: number): { file: string; offset: number } {
  return { file: SEGMENT, offset: frameAt(signed, sequence).offset };
}

/** verify.test.ts shows that the exit code of `collector verify` follows from what it lists. */
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

/** The findings except notes, without their sentences. */
function withoutNotes(findings: readonly VerifyFinding[]): readonly Found[] {
  return findings
    .filter(({ kind }) => kind !== 'note')
    .map(({ kind, sequence, event_id, file, offset }) => ({ kind, sequence, event_id, file, offset }));
}

async function faultsIn(directory: string, against: readonly string[] = []): Promise<readonly Found[]> {
  return withoutNotes(await verified(directory, against));
}

async function notesIn(directory: string, against: readonly string[] = []): Promise<readonly string[]> {
  return (await verified(directory, against)).flatMap(({ kind, message }) =>
    kind === 'note' ? [message] : [],
  );
}

/** An event in whose place another one may stand. */
function altered(sequence: number, stands = id(sequence)): Found {
  return { kind: 'altered', sequence, event_id: stands, ...at(sequence) };
}

/** From an event on, where another one stands, the log is not the one that was signed. */
function forkedFrom(sequence: number, stands: string): Found {
  return { kind: 'forked', sequence, event_id: stands, ...at(sequence) };
}

const invalid = (file: string): Found => ({ kind: 'checkpoint_invalid', file });

/** Of the second and third segment. */
function segmentsOf(directory: string) {
  const [first = '', second = '', third = '', ...more] = segmentPaths(directory).map((file) =>
    path.basename(file),
  );
  const firstOf = (name: string) => Number.parseInt(name, 10);
  return { names: [first, second, third, ...more], second, third, from: firstOf(second), to: firstOf(third) };
}

/** @returns what came from elsewhere, for --against. */
type Act = (dataDir: string) => unknown;
type Deed = readonly [name: string, act: Act, finds: (given: string) => readonly Found[], to?: 'segments'];

/** A negative place counts from the end of the frame. */
const flipped =
  (sequence: number, place: number): Act =>
  (directory) => {
    const { file, offset, frame } = frameAt(directory, sequence);
    flipBit(file, offset + (place < 0 ? frame.length + place : place));
  };

const fitted =
  (sequence: number, place: number): Act =>
  (directory) =>
    tamper(directory, (frames) => {
      const frame = frames[sequence - 1] ?? EMPTY;
      return frames.with(sequence - 1, changed(frame, place < 0 ? frame.length + place : place));
    });

const tampered =
  (change: (frames: Buffer[]) => readonly Buffer[], isRebuilt = false): Act =>
  (directory) => {
    tamper(directory, change);
    if (isRebuilt) rebuildTree(directory);
  };

const swapped = (one: number, other: number) => (frames: Buffer[]) =>
  frames.with(one - 1, frames[other - 1] ?? EMPTY).with(other - 1, frames[one - 1] ?? EMPTY);

const STRANGER = '00000000-0000-4000-8000-000000000000';
function slippedIn(frames: Buffer[]): Buffer[] {
  const made = Buffer.from(frames[16] ?? []);
  Buffer.from(STRANGER.replaceAll('-', ''), 'hex').copy(made, AT.envelope + 14);
  return frames.toSpliced(16, 0, sealed(made));
}

/** The body would begin a byte later, and salt and payload are as they were. */
function movedLengths(frames: Buffer[]): Buffer[] {
  const frame = frames[16] ?? EMPTY;
  frame.writeUInt16LE(17, AT.saltLength);
  frame.writeUInt32LE(frame.readUInt32LE(AT.payloadLength) - 1, AT.payloadLength);
  sealed(frame);
  return frames;
}

function otherPayload(frames: Buffer[]): Buffer[] {
  const other = loggedEvent('something else', { eventId: id(17) });
  const frame = frames[16] ?? EMPTY;
  const head = Buffer.from(frame.subarray(0, frame.length - (EVENTS[16]?.salted.length ?? 0)));
  Buffer.from(other.commitment).copy(head, AT.commitment);
  head.writeUInt32LE(head.length + other.salted.length, AT.size);
  head.writeUInt32LE(other.body.length, AT.payloadLength);
  return frames.with(16, sealed(Buffer.concat([head, other.salted])));
}

/** The frame with `text` after its envelope, in the place of salt and payload; its checksum does not fit. */
function saltless(frame: Buffer, text = ''): Buffer {
  const end = AT.envelope + 62 + (frame[AT.envelope + 4] ?? 0) + (frame[AT.envelope + 5] ?? 0);
  const cut = Buffer.concat([frame.subarray(0, end), Buffer.from(text)]);
  cut.writeUInt32LE(cut.length, AT.size);
  cut.writeUInt16LE(0, AT.saltLength);
  cut.writeUInt32LE(text.length, AT.payloadLength);
  return cut;
}

function unreadable(directory: string): void {
  const { file, offset } = frameAt(directory, 17);
  const bytes = fs.readFileSync(file);
  bytes.fill(0xff, offset, frameAt(directory, 20).offset);
  fs.writeFileSync(file, bytes);
  flipBit(file, frameAt(signed, 250).offset + 200);
}

function putSegment(
  directory: string,
  { first, base = 0 }: { first: number; base?: number },
  frames: readonly Buffer[] = [],
): void {
  const ledgerId = fs.readFileSync(path.join(directory, SEGMENT)).toString('hex', 40, 56);
  const header = encodeSegmentHeader(
    { base, firstSequence: first, ledgerId, ownBefore: 0, actionBefore: NO_ACTION },
    1,
  );
  fs.writeFileSync(path.join(directory, 'ledger', segmentName(first)), Buffer.concat([header, ...frames]));
}

const FIELDS = Object.entries(AT).filter(([field]) => field !== 'checksum' && field !== 'envelope');
const sizeOf = (frames: readonly Buffer[]) => frames.reduce((sum, { length }) => sum + length, 0);
const note = (directory: string, name = LATEST) => path.join(directory, name);
/** A place outside of the directory. */
const outside = (name = 'kept') => path.join(scratch(), name);
const hash = (level: number, index: number, sequence: number): Deed => [
  `hash ${index} of level ${level} is changed`,
  (directory) => flipBit(path.join(directory, `tree/level-${level}`), index * 32 + 5),
  () => [{ kind: 'tile_altered', sequence, file: `tree/level-${level}`, offset: index * 32 }],
];
const header = (place: number, isSealed: boolean): Deed => [
  `byte ${place} of the header of a segment is changed${isSealed ? ', its checksum fits' : ''}`,
  (directory) => {
    const file = path.join(directory, 'ledger', segmentsOf(directory).second);
    flipBit(file, place);
    if (isSealed) resealHeader(file);
  },
  () => [{ kind: 'altered', file: `ledger/${segmentsOf(segmented).second}` }],
  'segments',
];
const removed = (of: (names: readonly string[]) => number, name: string): Deed => [
  `the ${name} segment is missing`,
  (directory) => {
    const { names } = segmentsOf(directory);
    fs.rmSync(path.join(directory, 'ledger', names[of(names)] ?? ''));
  },
  () => {
    const { names } = segmentsOf(segmented);
    const i = of(names);
    const place = { file: `ledger/${names[Math.max(1, i - 1)] ?? ''}` };
    const found = { kind: 'missing', sequence: Number.parseInt(names[i] ?? '', 10) } as const;
    return [
      i === names.length - 1
        ? found
        : (expect.objectContaining({ ...found, ...(i < 2 ? {} : place) }) as Found),
    ];
  },
  'segments',
];

const DEEDS: readonly Deed[] = [
  ['a payload is changed', flipped(17, -5), () => [altered(17)]],
  ['a payload is changed, the checksum fits', fitted(17, -5), () => [altered(17)]],
  ...FIELDS.flatMap(([field, place]): Deed[] => [
    [`${field} of a frame is changed`, flipped(17, place), () => [altered(17)]],
    [`${field} of a frame is changed, the checksum fits`, fitted(17, place), () => [altered(17)]],
  ]),
  ['a checksum is changed', flipped(17, AT.checksum), () => [altered(17)]],
  ['lengths are changed that still add up', tampered(movedLengths), () => [altered(17)]],
  ['an envelope is changed', flipped(17, AT.envelope + 12), () => [altered(17)]],
  ['a payload and its commitment are changed', tampered(otherPayload), () => [altered(17)]],
  ...['', '{"a":"forged"}'].flatMap((text): Deed[] =>
    [(frame: Buffer) => frame, sealed].map((finish) => [
      `${text === '' ? 'nothing' : 'something short'} stands for salt and payload, the checksum ${finish === sealed ? 'fits' : 'does not fit'}`,
      tampered((frames) => frames.with(16, finish(saltless(frames[16] ?? EMPTY, text)))),
      () => [altered(17)],
    ]),
  ),
  hash(0, 16, 17),
  hash(0, 299, 300),
  hash(1, 0, 1),
  [
    'a level of the tree is cut short',
    (directory) => fs.truncateSync(path.join(directory, 'tree/level-0'), 9000),
    () => [{ kind: 'tile_altered', file: 'tree/level-0', offset: 281 * 32 }],
  ],
  ...[0, 12, 16, 24, 40, 60].flatMap((place) => [header(place, false), header(place, true)]),
  [
    'an event is removed',
    tampered((frames) => frames.toSpliced(16, 1)),
    () => [{ kind: 'missing', sequence: 17, ...at(17) }],
  ],
  [
    'events are removed and all others numbered again',
    tampered((frames) => renumbered(frames.toSpliced(16, 3))),
    () => [forkedFrom(17, id(20))],
  ],
  [
    'an event is removed, all others numbered again, the tree rebuilt',
    tampered((frames) => renumbered(frames.toSpliced(16, 1)), true),
    () => [{ kind: 'missing', sequence: 300 }],
  ],
  [
    'an event is removed, another put at the end, the tree rebuilt',
    tampered((frames) => renumbered([...frames.toSpliced(16, 1), Buffer.from(frames[0] ?? [])]), true),
    () => [{ kind: 'forked', sequence: 1, file: LATEST }],
  ],
  [
    'the last events are removed',
    tampered((frames) => frames.slice(0, 290)),
    () => [{ kind: 'missing', sequence: 291 }],
  ],
  ...[(frames: Buffer[]) => frames, renumbered].flatMap((number): Deed[] => {
    const how = number === renumbered ? ', numbered again' : '';
    return [
      [
        `neighbours change places${how}`,
        tampered((frames) => number(swapped(17, 18)(frames))),
        () => [altered(17, id(18))],
      ],
      [
        `two events change places${how}`,
        tampered((frames) => number(swapped(17, 200)(frames))),
        () => [
          altered(17, id(200)),
          // The frames are not of one length.
          { ...altered(200, id(17)), offset: expect.any(Number) as number },
        ],
      ],
      [
        `the last two events change places${how}`,
        tampered((frames) => number(swapped(299, 300)(frames))),
        () => [forkedFrom(299, id(300))],
      ],
      [
        `an event is slipped in${how}`,
        tampered((frames) => number(slippedIn(frames))),
        () => [forkedFrom(17, STRANGER)],
      ],
    ];
  }),
  [
    'events cannot be read, and a later one is changed',
    unreadable,
    () => [{ kind: 'unreadable', sequence: 17, ...at(17) }, altered(250)],
  ],
  [
    'a payload and its hash are changed',
    async (directory) => {
      await flipped(17, -5)(directory);
      flipBit(path.join(directory, 'tree/level-0'), 16 * 32);
    },
    () => [{ kind: 'unreadable', sequence: 1, file: LATEST }, altered(17)],
  ],
  [
    'every payload is changed',
    tampered((frames) => frames.map((frame) => changed(frame, frame.length - 5))),
    () => [altered(1)],
  ],
  removed(() => 0, 'first'),
  removed(() => 1, 'second'),
  removed(() => 2, 'third'),
  removed((names) => names.length - 1, 'last'),
  [
    'two segments have the names of each other',
    (directory) => {
      const { second, third } = segmentsOf(directory);
      const file = (name: string) => path.join(directory, 'ledger', name);
      fs.renameSync(file(second), file('spare'));
      fs.renameSync(file(third), file(second));
      fs.renameSync(file('spare'), file(third));
    },
    () => {
      const { second, third } = segmentsOf(segmented);
      return [third, second].map((name) => ({ kind: 'altered', file: `ledger/${name}` }));
    },
    'segments',
  ],
  [
    'a segment is emptied',
    (directory) => fs.truncateSync(path.join(directory, 'ledger', segmentsOf(directory).second)),
    () => {
      const { second, from } = segmentsOf(segmented);
      const file = `ledger/${second}`;
      return [
        { kind: 'altered', file },
        { kind: 'forked', sequence: from, file },
        { kind: 'missing', sequence: from, file, offset: SEGMENT_HEADER_BYTES },
      ];
    },
    'segments',
  ],
  [
    'a segment is cut short',
    (directory) =>
      fs.truncateSync(path.join(directory, 'ledger', segmentsOf(directory).second), SEGMENT_HEADER_BYTES + 3),
    () => {
      const { second, from } = segmentsOf(segmented);
      return [{ kind: 'unreadable', sequence: from, file: `ledger/${second}`, offset: SEGMENT_HEADER_BYTES }];
    },
    'segments',
  ],
  [
    'a segment is that of another log',
    async (directory) => {
      const other = scratch();
      await fillSigned(other, BATCHES, { segmentBytes: 20_000 });
      const { second } = segmentsOf(directory);
      fs.copyFileSync(path.join(other, 'ledger', second), path.join(directory, 'ledger', second));
    },
    () => [{ kind: 'altered', file: `ledger/${segmentsOf(segmented).second}` }],
    'segments',
  ],
  [
    'the last events of a segment are removed',
    (directory) => {
      const file = path.join(directory, 'ledger', segmentsOf(directory).second);
      putFrames(file, framesIn(file).slice(0, -2));
    },
    () => {
      const { second, to } = segmentsOf(segmented);
      const offset =
        SEGMENT_HEADER_BYTES + sizeOf(framesIn(path.join(segmented, 'ledger', second)).slice(0, -2));
      return [{ kind: 'missing', sequence: to - 2, file: `ledger/${second}`, offset }];
    },
    'segments',
  ],
  [
    'an empty segment stands in front of the first',
    (directory) => putSegment(directory, { first: 0 }),
    () => [{ kind: 'forked', sequence: 1, file: `ledger/${segmentName(0)}` }],
  ],
  [
    'an empty segment stands where the log has events',
    (directory) =>
      putSegment(directory, { first: 100, base: sizeOf(framesIn(path.join(directory, SEGMENT))) }),
    () => [{ kind: 'forked', sequence: 301, file: `ledger/${segmentName(100)}` }],
  ],
  [
    'a segment with events stands where the log has others',
    (directory) => {
      const frames = framesIn(path.join(directory, SEGMENT));
      const [first, base] = [200, sizeOf(frames)];
      putSegment(directory, { first, base }, renumbered(frames.slice(0, 20), 200));
    },
    () => [
      { kind: 'forked', sequence: 301, file: `ledger/${segmentName(200)}` },
      {
        kind: 'altered',
        sequence: 301,
        event_id: id(1),
        file: `ledger/${segmentName(200)}`,
        offset: SEGMENT_HEADER_BYTES,
      },
    ],
  ],
  [
    'a whole log is rebuilt and signed with its key, and a checkpoint from elsewhere is of before',
    async (directory) => {
      const kept = outside();
      fs.copyFileSync(note(directory), kept);
      await fillSigned(directory, [[loggedEvent('one more')]], ONE_SEGMENT);
      await fitted(17, AT.envelope + 12)(directory);
      await rebuild(directory);
      expect(await faultsIn(directory)).toEqual([]);
      return kept;
    },
    (kept) => [{ kind: 'forked', sequence: 1, file: kept }],
  ],
  [
    'two checkpoints of one size are signed',
    async (directory) => {
      const kept = outside();
      fs.writeFileSync(kept, await sign(directory, 300, Buffer.alloc(32, 7)));
      return kept;
    },
    (kept) => [{ kind: 'forked', file: kept }],
  ],
  [
    'a checkpoint is signed by another key',
    async (directory) => {
      const other = scratch();
      await fillSigned(other, BATCHES, ONE_SEGMENT);
      fs.copyFileSync(note(other), note(directory));
    },
    () => [invalid(LATEST)],
  ],
  ...['latest', 'kept'].map((name): Deed => [
    `a checkpoint, ${name}, is that of another log`,
    async (directory) => {
      const other = scratch();
      await fillSigned(other, BATCHES, { origin: 'log.example/another', ...ONE_SEGMENT });
      if (name === 'latest') fs.copyFileSync(note(other), note(directory));
      return name === 'latest' ? '' : note(other);
    },
    (kept) => [invalid(name === 'kept' ? kept : LATEST)],
  ]),
  [
    'a checkpoint is changed',
    (directory) => {
      const text = fs.readFileSync(note(directory), 'utf8');
      fs.writeFileSync(note(directory), text.replace('\n300\n', '\n299\n'));
    },
    () => [invalid(LATEST)],
  ],
  [
    'a checkpoint has the name of another size',
    (directory) =>
      fs.renameSync(
        note(directory, 'checkpoints/0000000000000300.checkpoint'),
        note(directory, 'checkpoints/0000000000000250.checkpoint'),
      ),
    () => [invalid('checkpoints/0000000000000250.checkpoint')],
  ],
  [
    'a checkpoint is cut short',
    (directory) => fs.truncateSync(note(directory), 100),
    () => [invalid(LATEST)],
  ],
  [
    'the newest checkpoint is missing',
    (directory) => fs.rmSync(note(directory)),
    () => [{ kind: 'checkpoint_missing', file: LATEST }],
  ],
  [
    'all checkpoints are missing',
    (directory) => fs.rmSync(path.join(directory, 'checkpoints'), { recursive: true }),
    () => [{ kind: 'checkpoint_missing', file: LATEST }],
  ],
  [
    'the key of the log is missing',
    (directory) => fs.rmSync(note(directory, 'checkpoints/origin.vkey')),
    () => [
      { kind: 'checkpoint_missing', file: 'checkpoints/origin.vkey' },
      expect.objectContaining({ kind: 'checkpoint_invalid' }) as Found,
    ],
  ],
  [
    'a checkpoint was given out over more',
    (directory) => {
      const given = { sink: 'dir:/mnt/worm', state: 'ok' as const, at: '2026-03-01T10:00:00.000Z' };
      writeSinkStates(directory, [{ ...given, size: 301 }]);
    },
    () => [expect.objectContaining({ kind: 'checkpoint_missing' }) as Found],
  ],
  [
    'a pipe has the name of a segment',
    (directory) => pipe(path.join(directory, 'ledger', segmentName(301))),
    () => [expect.objectContaining({ kind: 'unreadable' }) as Found],
  ],
];

const pipe = (file: string) => void execFileSync('mkfifo', [file]);

/** Does it to a copy. */
async function done([, act, , to]: Deed): Promise<{ directory: string; given: string }> {
  const directory = copyOf(to === 'segments' ? segmented : signed);
  const given = await act(directory);
  return { directory, given: typeof given === 'string' ? given : '' };
}

describe('[R-907] collector verify finds that', () => {
  let text = '';

  test.each(DEEDS.map((deed) => [deed[0], deed] as const))('%s', async (name, deed) => {
    const { directory, given } = await done(deed);
    const found = await verified(directory, given === '' ? [] : [given]);
    expect(withoutNotes(found)).toEqual(deed[2](given));
    text += `${name}\n${found.map(({ kind, message }) => `  ${kind}: ${message}\n`).join('')}`;
  });

  test('and reports each in these sentences', async () => {
    const same = text
      .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID')

      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replaceAll(/(?<=by the key )[0-9a-f]{8}/g, 'KEY')
      .replaceAll(/\/\S+\/(?=kept|checkpoints)/g, '');
    await expect(same).toMatchFileSnapshot('verify-sentences.txt');
  });

  test('each field of the first and of the last frame is changed, which have no neighbour on one side', async () => {
    for (const sequence of [1, 300])
      for (const [field, place] of FIELDS)
        for (const act of [flipped, fitted]) {
          dataDir = copyOf(signed);
          await act(sequence, place)(dataDir);
          expect(await faultsIn(dataDir), field).toEqual([altered(sequence)]);
        }
  });

  test('each byte of an envelope is changed, also when the checksum was made to fit', async () => {
    const { organisation, keyId } = EVENTS[16] ?? { organisation: '', keyId: '' };
    dataDir = copyOf(signed);
    const segment = path.join(dataDir, SEGMENT);
    const whole = fs.readFileSync(segment);
    for (let i = 0; i < 62 + organisation.length + keyId.length; i++)
      for (const act of [flipped, fitted]) {
        fs.writeFileSync(segment, whole);
        await act(17, AT.envelope + i)(dataDir);
        expect(await faultsIn(dataDir), `byte ${i}`).toMatchObject([
          { kind: 'altered', sequence: 17, ...at(17) },
        ]);
      }
  });

  test('a hash of the third level is changed', async () => {
    dataDir = scratch();
    const batch = (_: unknown, i: number) =>
      Array.from({ length: 1024 }, (__, k) => loggedEvent(`${i} ${k}`));
    await fillSigned(dataDir, Array.from({ length: 65 }, batch), { segmentBytes: 64 << 20 });
    expect(await faultsIn(dataDir)).toEqual([]);
    const [, act, finds] = hash(2, 0, 1);
    await act(dataDir);
    expect(await faultsIn(dataDir)).toEqual(finds(''));
  });

  test('a log is not the one that was signed, also without its tree', async () => {
    dataDir = copyOf(signed);
    const tree = path.join(dataDir, 'tree');
    fs.rmSync(tree, { recursive: true });
    expect([await faultsIn(dataDir), await notesIn(dataDir)]).toEqual([
      [],
      [expect.stringContaining('tree/')],
    ]);
    fs.mkdirSync(tree);
    expect([await faultsIn(dataDir), await notesIn(dataDir)]).toEqual([
      [],
      [expect.stringContaining('tree/')],
    ]);
    // A tree that is there must hold its hashes.
    fs.writeFileSync(path.join(tree, 'level-0'), '');
    expect(await faultsIn(dataDir)).toMatchObject([{ kind: 'tile_altered' }, { kind: 'tile_altered' }]);
    fs.rmSync(path.join(tree, 'level-0'));
    const unproved = { kind: 'unreadable', file: LATEST };
    await flipped(17, -5)(dataDir);
    expect(await faultsIn(dataDir)).toMatchObject([unproved, altered(17)]);
    tamper(dataDir, (frames) => frames.with(16, sealed(frames[16] ?? EMPTY)));
    expect(await faultsIn(dataDir)).toEqual([altered(17)]);
    await fitted(17, AT.envelope + 12)(dataDir);
    expect(await notesIn(dataDir)).toEqual([
      expect.stringContaining('tree/'),
      expect.stringContaining('first mismatch: entry 17'),
    ]);
    dataDir = copyOf(signed);
    tamper(dataDir, (frames) => frames.with(16, sealed(saltless(frames[16] ?? EMPTY))));
    fs.rmSync(path.join(dataDir, 'tree'), { recursive: true });
    expect(await faultsIn(dataDir)).toEqual([altered(17)]);
  });

  test('the first events are proved, and those after the change as well', async () => {
    const told = async (act: Act) => {
      dataDir = copyOf(signed);
      await act(dataDir);
      return (await notesIn(dataDir)).at(-1);
    };
    expect(await told(tampered((frames) => renumbered(frames.toSpliced(16, 3))))).toMatch(/entry 17;.* 16 /);
    expect(await told(unreadable)).toMatch(/entry 17;.* from 251 on/);
  });

  test('many events are changed, and lists the first hundred', async () => {
    dataDir = copyOf(signed);
    tamper(dataDir, (frames) =>
      frames.map((frame, i) => (i % 2 === 0 ? changed(frame, frame.length - 5) : frame)),
    );
    const { code, stdout } = await run(['verify', '--json', '--data-dir', dataDir]);
    const { findings, findings_not_listed } = JSON.parse(stdout) as {
      findings: VerifyFinding[];
      findings_not_listed: number;
    };
    expect([code, findings.filter(({ kind }) => kind !== 'note').length, findings_not_listed]).toEqual([
      3, 100, 50,
    ]);
    const { stdout: text } = await run(['verify', '--data-dir', dataDir]);
    expect(text).toMatch(/^NOT INTACT: 150 findings\n[\s\S]*\n50 more are not listed/);
  });

  test('events are missing from the end, only by a checkpoint from elsewhere', async () => {
    const older = scratch();
    await fillSigned(older, BATCHES.slice(0, 20), ONE_SEGMENT);
    const newer = copyOf(older);
    await fillSigned(newer, BATCHES.slice(20), ONE_SEGMENT);
    expect(await faultsIn(older)).toEqual([]);
    expect(await faultsIn(older, [note(newer)])).toEqual([{ kind: 'missing', sequence: 201 }]);
    expect(await faultsIn(newer, [note(newer)])).toEqual([]);
  });

  test('one event is removed: one finding, whatever number of notes is given', async () => {
    const frames = framesIn(segmentPaths(signed)[0] ?? '');
    const noteOver = async (size: number) => {
      const file = path.join(scratch(), `over-${size}`);
      fs.writeFileSync(file, await sign(signed, size, rootOf(frames.slice(0, size))));
      return file;
    };
    const notes = await Promise.all([16, 17, 50, 100, 200, 299, 300].map(noteOver));
    const renumber = (directory: string) =>
      tamper(directory, (all) => renumbered(all.filter((_, i) => i !== 16)));
    const remove = (directory: string) => tamper(directory, (all) => all.toSpliced(16, 1));
    const rebuildAll = (directory: string) => {
      renumber(directory);
      rebuildTree(directory);
    };
    for (const [act, alone, kind] of [
      [remove, 'missing', 'missing'],
      [renumber, 'forked', 'forked'],
      [rebuildAll, 'missing', 'forked'],
    ] as const) {
      dataDir = copyOf(signed);
      act(dataDir);
      expect(await faultsIn(dataDir)).toMatchObject([{ kind: alone }]);
      for (const given of [notes.slice(2, 3), notes.slice(2, 5), notes])
        expect(await faultsIn(dataDir, given)).toMatchObject([{ kind }]);
    }
  });

  test('the numbers of segments have a gap', async () => {
    dataDir = copyOf(segmented);
    const [, second = '', ...behind] = segmentPaths(dataDir);
    const last = Number.parseInt(path.basename(behind[0] ?? ''), 10) - 1;
    const ledgerId = fs.readFileSync(second).toString('hex', 40, 56);
    for (const segment of behind.toReversed()) {
      const old = fs.readFileSync(segment);
      const firstSequence = Number(old.readBigUInt64LE(24)) + 50;
      const frames = renumbered(framesIn(segment), firstSequence);
      fs.rmSync(segment);
      const base = Number(old.readBigUInt64LE(16));
      const made = encodeSegmentHeader(
        { base, firstSequence, ledgerId, ownBefore: 0, actionBefore: NO_ACTION },
        1,
      );
      fs.writeFileSync(
        path.join(dataDir, 'ledger', segmentName(firstSequence)),
        Buffer.concat([made, ...frames]),
      );
    }
    const offset = SEGMENT_HEADER_BYTES + sizeOf(framesIn(second));
    expect(await faultsIn(dataDir)).toMatchObject([
      { kind: 'missing', sequence: last + 1, file: `ledger/${path.basename(second)}`, offset },
      { kind: 'forked', sequence: last + 51 },
    ]);
  });
});

describe('[R-907] no byte of a log can be changed without a finding', () => {
  let segment: string;
  let frames: Buffer[];

  beforeEach(async () => {
    dataDir = scratch();
    await fillSigned(dataDir, [EVENTS.slice(0, 2), EVENTS.slice(2, 3)], { segmentBytes: 64 << 10 });
    [segment = ''] = segmentPaths(dataDir);
    frames = framesIn(segment);
  });

  /** Changes each of the first `bytes` bytes of a file in turn. */
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
      frames.reduce((sum, { length }) => sum + length, SEGMENT_HEADER_BYTES),
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

  test('in the header of a segment with a checksum that fits, except its time and, in a single one, the ledger id', async () => {
    for (let at = 12; at < SEGMENT_HEADER_BYTES; at++) {
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

describe('[R-907] collector verify finds another history', () => {
  const sizeName = (size: number) => `${String(size).padStart(16, '0')}.checkpoint`;

  test('a back-up that was restored and continued', async () => {
    const backup = scratch();
    await fillSigned(backup, BATCHES.slice(0, 20), ONE_SEGMENT);
    const worm = scratch();
    const sink = (directory: string, size: number) => {
      fs.copyFileSync(note(directory), path.join(worm, sizeName(size)));
      return path.join(worm, sizeName(size));
    };
    sink(backup, 200);
    const lost = copyOf(backup);
    await fillSigned(lost, BATCHES.slice(20), ONE_SEGMENT);
    const kept = sink(lost, 300);
    const after = Array.from({ length: 150 }, (_, i) => loggedEvent(`after it ${i}`));
    await fillSigned(backup, [after], ONE_SEGMENT);
    expect(await faultsIn(backup)).toEqual([]);
    expect(await faultsIn(backup, [worm])).toEqual([{ kind: 'forked', sequence: 201, file: kept }]);
  });

  test('a back-up that was restored and took fewer events than are lost: all lost ones are counted', async () => {
    const backup = scratch();
    await fillSigned(backup, BATCHES.slice(0, 20), ONE_SEGMENT);
    const worm = scratch();
    const lost = copyOf(backup);
    for (const batch of [[], EVENTS.slice(200, 201), EVENTS.slice(201, 202), EVENTS.slice(202, 210)]) {
      if (batch.length > 0) await fillSigned(lost, [batch], ONE_SEGMENT);
      const size = framesIn(path.join(lost, SEGMENT)).length;
      fs.copyFileSync(note(lost), path.join(worm, sizeName(size)));
    }
    const missing = async (more: number) => {
      await fillSigned(
        backup,
        Array.from({ length: more }, (_, i) => [loggedEvent(`other ${i}`)]),
        ONE_SEGMENT,
      );
      return (await verified(backup, [worm])).filter(({ kind }) => kind === 'missing');
    };
    expect(await missing(1)).toMatchObject([{ kind: 'missing', sequence: 201 }]);
    fs.rmSync(path.join(worm, sizeName(201)));
    expect(await missing(2)).toMatchObject([{ kind: 'missing', sequence: 201 }]);
  });

  test('the log rebuilt without the key, between the last checkpoint that agrees and the first that does not', async () => {
    dataDir = scratch();
    for (const from of [0, 10, 20]) await fillSigned(dataDir, BATCHES.slice(from, from + 10), ONE_SEGMENT);
    await fitted(151, AT.envelope + 12)(dataDir);
    rebuildTree(dataDir);
    const file = `checkpoints/${sizeName(200)}`;
    expect(await faultsIn(dataDir)).toEqual([{ kind: 'forked', sequence: 101, file }]);
  });

  test('a fork that the owner of the key has signed, with the earlier leaves put back into the tree', async () => {
    dataDir = copyOf(signed);
    const held = outside();
    fs.copyFileSync(note(dataDir), held);
    const level = path.join(dataDir, 'tree/level-0');
    const before = fs.readFileSync(level);
    tamper(dataDir, (frames) => renumbered(frames.filter((_, i) => i !== 16)));
    await rebuild(dataDir);
    fs.rmSync(path.join(dataDir, 'index'), { recursive: true, force: true });
    const parted = { kind: 'forked', sequence: 1, file: held };
    const rebuilt = fs.readFileSync(level);
    // Without more events it lacks one at its end.
    fs.writeFileSync(level, before);
    expect(await faultsIn(dataDir, [held])).toMatchObject([
      { kind: 'tile_altered' },
      { kind: 'missing', sequence: 300 },
    ]);
    fs.writeFileSync(level, rebuilt);
    const more = Array.from({ length: 10 }, (_, i) => loggedEvent(`more ${i}`));
    await fillSigned(dataDir, [more], ONE_SEGMENT);
    expect(await faultsIn(dataDir, [held])).toEqual([parted]);
    const now = fs.readFileSync(level);
    fs.writeFileSync(level, Buffer.concat([before, now.subarray(300 * 32)]));
    expect(await faultsIn(dataDir, [held])).toContainEqual(parted);
  });

  test('a checkpoint that was cut short, at any byte, in the directory or from elsewhere', async () => {
    dataDir = copyOf(signed);
    const latest = note(dataDir);
    const whole = fs.readFileSync(latest);
    const kept = outside();
    for (let bytes = 0; bytes < whole.length; bytes++) {
      fs.writeFileSync(latest, whole.subarray(0, bytes));
      expect(await faultsIn(dataDir), `${bytes} bytes`).toMatchObject([invalid(LATEST)]);
      fs.writeFileSync(kept, whole.subarray(0, bytes));
      fs.writeFileSync(latest, whole);
      expect(await faultsIn(dataDir, [kept]), `${bytes} bytes`).toMatchObject([invalid(kept)]);
    }
  });
});

describe('[R-907] collector verify reports events that no checkpoint covers', () => {
  function rolledBack(directory: string): void {
    const checkpoints = path.join(directory, 'checkpoints');
    for (const name of fs.readdirSync(checkpoints))
      if (/^0{12,15}[1-9]/.test(name)) fs.rmSync(path.join(checkpoints, name));
    fs.copyFileSync(path.join(checkpoints, '0000000000000000.checkpoint'), path.join(checkpoints, 'latest'));
  }

  test('with their number and since when', async () => {
    dataDir = copyOf(signed);
    rolledBack(dataDir);
    const received = new Date(frameReceivedAt(frameAt(dataDir, 1).frame, 0)).toISOString();
    expect(await notesIn(dataDir)).toEqual([
      expect.stringMatching(`^300 entries from number 1 on.*${received}$`),
    ]);
    const { code, stdout } = await run(['verify', '--data-dir', dataDir]);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^INTACT where signed: /)]);
  });

  test('as a fault when nothing was signed for an hour', async () => {
    dataDir = scratch();
    const oldest = Date.parse('2026-03-01T10:00:00Z');
    const batch = (receivedAt: number) => [loggedEvent('event', { receivedAt })];
    await fillSigned(dataDir, [batch(oldest), batch(oldest + 3_600_000)]);
    rolledBack(dataDir);
    expect(await faultsIn(dataDir)).toEqual([]);
    await fillSigned(dataDir, [batch(oldest + 3_600_001)]);
    rolledBack(dataDir);
    expect(await faultsIn(dataDir)).toMatchObject([{ kind: 'checkpoint_missing' }]);
  });
});

describe('[R-907] collector verify terminates', () => {
  test('if a pipe has the name of a file', async () => {
    const against = scratch();
    fs.copyFileSync(note(signed), path.join(against, 'held'));
    pipe(path.join(against, 'pipe'));
    fs.symlinkSync('nowhere', path.join(against, 'link'));
    expect(await verified(signed, [against])).toMatchObject(
      ['link', 'pipe'].map((name) => ({ kind: 'note', file: `${against}/${name}` })),
    );
    const given = path.join(against, 'pipe');
    expect((await run(['verify', '--data-dir', signed, '--against', given])).code).toBe(6);
    dataDir = copyOf(signed);
    pipe(note(dataDir, 'checkpoints/cosigned-00000000'));
    expect((await run(['verify', '--data-dir', dataDir])).code).toBe(1);
  });

  test('if headers of frames are nested', async () => {
    dataDir = copyOf(signed);
    const nested = Buffer.alloc(4 << 20, 1);
    const step = 109;
    for (let place = 0; place + step <= nested.length; place += step) {
      const frame = nested.subarray(place, place + step).fill(0);
      frame.writeUInt32LE(nested.length - place, AT.size);
      frame[AT.version] = 2;
      frame.writeUInt32LE(nested.length - place - step, AT.payloadLength);
      frame.writeUInt32LE(2, AT.sequence);
      frame.writeUInt32LE(2, AT.durableBefore);
    }
    fs.truncateSync(path.join(dataDir, SEGMENT), SEGMENT_HEADER_BYTES);
    fs.appendFileSync(path.join(dataDir, SEGMENT), nested);
    const once = (await processorTime(() => Array.from({ length: 20 }, () => crc32(nested)))) / 20;
    const used = await processorTime(async () => {
      expect(await faultsIn(dataDir)).toEqual([
        { kind: 'unreadable', sequence: 1, file: SEGMENT, offset: SEGMENT_HEADER_BYTES },
      ]);
    });
    // One checksum over each of the headers would take some 20,000 times as much as one over all.
    expect(used / once).toBeLessThan(2_000);
  });

  test('if a large file that was given holds no note', async () => {
    const held = outside();
    const used = async (repeats: number) => {
      fs.writeFileSync(held, 'no note\n\n'.repeat(repeats));
      return processorTime(async () => {
        expect(await faultsIn(signed, [held])).toEqual([invalid(held)]);
      });
    };
    await used(1 << 18);
    // Four times the time for four times the size, and not sixteen times.
    expect((await used(4 << 20)) / (await used(1 << 20))).toBeLessThan(10);
  });
});

/** In microseconds, of this process. */
async function processorTime(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  return process.cpuUsage(before).user;
}

test('[R-907] keys of other logs are ignored when one of the given keys is of this log', async () => {
  const other = scratch();
  await fillSigned(other, [[loggedEvent('event')]], { origin: 'log.example/ward-8' });
  const { findings } = await verifyLog({
    ...{ dataDir: signed, files: nodeFiles, against: [], keys: [firstKey(other), firstKey(signed)] },
    onProgress: () => undefined,
  });
  expect(findings.intact).toBe(true);
  expect(findings.listed).toMatchObject([{ kind: 'note' }]);
});
