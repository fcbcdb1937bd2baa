#!/usr/bin/env node
/**
 * Makes the corpus of spools in test/vectors/spool, which tests the clients of all languages. Each case is a directory
 * with the parts of a spool and `case.json`, the result that a client must find. It was written from
 * docs/internals/formats.md and imports no client.
 */
import { createCipheriv, hkdfSync } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';

const OUT = path.resolve(process.argv[2] ?? path.join(import.meta.dirname, '../test/vectors/spool'));

const KINDS = ['inference-start', 'internal-artifact', 'human-output', 'outcome', 'user-feedback'];
const END = 255;
const AT = 1_800_000_000_000;
const MARKER = Buffer.from('ff5acefe', 'hex');
const KEY = Buffer.from(Array.from({ length: 32 }, (_, i) => i));
const OTHER_KEY = Buffer.alloc(32, 7);
/** The series of the parts, in the order of their creation. */
const [ONE, TWO] = ['0190aabbccdd01020304050607', '0190aabbccde01020304050607'];

const u32 = (value) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const idOf = (series, number) => Buffer.concat([Buffer.from(series, 'hex'), Buffer.from([0, 0, number])]);
const derived = (key, id) => Buffer.from(hkdfSync('sha256', key, id, 'clinical-events spool segment 1', 48));

function header(id, { key, version = 1, cipher = key ? 1 : 0, magic = 'CLINSPOL' } = {}) {
  const check = key ? derived(key, id).subarray(32) : Buffer.alloc(16);
  const head = [
    Buffer.from(magic),
    Buffer.from([version, cipher, 0, 0]),
    u32(64),
    id,
    check,
    Buffer.alloc(12),
  ];
  const bytes = Buffer.concat(head);
  return Buffer.concat([bytes, u32(crc32(bytes))]);
}

/** Members of `damage` replace the right values; `size` is the size field of the frame. */
function frame(id, kind, number, body, damage = {}) {
  const { key, at = AT + number, flags = key ? 1 : 0, marker = MARKER, checksum = id } = damage;
  const plain = Buffer.from(body);
  const size = damage.size ?? 32 + plain.length + (key ? 16 : 0);
  const head = Buffer.concat([marker, u32(size), Buffer.from([kind, flags, 0, 0]), u64(at), u64(number)]);
  let content = plain;
  if (key) {
    const nonce = Buffer.concat([Buffer.alloc(4), u64(number)]);
    const cipher = createCipheriv('aes-256-gcm', derived(key, id).subarray(0, 32), nonce).setAAD(head);
    content = Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    if (damage.tampered) content[0] ^= 1;
  }
  const rest = Buffer.concat([head, content]);
  return Buffer.concat([u32(crc32(rest, crc32(checksum))), rest]);
}

function marks(id, ...batches) {
  return Buffer.concat(
    batches.map((offsets) => {
      const rest = Buffer.concat([u32(offsets.length), ...offsets.map(u32)]);
      return Buffer.concat([u32(crc32(rest, crc32(id))), rest]);
    }),
  );
}

/** A segment with events of the given bodies, and the expected results of reading it. */
class Segment {
  constructor(series = ONE, number = 0, options = {}) {
    this.series = series;
    this.id = idOf(series, number);
    this.name = this.id.toString('hex');
    this.options = options;
    this.pieces = [options.header ?? header(this.id, options)];
    this.offsets = [];
    this.events = [];
    this.next = 0;
  }

  get size() {
    return this.pieces.reduce((sum, { length }) => sum + length, 0);
  }

  /** Adds a frame, whole unless `damage` is given; it is expected to be read unless `damage` has `lost`. */
  event(body, damage = {}) {
    const kind = damage.kind ?? 2;
    const number = damage.number ?? this.next;
    this.next = number + 1;
    const { key } = this.options;
    const bytes = frame(this.id, kind, number, body, { ...(key && { key }), ...damage });
    this.offsets.push(this.size);
    this.pieces.push(bytes);
    if (!damage.lost) {
      const captured_at = new Date(damage.at ?? AT + number).toISOString();
      const text = Buffer.from(body);
      const said = text.toString();
      const as = Buffer.from(said).equals(text) ? { event: said } : { event_base64: text.toString('base64') };
      this.events.push({ kind: KINDS[kind], captured_at, ...as });
    }
    return this;
  }

