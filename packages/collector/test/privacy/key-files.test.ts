/** Key states, the key that wraps them, and names. */
import { createSecretKey, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { nodeFiles } from '../../src/files.js';
import { isKekFile, kekFault, newKekFile, openKek } from '../../src/privacy/key-encryption-key.js';
import {
  decodeKeyState,
  encodeKeyState,
  keyStateHeader,
  type KeyState,
} from '../../src/privacy/key-state.js';
import { KeyFiles } from '../../src/privacy/key-files.js';
import { epochName } from '../../src/privacy/key-record.js';
import { VaultAway } from '../../src/privacy/key-vault.js';
import { openKeys } from '../../src/privacy/open-keys.js';
import { newRoot } from '../../src/privacy/key-tree.js';
import { SyntheticIv } from '../../src/privacy/name-cipher.js';
import { temporaryDirectory } from '../running/collector-process.js';

let directory: string;
beforeEach(() => {
  directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
});

const EPOCH_KEY = createSecretKey(randomBytes(32));
const STATE: KeyState = {
  ...{
    kind: 1,
    ledgerId: '0123456789abcdef0123456789abcdef',
    bucketId: randomBytes(16),
    firstSequence: 4_200_001,
  },
  ...{
    generation: 3,
    epoch: 2,
    trees: new Map([
      ['icu', [newRoot()]],
      ['é', []],
    ]),
  },
};

describe('[R-1323] a key state', () => {
  test('is read as it was written, and contains no key in the clear', () => {
    const file = encodeKeyState(STATE, EPOCH_KEY);
    expect(decodeKeyState(file, EPOCH_KEY)).toEqual(STATE);
    const { trees, ...header } = STATE;
    expect(keyStateHeader(file)).toEqual(header);
    for (const [{ value } = newRoot()] of trees.values())
      expect(file.includes(value, 0, 'latin1')).toBe(false);
    expect(file.length).toBeLessThan(200);
  });

  test('that was changed anywhere, cut off, or is under another epoch is not read', () => {
    const file = encodeKeyState(STATE, EPOCH_KEY);
    for (let i = 0; i < file.length; i++) {
      const changed = Buffer.from(file);
      changed[i] = (changed[i] ?? 0) ^ 64;
      expect(decodeKeyState(changed, EPOCH_KEY), `byte ${i}`).toBeUndefined();
      expect(decodeKeyState(file.subarray(0, i), EPOCH_KEY)).toBeUndefined();
    }
    expect(decodeKeyState(file, createSecretKey(randomBytes(32)))).toBeUndefined();
  });
});

test('[R-1323] a record that another process removes while it is read is missing; a removed directory is not there', () => {
  for (const [gone, isAway] of [
    ['epochs/0000001.json', false],
    ['', true],
  ] as const) {
    const file = path.join(directory, epochName(1));
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, 'an epoch');
    const open: typeof nodeFiles.open = (name, flags) => {
      fs.rmSync(path.join(directory, gone), { recursive: true });
      return nodeFiles.open(name, flags);
    };
    const read = () => new KeyFiles(directory, { ...nodeFiles, open }).read(epochName(1));
    if (isAway) expect(read).toThrow(VaultAway);
    else expect(read()).toBeUndefined();
  }
});

