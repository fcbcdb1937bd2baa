/**
 * Written from RFC 6962, RFC 9162 (2.1.3.2), RFC 8410 and the C2SP texts tlog-proof, tlog-checkpoint and signed-note,
 * and from the description of a leaf. It shares nothing with the code that it checks.
 */
import assert from 'node:assert/strict';
import { createHash, createPublicKey, verify } from 'node:crypto';

function sha256(...parts: readonly Uint8Array[]): Buffer {
  return createHash('sha256').update(Buffer.concat(parts)).digest();
}

/** The text of a note, once the key has signed it. */
export function signedText(note: string, vkey: string): string {
  const [, name = '', id = '', encoded = ''] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/.exec(vkey) ?? [];
  const typeAndKey = Buffer.from(encoded, 'base64');
  assert.equal(sha256(Buffer.from(`${name}\n`), typeAndKey).toString('hex', 0, 4), id, 'key id');
  const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), typeAndKey.subarray(1)]);
  const key = createPublicKey({ key: der, format: 'der', type: 'spki' });
  const blank = note.lastIndexOf('\n\n');
  const text = note.slice(0, blank + 1);
  const isSigned = note
    .slice(blank + 2)
    .split('\n')
    .some((line) => {
      const [dash, who, signature = ''] = line.split(' ');
      const bytes = Buffer.from(signature, 'base64');
      if (dash !== '\u2014' || who !== name || bytes.toString('hex', 0, 4) !== id) return false;
      return verify(null, Buffer.from(text), key, bytes.subarray(4));
    });
  assert(isSigned, 'signature');
  assert.equal(text.split('\n')[0], name, 'origin');
  return text;
}

/** @throws AssertionError when the proof does not show that the body is in the log of this key. */
export function verifyIndependently(
  proof: string,
  body: Uint8Array,
  vkey: string,
): { index: number; size: number } {
  const blank = proof.indexOf('\n\n');
  const [version, extraLine = '', indexLine = '', ...path] = proof.slice(0, blank).split('\n');
  assert.equal(version, 'c2sp.org/tlog-proof@v1');
  const [, size, root] = signedText(proof.slice(blank + 2), vkey).split('\n');
  const index = Number(/^index (\d+)$/.exec(indexLine)?.[1]);
  const extra = Buffer.from(/^extra (.+)$/.exec(extraLine)?.[1] ?? '', 'base64');
  const [envelope, salt] = [extra.subarray(0, -16), extra.subarray(-16)];
  let hash = sha256(Buffer.of(0, 1), envelope.subarray(6, 14), sha256(envelope), sha256(salt, body));
  let [fn, sn] = [index, Number(size) - 1];
  assert(fn <= sn, 'index');
  for (const sibling of path.map((line) => Buffer.from(line, 'base64'))) {
    assert(sn > 0, 'path too long');
    const isRight = fn % 2 === 1 || fn === sn;
    hash = isRight ? sha256(Buffer.of(1), sibling, hash) : sha256(Buffer.of(1), hash, sibling);
    while (isRight && fn % 2 === 0 && fn !== 0) [fn, sn] = [fn >> 1, sn >> 1];
    [fn, sn] = [fn >> 1, sn >> 1];
  }
  assert.deepEqual([sn, hash.toString('base64')], [0, root], 'root');
  return { index, size: Number(size) };
}

/** The head over the first lines of an access log, computed as docs/INTEGRITY.md says. */
export function independentHead(log: Uint8Array, lines: number): string {
  let head: Buffer = Buffer.alloc(32);
  let at = 0;
  for (let line = 0; line < lines; line++) {
    const end = log.indexOf(10, at);
    assert(end >= 0, 'a line is missing');
    head = sha256(head, log.subarray(at, end));
    at = end + 1;
  }
  return head.toString('hex');
}

/** The content of an action, in words of docs/INTEGRITY.md, and the numbers of the events that it erased. */
export interface IndependentAction {
  readonly number: number;
  readonly at: number;
  readonly action: string;
  readonly does: string;
  readonly erased: readonly { readonly organisation: string; readonly events: readonly number[] }[];
}

/** @throws AssertionError when the proof does not show that the body is an action of the log of this key. */
export function independentAction(proof: string, body: Buffer, vkey: string): IndependentAction {
  const { index } = verifyIndependently(proof, body, vkey);
  const envelope = Buffer.from(/^extra (.+)$/m.exec(proof)?.[1] ?? '', 'base64');
  assert.equal(envelope[1], 0x80, 'kind');
  const read = JSON.parse(body.toString()) as Record<string, string> & {
    keys?: { organisation: string; sequences: string }[];
  };
  assert.equal(read['event_id']?.replaceAll('-', ''), envelope.toString('hex', 14, 30), 'id');
  assert.equal(read['format'], 'clinical-events/action/v1');
  const { action = '', does = '', keys = [] } = read;
  const erased = keys.map(({ organisation, sequences }) => ({ organisation, events: numbersIn(sequences) }));
  return { number: index + 1, at: Number(envelope.readBigUInt64BE(6)), action, does, erased };
}

/** The numbers in the text of a set. */
export function numbersIn(text: string): number[] {
  const read = [0];
  let scale = 1;
  for (const byte of Buffer.from(text, 'base64')) {
    read.push((read.pop() ?? 0) + (byte % 128) * scale);
    scale = byte < 128 ? 1 : scale * 128;
    if (byte < 128) read.push(0);
  }
  const numbers: number[] = [];
  for (let i = 0, end = 0; i + 1 < read.length; i += 2) {
    const first = end + (read[i] ?? 0);
    end = first + (read[i + 1] ?? 0);
    for (let number = first; number < end; number++) numbers.push(number);
  }
  return numbers;
}