  /** Adds the end frame with the number of events. */
  end(events = this.next) {
    const { key } = this.options;
    this.pieces.push(frame(this.id, END, events, '', { at: AT, ...(key && { key }) }));
    return this;
  }

  /** Adds raw bytes. */
  bytes(bytes) {
    this.pieces.push(Buffer.from(bytes));
    return this;
  }

  marked(...batches) {
    this.marks = marks(this.id, ...batches);
    return this;
  }

  /** The events without marked and lost ones. */
  without(...indices) {
    this.events = this.events.filter((_, i) => !indices.includes(i));
    return this;
  }
}

const cases = [];

/**
 * @param {string} name name of the directory.
 * @param {string} what description in one sentence.
 * @param {Segment[]} segments segments of the spool.
 * @param {object} more `expect`: differences from a spool whose events all wait; `owner`, `lock`: files of the parts;
 * `key`: the client's key; `files`: further files, by path.
 */
function spool(
  name,
  what,
  segments,
  { expect = {}, owner = 'none', lock = 'none', key, files = {}, ...more } = {},
) {
  const parts = [...new Set(segments.map(({ series, part = series }) => part))];
  const lying = Object.fromEntries(
    segments.flatMap(({ series, part = series, name: id, pieces, marks: done }) => [
      [`${part}/${id}.segment`, Buffer.concat(pieces)],
      ...(done ? [[`${part}/${id}.done`, done]] : []),
    ]),
  );
  const events = segments.flatMap((segment) => segment.events);
  cases.push({
    name,
    files: { ...lying, ...files },
    said: {
      what,
      parts: Object.fromEntries(parts.map((part) => [part, { owner, lock }])),
      ...(key && { key: key.toString('hex') }),
      ...more,
      // `events` are in the order in which a client gives them out; the other members are counts and file names.
      expect: { events, cut: 0, missing: 0, damaged: [], left: [], ...expect },
    },
  });
}

const whole = () => new Segment().event('{"n":0}').event('{"n":1}').event('{"n":2}');
const damagedAt = (segment, offset, bytes) => ({ file: `${segment.name}-${offset}.bytes`, bytes });

/* Whole. */

spool('whole', 'a segment that was ended', [whole().end()]);
spool('whole-no-end', 'a segment without a frame that ends it', [whole()]);
spool('whole-kinds', 'an event of each kind', [
  KINDS.reduce((segment, _, kind) => segment.event(`{"kind":${kind}}`, { kind }), new Segment()).end(),
]);
spool('whole-no-event', 'a segment that was ended before an event came', [new Segment().end()]);
spool('whole-header-only', 'a segment of a process that ended before its first event', [new Segment()]);
spool('whole-empty-body', 'an event without a byte', [new Segment().event('').event('{}').end()]);
spool('whole-text', 'text beyond ASCII', [new Segment().event('{"said":"37,5 °C – gut 🙂"}').end()]);
spool('whole-large', 'an event of 300,000 bytes', [
  new Segment().event(JSON.stringify({ long: 'x'.repeat(300_000) })).event('{}'),
]);
spool('whole-marker-in-body', 'a body that holds the marker', [
  new Segment()
    .event(Buffer.concat([Buffer.from('a'), MARKER, Buffer.alloc(40, 1)]))
    .event('{}')
    .end(),
]);
spool('whole-frame-in-body', 'a body that is a whole frame of another segment', [
  new Segment()
    .event(frame(idOf(TWO, 0), 2, 0, '{"not":"this"}'))
    .event('{}')
    .end(),
]);
spool('whole-latest-time', 'the last time that is allowed', [
  new Segment().event('{}', { at: 8_640_000_000_000_000 }),
]);
spool('whole-two-segments', 'a series of two segments', [
  whole().end(),
  new Segment(ONE, 1).event('{"n":3}'),
]);
spool('whole-two-parts', 'parts of two processes', [whole().end(), new Segment(TWO).event('{"n":3}')]);
{
  const taken = new Segment(TWO).event('{"n":3}');
  taken.part = ONE;
  spool('whole-adopted', 'a part with a segment that it had adopted', [whole(), taken]);
}
spool('whole-other-files', 'files of other names in a part stay there', [whole()], {
  files: { [`${ONE}/notes.txt`]: Buffer.from('mine\n'), [`${ONE}/AA.segment`]: Buffer.from('mine\n') },
  expect: { left: [`${ONE}/AA.segment`, `${ONE}/notes.txt`] },
});
spool('whole-other-directories', 'directories of other names are not looked at', [whole()], {
  files: {
    [`series/${idOf(TWO, 0).toString('hex')}.segment`]: Buffer.concat(new Segment(TWO).event('{}').pieces),
  },
  expect: { left: [`series/${idOf(TWO, 0).toString('hex')}.segment`] },
});

