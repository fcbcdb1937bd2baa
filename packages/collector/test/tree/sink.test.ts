import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseSinks } from '../../src/tree/sink.js';
import { FakeWitness } from './fake-witness.js';
import { newKey } from './sample-log.js';
import { Unusable } from '../../src/unusable.js';

const { key } = new FakeWitness();

function refusalOf(text: string): string {
  try {
    parseSinks(text);
  } catch (error) {
    if (error instanceof Unusable) return error.message;
  }
  throw new Error(`${text} is not refused`);
}

describe('the option --checkpoint-sink', () => {
  test('[R-906] names directories, files, programs and witnesses, in the order given', () => {
    const text = `dir:/mnt/worm, file:/var/log/checkpoints,command:/opt/keep,https://witness.example/a/#${key.vkey}`;
    expect(parseSinks(text)).toEqual([
      { kind: 'directory', path: '/mnt/worm', shown: 'dir:/mnt/worm' },
      { kind: 'file', path: '/var/log/checkpoints', shown: 'file:/var/log/checkpoints' },
      { kind: 'program', path: '/opt/keep', shown: 'command:/opt/keep' },
      {
        kind: 'witness',
        prefix: 'https://witness.example/a',
        key,
        shown: 'https://witness.example/a (witness.example/w1)',
      },
    ]);
  });

  test('names none when it is empty', () => {
    expect([parseSinks(''), parseSinks('  ')]).toEqual([[], []]);
  });

  test('makes a path absolute', () => {
    const absolute = path.resolve('worm');
    expect(parseSinks('dir:worm')).toEqual([{ kind: 'directory', path: absolute, shown: `dir:${absolute}` }]);
  });

  test('takes http:// from a loopback address only', () => {
    for (const host of ['localhost', '127.0.0.1:8080', '127.9.9.9', '[::1]:80']) {
      expect(parseSinks(`http://${host}/w#${key.vkey}`)).toHaveLength(1);
    }
    for (const host of ['witness.example', '10.0.0.1', '127.0.0.1.example', 'localhost.example', '[::2]']) {
      expect(refusalOf(`http://${host}/w#${key.vkey}`)).toContain('must be https://');
    }
  });

  test('never shows a user name, a password or a query', () => {
    const secret = 'hunter2';
    for (const text of [
      `https://user:${secret}@witness.example/#${key.vkey}`,
      `https://${secret}@witness.example/#${key.vkey}`,
      `https://user:${secret}@witness example/#${key.vkey}`,
      `https://witness.example/?token=${secret}#${key.vkey}`,
      `ftp://user:${secret}@witness.example/`,
      `file://user:${secret}@host/path`,
      `https://user:p/${secret}@witness.example/#${key.vkey}`,
      `https:/user:${secret}@witness.example/#${key.vkey}`,
      `https://user:${secret},more@witness.example/#${key.vkey}`,
      `https://user:more,${secret}@witness.example/#${key.vkey}`,
    ]) {
      expect(refusalOf(text)).not.toContain(secret);
    }
    expect(refusalOf(`https://user:${secret}@witness.example/#${key.vkey}`)).toBe(
      '"https:..." contains a user name or a password, and witnesses need none',
    );
  });

  test.each([
    ['dir:/a,', 'a sink is empty: there is a comma too many'],
    ['dir:', 'dir: is not followed by a path'],
    ['file:', 'file: is not followed by a path'],
    ['file:///var/log/x', '"file:///var/log/x" is a URL; write file: and then the path'],
    ['dir:/a\u0007b', 'the path in "dir:/a\\u0007b" has a control character'],
    [
      '/mnt/worm',
      '"/mnt/worm" does not begin with dir:, file:, command: or https://; several sinks are separated by commas',
    ],
    ['dir:/a,dir:/a', 'dir:/a is given twice'],
    ['dir:/a,file:/a', 'file:/a is given twice'],
    ['https://', '"https://" is not a URL'],
    [
      'https://w.example/?',
      '"https://w.example/" contains a question mark; give the prefix before /add-checkpoint',
    ],
    [
      'https://w.example/a',
      '"https://w.example/a" lacks the witness\'s verifier key; write https://w.example/a#<name>+<id>+<key>',
    ],
    [
      'https://w.example/#',
      '"https://w.example/" lacks the witness\'s verifier key; write https://w.example#<name>+<id>+<key>',
    ],
  ])('refuses %s in one line', (text, message) => {
    expect(refusalOf(text)).toBe(message);
  });

  test('refuses a verifier key that is malformed, that of a log, or whose key id is not its own', () => {
    const prefix = 'https://w.example/';
    expect(refusalOf(`${prefix}#rubbish`)).toMatch(
      /^the verifier key in "https:\/\/w\.example\/" cannot be used: /,
    );
    expect(refusalOf(`${prefix}#${newKey().key.vkey}`)).toContain(
      'it has type 1; the key of a witness has type 4 or 6',
    );
    const wrongId = key.vkey.replace(/\+[0-9a-f]{8}\+/, '+00000000+');
    expect(refusalOf(`${prefix}#${wrongId}`)).toContain('key id');
    const unshowable = new FakeWitness('witness\u202e.example').key.vkey;
    expect(refusalOf(`${prefix}#${unshowable}`)).toContain('its name has a control character');
  });

  test('refuses two witnesses with one key, whose cosignatures would share a file', () => {
    const text = `https://a.example/#${key.vkey},https://b.example/#${key.vkey}`;
    expect(refusalOf(text)).toBe('https://b.example (witness.example/w1) is given twice');
  });
});
