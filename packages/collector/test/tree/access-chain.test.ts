import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { decodeEnvelope, ENTRY_KINDS, encodeLeaf } from '@clinical-events/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { AccessChain, headFields, headIn } from '../../src/tree/access-chain.js';
import { commitmentOf, encodedLeafHash } from '../../src/tree/merkle.js';
import { uuidText } from '../../src/store/text.js';

/** As docs/INTEGRITY.md has it. */
function headOf(lines: readonly Uint8Array[]): string {
  let head: Buffer = Buffer.alloc(32);
  for (const line of lines) head = createHash('sha256').update(head).update(line).digest();
  return head.toString('hex');
}

const line = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.integer({ min: 4000, max: 9000 }).map((length) => new Uint8Array(length).fill(length)),
);
const lines = fc.array(line.map((bytes) => bytes.map((byte) => (byte === 0x0a ? 0x0b : byte))));

test('[R-718] the head does not depend on the pieces in which lines are read, and each line is passed on', () => {
  fc.assert(
    fc.property(lines, fc.uint8Array({ maxLength: 20 }), fc.array(fc.nat(5000)), (whole, rest, cuts) => {
      const behind = rest.filter((byte) => byte !== 0x0a);
      const bytes = Buffer.concat([...whole.flatMap((each) => [each, Buffer.of(0x0a)]), behind]);
      const chain = new AccessChain(5000);
      const got: (Buffer | undefined)[] = [];
      let at = 0;
      for (const cut of [...cuts, bytes.length]) {
        const piece = Buffer.from(bytes.subarray(at, at + cut));
        chain.take(piece, (each) => got.push(each && Buffer.from(each)));
        piece.fill(0);
        at += cut;
      }
      expect(chain.head).toEqual({ lines: whole.length, head: headOf(whole) });
      expect([chain.bytes, chain.pending]).toEqual([bytes.length - behind.length, behind.length]);
      expect(got).toEqual(whole.map((each) => (each.length > 5000 ? undefined : Buffer.from(each))));
      // An unfinished line is read again from its beginning.
      chain.rewind();
      chain.take(Buffer.concat([behind, Buffer.of(0x0a)]));
      expect(chain.head.head).toBe(headOf([...whole, behind]));
    }),
  );
});

test('[R-718] a line that is changed, removed, inserted or moved changes the head', () => {
  const log = ['a', 'b', 'c'].map((text) => Buffer.from(text));
  const [a, b, c] = log as [Buffer, Buffer, Buffer];
  const others = [
    [a, c],
    [a, b],
    [b, c],
    [a, c, b],
    [a, b, b, c],
    [Buffer.from('ab'), c],
    [a, Buffer.from('x'), c],
  ];
  expect(new Set([log, ...others].map(headOf)).size).toBe(8);
});

test('a head is read as it was written, and other texts are not read as one', () => {
  const head = { lines: 7, head: 'ab'.repeat(32) };
  const text = JSON.stringify({ event_id: 'x', ...headFields(head) });
  expect(headIn(Buffer.from(text))).toEqual(head);
  for (const [from, to] of [
    ['v1', 'v2'],
    [':7', ':-7'],
    [':7', ':"7"'],
    ['ab', 'AB'],
    ['ab', ''],
    ['{', '[{'],
  ] as const) {
    expect(headIn(Buffer.from(text.replace(from, to)))).toBeUndefined();
  }
  fc.assert(fc.property(fc.json(), (json) => headIn(Buffer.from(json)) === undefined));
});

test('[R-2056] a head names its file, except for the first file; a closing head always does', () => {
  const head = { lines: 7, head: 'ab'.repeat(32) };
  const file = 'access-2027.log';
  const bodyOf = (logged: Parameters<typeof headFields>[0]) => JSON.stringify(headFields(logged));
  const read = (body: string) => headIn(Buffer.from(body));
  for (const logged of [head, { ...head, file }, { ...head, closes: true }, { ...head, file, closes: true }])
    expect(read(bodyOf(logged))).toEqual(logged);
  expect(bodyOf(head)).not.toContain('file');
  expect(bodyOf({ ...head, closes: true })).toContain('"file":"access.log"');
  for (const name of ['../access.log', 'access-27.log', 'access-2027.log/x', 'mirror-access.log', '']) {
    expect(read(bodyOf({ ...head, file: name }))).toBeUndefined();
    expect(read(bodyOf({ ...head, file: name, closes: true }))).toBeUndefined();
  }
  expect(read(bodyOf({ ...head, closes: true }).replace('"file":"access.log",', ''))).toBeUndefined();
});

test('[R-718] the example of docs/INTEGRITY.md is what the collector computes from its lines', () => {
  const page = fs.readFileSync(new URL('../../../../docs/INTEGRITY.md', import.meta.url), 'utf8');
  const lines = page.match(/(?<=^ {4})\{"at":.*$/gm) ?? [];
  const told = (what: string) =>
    new RegExp(`^\\| ${what}[^|]*\\| \`(.*?)\` +\\|$`, 'm').exec(page)?.[1] ?? '';
  const chain = new AccessChain();
  const heads: string[] = [];
  chain.take(Buffer.from(`${lines.join('\n')}\n`), () => heads.push(chain.head.head));
  expect(heads).toEqual([told('h\\(1\\)'), told('h\\(2\\)')]);
  const envelope = Buffer.from(told('envelope'), 'hex');
  const { kind, keyId, organisation, eventId, runId, parentId } = decodeEnvelope(envelope).envelope;
  expect([kind, keyId, organisation]).toEqual([ENTRY_KINDS.accessLogHead, 'accesslog000', '']);
  expect(Buffer.concat([runId, parentId])).toEqual(Buffer.alloc(32));
  const body = told('body');
  expect(body).toBe(JSON.stringify({ event_id: uuidText(eventId), ...headFields(chain.head) }));
  const commitment = commitmentOf(Buffer.concat([Buffer.from(told('salt'), 'hex'), Buffer.from(body)]));
  const leaf = Buffer.alloc(73);
  encodeLeaf(leaf, 0, envelope, createHash('sha256').update(envelope).digest(), commitment);
  const leafHash = Buffer.alloc(32);
  encodedLeafHash(leaf, leafHash, 0);
  expect([commitment, leaf, leafHash].map((bytes) => Buffer.from(bytes).toString('hex'))).toEqual([
    ...[told('SHA-256\\(salt'), told('leaf'), told('SHA-256\\(00')],
  ]);
});