/* Marks. */

{
  const segment = whole().end();
  spool('marks-some', 'the second of three events is done', [
    segment.marked([segment.offsets[1]]).without(1),
  ]);
}
{
  const segment = whole();
  spool('marks-batches', 'two batches', [
    segment.marked([segment.offsets[0]], [segment.offsets[2]]).without(0, 2),
  ]);
}
{
  const segment = whole().end();
  spool('marks-all', 'all events are done', [segment.marked(segment.offsets).without(0, 1, 2)]);
}
{
  const segment = whole();
  spool('marks-twice', 'a mark stands twice', [
    segment.marked([segment.offsets[1], segment.offsets[1]], [segment.offsets[1]]).without(1),
  ]);
}
{
  const segment = whole();
  segment.marks = marks(segment.id, [segment.offsets[0]], [segment.offsets[1]]).subarray(0, -1);
  spool('marks-torn', 'the last batch is torn, and does not count', [segment.without(0)]);
}
{
  const segment = whole();
  segment.marks = Buffer.concat([
    marks(segment.id, [segment.offsets[0]]),
    marks(idOf(ONE, 9), [segment.offsets[1]]),
    marks(segment.id, [segment.offsets[2]]),
  ]);
  spool('marks-damaged', 'behind a batch that does not hold nothing counts', [segment.without(0)]);
}
{
  const segment = whole();
  segment.marks = marks(idOf(TWO, 0), [segment.offsets[0]]);
  spool('marks-of-another', 'marks of another segment under its name', [segment]);
}
{
  const segment = whole();
  segment.marks = Buffer.alloc(0);
  spool('marks-empty', 'a file of marks without a byte', [segment]);
}
{
  const segment = whole();
  segment.marks = Buffer.concat([u32(0), u32(0xffff_ffff), u32(segment.offsets[0])]);
  spool('marks-too-many', 'a batch of more marks than the file holds', [segment]);
}
spool('marks-nowhere', 'marks where no frame begins', [whole().end().marked([65, 4_000_000])]);
spool('marks-alone', 'marks whose segment is gone', [whole()], {
  files: { [`${ONE}/${idOf(ONE, 3).toString('hex')}.done`]: marks(idOf(ONE, 3), [64]) },
});

/* Cut off: every length from that of the whole frames before to that of the whole frame. */

/** Cases with the last frame cut at every byte; its event was never acknowledged. */
function torn(name, what, segment, last, more = {}) {
  const size = segment.size - segment.pieces.at(-1).length;
  const file = `${segment.series}/${segment.name}.segment`;
  const truncate = { file, from: size + 1, to: segment.size - 1 };
  spool(name, what, [segment.without(last)], { truncate, ...more, expect: { cut: 1 } });
}
torn('torn', 'the last of three frames was cut off', whole(), 2);
torn('torn-only', 'the only frame was cut off', new Segment().event('{"n":0}'), 0);
torn('torn-end', 'the frame that ends the segment was cut off', whole().end(), 9);
torn(
  'torn-sealed',
  'a sealed frame was cut off',
  new Segment(ONE, 0, { key: KEY }).event('{"n":0}').event('{}'),
  1,
  {
    key: KEY,
  },
);
{
  const segment = whole();
  const file = `${ONE}/${segment.name}.segment`;
  segment.events = [];
  spool('torn-header', 'a segment was cut off in its header', [segment], {
    truncate: { file, from: 0, to: 64 },
  });
}
{
  const segment = whole();
  spool(
    'torn-large',
    'a frame of which a page was written',
    [segment.bytes(frame(segment.id, 2, 3, JSON.stringify({ long: 'x'.repeat(20_000) })).subarray(0, 4096))],
    { expect: { cut: 1 } },
  );
}

