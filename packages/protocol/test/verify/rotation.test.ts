import { describe, expect, it } from 'vitest';
import { formatRotation, parseRotation, NoteMalformed } from '../../src/verify/index.js';
import { ORIGIN, sampleKey } from './sample-log.js';

const [oldKey, newKey, otherLog] = [sampleKey().vkey, sampleKey().vkey, sampleKey('other.example').vkey];
const rotation = { origin: ORIGIN, oldKey, newKey, until: '2026-03-09T00:00:00Z' };
const good = `clinical-events/key-rotation/v1\n${ORIGIN}\n${oldKey}\n${newKey}\n2026-03-09T00:00:00Z\n`;
/** An Ed25519 key for cosignatures. */
const witness = `${ORIGIN}+0badcafe+${Buffer.alloc(33, 4).toString('base64')}`;

describe('the text of a rotation note', () => {
  it('[R-905] has five lines, which are read back as they were written', () => {
    expect(formatRotation(rotation)).toBe(good);
    expect(parseRotation(good)).toEqual(rotation);
  });

  it.each([
    ['nothing', '', 'begin as a rotation'],
    ['another first line', good.replace('/v1', '/v2'), 'begin as a rotation'],
    ['four lines', good.replace(`${newKey}\n`, ''), 'five lines'],
    ['six lines', `${good}more\n`, 'five lines'],
    ['no newline at the end', good.slice(0, -1), 'five lines'],
    ['a malformed key', good.replace(newKey, 'key'), 'is malformed'],
    ['a key of another log', good.replace(newKey, otherLog), 'name of the log'],
    ['an old key of another log', good.replace(oldKey, otherLog), 'name of the log'],
    ['a key for cosignatures', good.replace(newKey, witness), 'signs no notes'],
    ['the same key twice', good.replace(newKey, oldKey), 'to itself'],
    ['a time with an offset', good.replace('T00:00:00Z\n', 'T00:00:00+00:00\n'), 'instant in UTC'],
    ['a day that does not exist', good.replace('03-09', '02-30'), 'instant in UTC'],
  ])('is refused with %s', (_, text, message) => {
    expect(() => parseRotation(text)).toThrow(NoteMalformed);
    expect(() => parseRotation(text)).toThrow(message);
  });

  it('is not written for a log whose name is its own first line', () => {
    const origin = 'clinical-events/key-rotation/v1';
    const [from, to] = [sampleKey(origin).vkey, sampleKey(origin).vkey];
    expect(() => formatRotation({ ...rotation, origin, oldKey: from, newKey: to })).toThrow(NoteMalformed);
  });

  it('is not written with a line too many in a part', () => {
    expect(() => formatRotation({ ...rotation, until: `${rotation.until}\nmore` })).toThrow(NoteMalformed);
  });
});