describe('[R-1323] the key that wraps the others', () => {
  test('in a file wraps and unwraps', async () => {
    const file = path.join(directory, 'kek');
    fs.writeFileSync(file, newKekFile(), { mode: 0o600 });
    expect(isKekFile(fs.readFileSync(file))).toBe(true);
    for (const text of ['', 'AAAA', newKekFile().toString().slice(1)])
      expect(isKekFile(Buffer.from(text))).toBe(false);
    const [kek, key] = [openKek(`file:${file}`), randomBytes(32)];
    const wrapped = await kek.wrap(key);
    expect(kek.unwrap(wrapped)).toEqual(key);
    expect(await kek.wrap(key)).not.toBe(wrapped);
    expect(Buffer.from(wrapped, 'base64').includes(key)).toBe(false);
  });

  test('in a file that is missing, readable by others, or invalid is refused without its content', () => {
    const file = path.join(directory, 'kek');
    expect(() => openKek(`file:${file}`)).toThrow(/cannot be read \(ENOENT\)/);
    fs.writeFileSync(file, 'not a key', { mode: 0o600 });
    expect(() => openKek(`file:${file}`)).toThrow(/contains no key: use 32 bytes/);
    expect(() => openKek(`file:${file}`)).not.toThrow(/not a key/);
    fs.chmodSync(file, 0o640);
    expect(() => openKek(`file:${file}`)).toThrow(/other users than its owner may read it/);
  });

  test('of another value opens nothing', async () => {
    const [one, two] = ['one', 'two'].map((name) => {
      fs.writeFileSync(path.join(directory, name), newKekFile(), { mode: 0o600 });
      return openKek(`file:${path.join(directory, name)}`);
    });
    const wrapped = (await one?.wrap(randomBytes(32))) ?? '';
    expect(() => two?.unwrap(wrapped)).toThrow(/is not the key/);
    expect(() => one?.unwrap('AAAA')).toThrow(/is not the key/);
  });

  function program(script: string): string {
    const file = path.join(directory, 'kms');
    fs.writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o700 });
    return `command:${file}`;
  }

  test('of a program is asked for by verb, over standard input', async () => {
    // Reverses the text: enough to see that it is passed, and read back.
    const kek = openKek(program('read text; echo "$1" >> "$0.verbs"; echo "$text" | rev'));
    const key = Buffer.concat([randomBytes(30), Buffer.of(1, 2)]);
    const wrapped = await kek.wrap(key);
    expect(wrapped).toBe(Buffer.from(key.toString('base64')).reverse().toString());
    expect(kek.unwrap(wrapped)).toEqual(key);
    expect(fs.readFileSync(path.join(directory, 'kms.verbs'), 'utf8')).toBe('wrap\nunwrap\nunwrap\n');
  });

  test.each([
    ['exit 3', /ended with exit code 3 \(unwrap\)/],
    ['echo secret >&2; exit 1', /ended with exit code 1/],
    ['echo AAAA', /did not print the base64 of a key/],
    ['head -c 100000 /dev/zero', /prints more than/],
  ])('of a program that does "%s" is reported without the output of the program', (script, told) => {
    const kek = openKek(program(script));
    expect(() => kek.unwrap('QUJD')).toThrow(told);
    expect(() => kek.unwrap('QUJD')).not.toThrow(/secret|QUJD/);
  });

  test('[R-1323] of a program is asked for while other work continues, when an epoch begins', async () => {
    const kek = openKek(program('read text; echo "$text" | rev'));
    const key = Buffer.concat([randomBytes(30), Buffer.of(1, 2)]);
    expect(kek.unwrap(await kek.wrap(key))).toEqual(key);
    let ticks = 0;
    const ticking = setInterval(() => ticks++, 10);
    onTestFinished(() => clearInterval(ticking));
    await expect(openKek(program('exec sleep 60')).wrap(key)).rejects.toThrow(
      /did not end within 10 s \(wrap\)/,
    );
    expect(ticks).toBeGreaterThan(100);
  });

  test.each([
    ['exit 3', /ended with exit code 3 \(wrap\)/],
    ['true', /printed nothing \(wrap\)/],
    ['cat', /printed the key that it should wrap/],
    ['head -c 100000 /dev/zero', /prints more than/],
    ['echo AAAA', /did not print the base64 of a key/],
    [`echo ${Buffer.alloc(32).toString('base64')}`, /unwraps a different key/],
  ])('[R-1323] of a program that does "%s" begins nothing', async (script, told) => {
    const kek = openKek(program(script));
    await expect(kek.wrap(randomBytes(32))).rejects.toThrow(told);
    const places = { directories: [path.join(directory, 'keys')], kek: program(script) };
    fs.mkdirSync(path.join(directory, 'keys'));
    const open = () =>
      openKeys({
        places,
        ledgerId: STATE.ledgerId,
        onTrouble: () => undefined,
      });
    await expect(open()).rejects.toThrow(told);
    // For a working program all is unchanged, also after a rotation that cannot begin.
    program('read text; echo "$text" | rev');
    const writer = await open();
    expect(writer.keyFor('icu', 1).key).toBeDefined();
    program(script);
    await expect(writer.rotate()).rejects.toThrow(told);
    expect([writer.epoch, writer.isRotating]).toEqual([1, false]);
    expect(fs.readdirSync(path.join(directory, 'keys', 'epochs'))).toEqual(['0000001.json']);
  });

  test('of a program that does not exist is reported', async () => {
    const kek = openKek(`command:${path.join(directory, 'none')}`);
    await expect(kek.wrap(randomBytes(32))).rejects.toThrow(/cannot be started: ENOENT/);
    expect(() => kek.unwrap('AAAA')).toThrow(/cannot be started: ENOENT/);
  });

  test('is named by file: or command: and an absolute path', () => {
    expect(kekFault('file:/etc/kek')).toBeUndefined();
    expect(kekFault('command:/usr/bin/kms')).toBeUndefined();
    for (const kek of ['/etc/kek', 'file:kek', 'vault:/x', 'file:']) expect(kekFault(kek)).toMatch(/must be/);
  });
});

describe('[R-1320] a name in a derived file', () => {
  const cipher = new SyntheticIv(Buffer.alloc(32, 1));
  test('is the same bytes each time, opens again, and cannot be read', () => {
    for (const name of ['', 'patient-0010', 'Größe 🩺', 'x'.repeat(3000)]) {
      const sealed = cipher.seal(name);
      expect(cipher.seal(name)).toEqual(sealed);
      expect(cipher.open(sealed)).toBe(name);
      if (name.length > 3) expect(sealed.includes(name)).toBe(false);
    }
  });

  test('does not open with another key, or when it was changed', () => {
    const other = new SyntheticIv(Buffer.alloc(32, 2));
    const sealed = cipher.seal('patient-0010');
    expect(other.open(sealed)).toBeUndefined();
    expect(other.id).not.toBe(cipher.id);
    sealed[20] = (sealed[20] ?? 0) ^ 1;
    expect(cipher.open(sealed)).toBeUndefined();
    expect(cipher.open(Buffer.from('patient'))).toBeUndefined();
  });
});