/* No cut: damage. */

{
  const segment = whole().end();
  const at = segment.size;
  spool(
    'tail-behind-end',
    'half a frame behind the frame that ends the segment',
    [segment.bytes(frame(segment.id, 2, 3, '{}').subarray(0, 33))],
    { expect: { damaged: [damagedAt(segment, at, 33)] } },
  );
}
{
  const segment = whole();
  const at = segment.size;
  spool('tail-no-marker', 'bytes at the end that are no frame', [segment.bytes(Buffer.alloc(20, 0x41))], {
    expect: { damaged: [damagedAt(segment, at, 20)] },
  });
}
{
  const segment = whole();
  const at = segment.size;
  spool(
    'tail-small-size',
    'a head at the end whose size is less than a head takes',
    [segment.bytes(frame(segment.id, 2, 3, '{}', { size: 31 }).subarray(0, 32))],
    { expect: { damaged: [damagedAt(segment, at, 32)] } },
  );
}
{
  const segment = whole();
  const at = segment.size;
  spool(
    'tail-changed',
    'the last frame was changed',
    [segment.event('{"n":3}', { checksum: Buffer.from('other'), lost: true })],
    { expect: { damaged: [damagedAt(segment, at, 39)] } },
  );
}
{
  const segment = whole();
  spool('tail-zeros', 'zeros at the end, which a loss of power leaves, are not kept', [
    segment.bytes(Buffer.alloc(4096)),
  ]);
}
{
  const segment = whole();
  const at = segment.size;
  spool(
    'tail-half-and-zeros',
    'half a frame and then zeros',
    [segment.bytes(frame(segment.id, 2, 3, 'y'.repeat(60)).subarray(0, 60)).bytes(Buffer.alloc(4096))],
    { expect: { damaged: [damagedAt(segment, at, 60 + 4096)] } },
  );
}

/* Damage between frames. */

{
  const segment = new Segment();
  segment
    .event('{"n":0}')
    .event('{"n":1}', { checksum: Buffer.from('other'), lost: true })
    .event('{"n":2}');
  spool('damaged-middle', 'the second of three frames was changed', [segment], {
    expect: { damaged: [damagedAt(segment, segment.offsets[1], 39)], missing: 1 },
  });
}
{
  const segment = new Segment();
  segment
    .event('{"n":0}', { checksum: Buffer.from('other'), lost: true })
    .event('{"n":1}')
    .event('{"n":2}');
  spool('damaged-first', 'the first frame was changed', [segment], {
    expect: { damaged: [damagedAt(segment, 64, 39)], missing: 1 },
  });
}
{
  const segment = whole();
  const at = segment.size;
  segment.event('{"n":3}', { checksum: Buffer.from('other'), lost: true }).end();
  spool('damaged-last', 'the last frame before the end was changed', [segment], {
    expect: { damaged: [damagedAt(segment, at, 39)], missing: 1 },
  });
}
for (const [name, what, damage] of [
  ['marker', 'a frame without its marker', { marker: Buffer.alloc(4) }],
  ['small', 'a frame that names less than a head takes', { size: 8 }],
  ['short', 'a frame that names a size below its own', { size: 33 }],
  ['long', 'a frame that names a size beyond the next', { size: 60 }],
  ['beyond', 'a frame that names a size beyond the file', { size: 1 << 30 }],
  ['kind', 'a kind that does not exist', { kind: 7 }],
  ['flags', 'a flag that does not exist', { flags: 2 }],
  ['sealed', 'a frame that says it is sealed, in a segment that is not', { flags: 1 }],
  ['time', 'a time beyond the last', { at: 8_640_000_000_000_001n }],
]) {
  const segment = new Segment()
    .event('{"n":0}')
    .event('{"n":1}', { ...damage, lost: true })
    .event('{"n":2}')
    .end();
  spool(`damaged-${name}`, what, [segment], {
    expect: { damaged: [damagedAt(segment, segment.offsets[1], 39)], missing: 1 },
  });
}
{
  const segment = new Segment().event('{"n":0}');
  const at = segment.size;
  segment
    .bytes(frame(idOf(TWO, 0), 2, 0, '{"not":"this"}'))
    .event('{"n":1}')
    .end();
  spool('damaged-foreign-frame', 'a whole frame of another segment between two', [segment], {
    expect: { damaged: [damagedAt(segment, at, 46)] },
  });
}
{
  const segment = new Segment().event('{"n":0}');
  const at = segment.size;
  segment
    .bytes(Buffer.concat([Buffer.alloc(9, 1), MARKER, MARKER, Buffer.alloc(7, 2)]))
    .event('{"n":1}')
    .end();
  spool('damaged-markers', 'markers in bytes that are no frame', [segment], {
    expect: { damaged: [damagedAt(segment, at, 24)] },
  });
}
{
  const segment = new Segment()
    .event('{"n":0}')
    .event('{"n":1}', { checksum: Buffer.from('other'), lost: true });
  segment.event('{"n":2}').end().marked([segment.offsets[1]]);
  spool('damaged-and-done', 'the frame that was changed was done', [segment], {
    expect: { damaged: [damagedAt(segment, segment.offsets[1], 39)] },
  });
}
spool(
  'missing-middle',
  'frames are missing of which no byte is left',
  [new Segment().event('{"n":0}').event('{"n":3}', { number: 3 }).end()],
  { expect: { missing: 2 } },
);
spool('missing-first', 'the first frame is missing', [new Segment().event('{"n":1}', { number: 1 })], {
  expect: { missing: 1 },
});
spool('missing-last', 'the frame that ends the segment says more than there are', [whole().end(5)], {
  expect: { missing: 2 },
});
spool('missing-none', 'the frame that ends the segment says fewer than there are', [whole().end(1)]);
spool('missing-all', 'a frame that ends a segment, and nothing before it', [new Segment().end(4)], {
  expect: { missing: 4 },
});
spool(
  'missing-many',
  'the frame that ends the segment says more than it could hold',
  [whole().end(1_000_000)],
  {
    expect: { missing: 999_997 },
  },
);
spool('end-in-the-middle', 'events behind a frame that ends the segment', [whole().end().event('{"n":3}')]);
spool('number-twice', 'two frames have one number', [whole().event('{"n":3}', { number: 2 })]);

/* Headers. */

for (const [name, what, bytes] of [
  [
    'checksum',
    'a header that was changed',
    Buffer.concat([header(idOf(ONE, 0)).subarray(0, 63), Buffer.from([0x5a])]),
  ],
  ['zeros', 'a header of zeros', Buffer.alloc(64)],
  ['magic', 'a header that begins otherwise', header(idOf(ONE, 0), { magic: 'XX-SPOOL' })],
  ['foreign', 'the header of another segment, which says nothing', header(idOf(TWO, 0)).fill(0, 60, 61)],
]) {
  const segment = new Segment(ONE, 0, { header: bytes }).event('{"n":0}').event('{"n":1}').end();
  spool(`header-${name}`, `${what}: the segment is read by its name`, [segment]);
}
{
  const old = new Segment(ONE, 0, { magic: 'CE-SPOOL', version: 2 }).event('{}').without(0);
  spool(
    'version-earlier',
    'a segment from before version 1: the spool is refused, and nothing is touched',
    [old, new Segment(TWO).event('{}').without(0)],
    {
      expect: {
        refused: 'format',
        left: [`${ONE}/${old.name}.segment`, `${TWO}/${idOf(TWO, 0).toString('hex')}.segment`],
      },
    },
  );
}
for (const [name, what, options] of [
  ['version-2', 'a segment of a later version is left alone', { version: 2 }],
  ['version-0', 'a segment of no version is left alone', { version: 0 }],
  ['cipher-2', 'a segment of a cipher that is not known is left alone', { cipher: 2 }],
]) {
  const later = new Segment(ONE, 1, options).event('{}').without(0);
  spool(name, what, [whole().end(), later], { expect: { left: [`${ONE}/${later.name}.segment`] } });
}
for (const kind of ['link', 'directory', 'pipe']) {
  const file = `${ONE}/${idOf(ONE, 1).toString('hex')}.segment`;
  spool(`no-file-${kind}`, `a ${kind} with the name of a segment is left alone`, [whole().end()], {
    make: { [file]: kind },
    expect: { left: [file] },
  });
}

/* Sealed. */

const sealed = () => new Segment(ONE, 0, { key: KEY }).event('{"n":0}').event('{"n":1}');
spool('sealed', 'a sealed segment', [sealed().end()], { key: KEY });
spool(
  'sealed-and-clear',
  'a sealed part and one in the clear',
  [sealed(), new Segment(TWO).event('{"n":2}')],
  { key: KEY },
);
{
  const segment = sealed();
  spool(
    'sealed-no-key',
    'a client without a key leaves a sealed part alone',
    [segment.without(0, 1), new Segment(TWO).event('{"n":2}')],
    {
      expect: { left: [`${ONE}/${segment.name}.segment`] },
    },
  );
}
{
  const segment = sealed();
  spool(
    'sealed-other-key',
    'a client with another key refuses the spool, and touches nothing',
    [segment.without(0, 1), new Segment(TWO).event('{}').without(0)],
    {
      key: OTHER_KEY,
      expect: {
        refused: 'key',
        left: [`${ONE}/${segment.name}.segment`, `${TWO}/${idOf(TWO, 0).toString('hex')}.segment`],
      },
    },
  );
}
{
  const segment = new Segment(ONE, 0, { key: KEY })
    .event('{"n":0}')
    .event('{"n":1}', { tampered: true, lost: true });
  segment.event('{"n":2}').end();
  spool('sealed-tampered', 'a sealed frame that does not open', [segment], {
    key: KEY,
    expect: { damaged: [damagedAt(segment, segment.offsets[1], 55)], missing: 1 },
  });
}

/* Whose the parts are. `here`: the boot of this host; `elsewhere`: another one; `lock`: free, held or none. */

for (const [name, what, owner, lock, found] of [
  ['none', 'a part without an owner is abandoned', 'none', 'none', 'taken'],
  ['none-held', 'a part without an owner is abandoned, whatever its lock', 'none', 'held', 'taken'],
  ['here-free', 'a part of this boot whose lock refuses is abandoned', 'here', 'free', 'taken'],
  ['here-held', 'a part of this boot whose lock answers is held', 'here', 'held', 'held'],
  ['here-missing', 'a part of this boot without a lock is watched', 'here', 'none', 'watched'],
  ['elsewhere-free', 'a part of another boot is watched, whatever its lock', 'elsewhere', 'free', 'watched'],
  ['elsewhere-missing', 'a part of another boot without a lock is watched', 'elsewhere', 'none', 'watched'],
  [
    'elsewhere-old',
    'a part of another boot is watched, however old its owner is',
    'elsewhere',
    'none',
    'watched',
  ],
  ['empty', 'an owner that names no host is one of another', 'empty', 'none', 'watched'],
]) {
  const segment = whole().end();
  const left = [`${ONE}/${segment.name}.segment`];
  if (found === 'held') segment.without(0, 1, 2);
  spool(`owner-${name}`, what, [segment], {
    ...{ owner, lock },
    ...(name.endsWith('old') && { touched: '2020-01-01T00:00:00Z' }),
    // Given out only after `owner` was unchanged for three minutes.
    expect: found === 'held' ? { left } : found === 'watched' ? { watched: true } : {},
  });
}
spool('draft', 'a part that was never made is not read', [whole()], {
  files: { [`new-${TWO}/owner`]: Buffer.from('elsewhere\n1\n') },
  expect: { left: [`new-${TWO}/owner`] },
});

fs.mkdirSync(OUT, { recursive: true });
for (const name of fs.readdirSync(OUT)) {
  if (fs.statSync(path.join(OUT, name)).isDirectory()) fs.rmSync(path.join(OUT, name), { recursive: true });
}
for (const { name, files, said } of cases) {
  for (const [file, bytes] of Object.entries(files)) {
    const at = path.join(OUT, name, 'spool', file);
    fs.mkdirSync(path.dirname(at), { recursive: true });
    fs.writeFileSync(at, bytes);
  }
  fs.mkdirSync(path.join(OUT, name), { recursive: true });
  fs.writeFileSync(path.join(OUT, name, 'case.json'), `${JSON.stringify(said, null, 2)}\n`);
}
console.log(`${cases.length} spools in ${OUT}`);
