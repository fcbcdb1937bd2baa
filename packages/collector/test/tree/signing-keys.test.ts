import fs from 'node:fs';
import path from 'node:path';
import { inspect } from 'node:util';
import { parseNote, parseRotation } from '@clinical-events/protocol/verify';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { keyChain, noteKey, verifyNote } from '../../src/tree/note-signing.js';
import { SigningKeyFault } from '../../src/tree/key-files.js';
import { crashAt, DAY, keyFile, ORIGIN, ScratchLog, signersOf, TEXT } from './scratch-log.js';

function faultOf(work: () => unknown): SigningKeyFault {
  try {
    work();
  } catch (error) {
    if (error instanceof SigningKeyFault) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('the first start', () => {
  test('[R-905] makes a key that only its owner can read, and writes the verifier key beside the checkpoints', async () => {
    const log = new ScratchLog();
    const keys = log.start();
    const vkey = fs.readFileSync(log.originFile, 'utf8').trimEnd();
    expect(keys.origin).toBe(ORIGIN);
    expect(keys.keys.map((key) => key.vkey)).toEqual([vkey]);
    expect(log.keyFiles()).toEqual([keyFile(vkey)]);
    expect(fs.statSync(log.directory).mode & 0o777).toBe(0o700);
    expect(fs.statSync(path.join(log.directory, keyFile(vkey))).mode & 0o777).toBe(0o600);
    expect(await signersOf(keys)).toEqual([vkey]);
    expect(log.troubles).toEqual([]);
  });

  test('is the only one that makes a key: later starts use it, and do not ask for a name', async () => {
    const log = new ScratchLog();
    const [first] = log.start().keys;
    const again = log.start('other.example/log');
    expect(await signersOf(again)).toEqual([first?.vkey]);
    expect(log.keyFiles()).toHaveLength(1);
  });

  test('[R-905] is completed by the next start after a crash at any step', async () => {
    for (let step = 0; ; step++) {
      const log = new ScratchLog();
      const crashed = crashAt(step, () => log.start());
      const keys = log.start();
      expect([step, await signersOf(keys)]).toEqual([step, keys.keys.map(({ vkey }) => vkey)]);
      expect(log.keyFiles().filter((name) => name.endsWith('.pem'))).toHaveLength(1);
      if (!crashed) break;
      expect(step).toBeLessThan(100);
    }
  });

  test('uses the key that an earlier one made without naming it', () => {
    const log = new ScratchLog();
    const [key] = log.start().keys;
    fs.rmSync(log.originFile);
    expect(log.start().keys.map(({ vkey }) => vkey)).toEqual([key?.vkey]);
  });

  test('does not use or remove the key of another log in the same directory', async () => {
    const log = new ScratchLog();
    const [other] = log.start('other.example/log').keys;
    fs.rmSync(log.originFile);
    const keys = log.start();
    expect(log.keyFiles()).toHaveLength(2);
    expect(log.keyFiles()).toContain(keyFile(other?.vkey ?? ''));
    log.rotate(0);
    await signersOf(keys);
    expect(log.keyFiles()).toHaveLength(2);
    expect(log.keyFiles()).toContain(keyFile(other?.vkey ?? ''));
  });

  test.each(['latest', '0000000000000003.checkpoint', 'rotations/0001.note'])(
    'refuses a log that lost its first key but has checkpoints/%s',
    (name) => {
      const log = new ScratchLog();
      log.start();
      const witness = path.join(log.dataDir, 'checkpoints', name);
      fs.mkdirSync(path.dirname(witness), { recursive: true });
      fs.writeFileSync(witness, '');
      fs.rmSync(log.originFile);
      for (const open of [() => log.start(), () => log.open()]) {
        expect(faultOf(open)).toMatchObject({
          reason: 'broken',
          message: `${log.originFile} is missing, but ${witness} exists: put back the verifier key that the log began with`,
        });
      }
      expect(log.keyFiles()).toHaveLength(1);
    },
  );

  test('with an invalid name makes nothing', () => {
    const log = new ScratchLog();
    for (const name of ['', 'ward 7', 'a+b', 'clinical-events/key-rotation/v1']) {
      expect(() => log.start(name)).toThrow(`${JSON.stringify(name)} cannot be the name of a log`);
      expect([fs.existsSync(log.dataDir), log.keyFiles()]).toEqual([false, []]);
    }
  });
});

describe('a start', () => {
  test('never makes a new key in place of one that is missing, and names the file', () => {
    const log = new ScratchLog();
    const [key] = log.start().keys;
    const file = path.join(log.directory, keyFile(key?.vkey ?? ''));
    fs.rmSync(file);
    expect(faultOf(() => log.start())).toMatchObject({
      reason: 'key-missing',
      message: `${file} is missing: it holds the private key of ${key?.vkey ?? ''}`,
    });
    expect(log.keyFiles()).toEqual([]);
  });

  test('refuses the key of another log under the name of its own', () => {
    const [log, other] = [new ScratchLog(), new ScratchLog()];
    const [key] = log.start().keys;
    other.start();
    const file = path.join(log.directory, keyFile(key?.vkey ?? ''));
    fs.copyFileSync(path.join(other.directory, other.keyFiles()[0] ?? ''), file);
    expect(faultOf(() => log.open())).toMatchObject({
      reason: 'broken',
      message: `${file} does not hold the private key of ${key?.vkey ?? ''}`,
    });
  });

  test('refuses a file that is not a key, and does not repeat its content', () => {
    const log = new ScratchLog();
    log.start();
    const file = path.join(log.directory, log.keyFiles()[0] ?? '');
    const secret = fs.readFileSync(file, 'utf8').split('\n')[1] ?? '';
    fs.writeFileSync(
      file,
      `-----BEGIN PRIVATE KEY-----\n${secret.slice(0, -8)}\n-----END PRIVATE KEY-----\n`,
    );
    const fault = faultOf(() => log.open());
    expect(fault).toMatchObject({
      reason: 'broken',
      message: `${file} is not the PKCS#8 PEM of an Ed25519 private key`,
    });
    expect(inspect(fault)).not.toContain(secret.slice(0, 20));
  });

  test('[R-905] reports a key that others can read, and signs with it', async () => {
    const log = new ScratchLog();
    log.start();
    const file = path.join(log.directory, log.keyFiles()[0] ?? '');
    for (const mode of [0o640, 0o604]) {
      fs.chmodSync(file, mode);
      log.troubles.length = 0;
      await signersOf(log.open());
      expect(log.troubles).toEqual([
        `a signing key is open to other users: Error: ${file} can be read by other users, who can sign in the name of this log with it: chmod 600`,
      ]);
    }
  });

  test('reports that there is no log yet', () => {
    const log = new ScratchLog();
    expect(faultOf(() => log.open())).toMatchObject({
      reason: 'no-log',
      message: `there is no log in ${log.dataDir} yet`,
    });
    expect(log.keyFiles()).toEqual([]);
  });

  test('shows nothing of a private key when it is printed', () => {
    const log = new ScratchLog();
    const keys = log.start();
    const secret =
      fs.readFileSync(path.join(log.directory, log.keyFiles()[0] ?? ''), 'utf8').split('\n')[1] ?? '';
    expect(secret).not.toBe('');
    const shown = inspect(keys, { depth: null, showHidden: true }) + JSON.stringify(keys);
    expect(shown).not.toContain(secret);
    expect(shown).not.toMatch(/PRIVATE KEY/);
  });
});

describe('a rotation', () => {
  test('[R-905] is followed by a running collector: both keys sign until the overlap ends, then only the new one', async () => {
    const log = new ScratchLog();
    const keys = log.start();
    const [old] = keys.keys;
    const { key, before, until, keyFile: file, note } = log.rotate(30 * DAY);
    expect([before.vkey, until]).toEqual([old?.vkey, log.nowMs + 30 * DAY]);
    expect(note).toBe(log.noteFile(1));
    expect([fs.statSync(file).mode & 0o777, fs.statSync(note).mode & 0o777]).toEqual([0o600, 0o600]);

    expect(await signersOf(keys)).toEqual([before.vkey, key.vkey]);
    expect(keys.keys.map(({ vkey }) => vkey)).toEqual([before.vkey, key.vkey]);
    expect(log.notices).toEqual([`${key.vkey} signs the checkpoints from now on`]);

    log.nowMs = until - 1;
    expect(await signersOf(log.open())).toHaveLength(2);
    expect(log.keyFiles()).toHaveLength(2);
    log.nowMs = until;
    expect(await signersOf(keys)).toEqual([key.vkey]);
    expect(log.keyFiles()).toEqual([keyFile(key.vkey)]);
    expect(log.notices.slice(1)).toEqual([
      `${path.join(log.directory, keyFile(before.vkey))} was destroyed: its key no longer signs`,
    ]);
    // Not even when the clock is set back.
    log.nowMs -= DAY;
    expect(await signersOf(keys)).toEqual([key.vkey]);
    expect(log.troubles).toEqual([]);
  });

  test('[R-905] writes a note that leads from the first key to the newest', () => {
    const log = new ScratchLog();
    const [first] = log.start().keys;
    const { key, before, until, note } = log.rotate(DAY);
    const text = fs.readFileSync(note, 'utf8');
    expect(parseRotation(parseNote(text).text)).toEqual({
      origin: ORIGIN,
      oldKey: before.vkey,
      newKey: key.vkey,
      until: new Date(until).toISOString(),
    });
    expect(verifyNote(text, [before, key]).signedBy).toHaveLength(2);
    expect(keyChain(first?.vkey ?? '', [text]).current.vkey).toBe(key.vkey);
  });

  test('while nothing runs is followed by the next start, which destroys the expired key', async () => {
    const log = new ScratchLog();
    log.start();
    const { key, until } = log.rotate(DAY);
    log.nowMs = until;
    const keys = log.open();
    expect(await signersOf(keys)).toEqual([key.vkey]);
    expect(log.keyFiles()).toEqual([keyFile(key.vkey)]);
  });

  test('with overlap 0 retires the old key immediately', async () => {
    const log = new ScratchLog();
    const keys = log.start();
    const { key } = log.rotate(0);
    expect(await signersOf(keys)).toEqual([key.vkey]);
    expect(log.keyFiles()).toEqual([keyFile(key.vkey)]);
  });

  test('during an earlier overlap is refused with its end, and changes nothing', () => {
    const log = new ScratchLog();
    log.start();
    const { until } = log.rotate(DAY);
    const before = log.keyFiles();
    expect(faultOf(() => log.rotate(1))).toMatchObject({
      reason: 'overlapping',
      message:
        `the overlap of the previous rotation lasts until ${new Date(until).toISOString()}; ` +
        'rotate after it, or with overlap 0 to end it now',
    });
    expect(log.keyFiles()).toEqual(before);
    log.nowMs = until;
    expect(log.rotate(DAY).note).toBe(log.noteFile(2));
  });

  test('[R-905] with overlap 0 is made also during an earlier overlap, and ends that', async () => {
    const log = new ScratchLog();
    const keys = log.start();
    log.rotate(DAY);
    expect(await signersOf(keys)).toHaveLength(2);
    const { key } = log.rotate(0);
    expect(await signersOf(keys)).toEqual([key.vkey]);
    expect(keys.keys).toHaveLength(3);
    expect(log.keyFiles()).toEqual([keyFile(key.vkey)]);
  });

  test('leaves one chain, also after many', async () => {
    const log = new ScratchLog();
    const keys = log.start();
    for (let turn = 1; turn <= 5; turn++) {
      const { key, before, until } = log.rotate(DAY);
      expect(await signersOf(keys)).toEqual([before.vkey, key.vkey]);
      expect(log.keyFiles()).toHaveLength(2);
      log.nowMs = until;
    }
    const opened = log.open();
    expect(opened.keys).toHaveLength(6);
    expect(await signersOf(opened)).toEqual([opened.keys.at(-1)?.vkey]);
  });

  test('[R-905] after a crash at any step is complete or not made, and the next one works', async () => {
    for (let step = 0; ; step++) {
      const log = new ScratchLog();
      const [first] = log.start().keys;
      const crashed = crashAt(step, () => log.rotate(DAY));
      const keys = log.open();
      const rotated = fs.existsSync(log.noteFile(1));
      expect([step, (await signersOf(keys)).length]).toEqual([step, rotated ? 2 : 1]);
      expect(keys.keys[0]?.vkey).toBe(first?.vkey);

      const { key } = log.rotate(0);
      expect(await signersOf(keys)).toEqual([key.vkey]);
      const left = log.keyFiles();
      expect(left).toContain(keyFile(key.vkey));
      const retired = keys.keys.slice(0, -1).map(({ vkey }) => keyFile(vkey));
      expect([step, left.filter((name) => retired.some((each) => name.startsWith(each)))]).toEqual([
        step,
        [],
      ]);
      if (!crashed) break;
      expect(step).toBeLessThan(100);
    }
  });

  test('neither uses nor removes a key that an earlier one made without naming it', () => {
    const log = new ScratchLog();
    log.start();
    const [named] = log.keyFiles();
    const { key: stray } = log.rotate(DAY);
    fs.rmSync(log.noteFile(1));
    const { key } = log.rotate(DAY);
    expect(key.vkey).not.toBe(stray.vkey);
    expect(log.keyFiles()).toEqual([named, keyFile(stray.vkey), keyFile(key.vkey)].sort());
  });

  test('during which another one is made says so, and changes nothing', async () => {
    const log = new ScratchLog();
    const keys = log.start();
    let winner: ReturnType<ScratchLog['rotate']> | undefined;
    const fault = faultOf(() =>
      log.rotate(DAY, () => {
        winner = log.rotate(DAY);
        return log.nowMs;
      }),
    );
    expect(fault).toMatchObject({
      reason: 'overtaken',
      message: `another rotation came first: ${log.noteFile(1)} exists`,
    });
    expect(await signersOf(keys)).toEqual([winner?.before.vkey, winner?.key.vkey]);
    expect(log.keyFiles()).toHaveLength(2);
  });

  test('keeps the new key when it is unknown whether its note is durable', async () => {
    const log = new ScratchLog();
    const keys = log.start();
    const real = fs.linkSync;
    const spy = vi.spyOn(fs, 'linkSync').mockImplementation((from, to) => {
      real(from, to);
      if (String(to).endsWith('.note')) throw new Error('the disk is gone');
    });
    onTestFinished(() => spy.mockRestore());
    expect(() => log.rotate(DAY)).toThrow('the disk is gone');
    expect(await signersOf(keys)).toHaveLength(2);
    expect(log.troubles).toEqual([]);
  });

  test.runIf(process.getuid?.() === 0)('by root writes its files for the owner of the old key', () => {
    const log = new ScratchLog();
    log.start();
    fs.chownSync(path.join(log.directory, log.keyFiles()[0] ?? ''), 4711, 4712);
    for (const held of [log.originFile, path.dirname(log.originFile)]) fs.chownSync(held, 4711, 4712);
    const { keyFile: file, note } = log.rotate(DAY);
    for (const made of [file, note, path.dirname(note)]) {
      const { uid, gid, mode } = fs.statSync(made);
      expect([made, uid, gid, mode & 0o077]).toEqual([made, 4711, 4712, 0]);
    }
  });
});

describe('a rotation that cannot be followed', () => {
  const CANNOT =
    'a rotation of the signing key cannot be followed; the old key stays in use: SigningKeyFault: ';

  test('leaves the old key signing, is reported once, and is followed later when possible', async () => {
    const log = new ScratchLog();
    const keys = log.start();
    const [old] = keys.keys;
    const { key, keyFile: file } = log.rotate(DAY);
    fs.renameSync(file, `${file}.away`);
    expect(await signersOf(keys)).toEqual([old?.vkey]);
    expect(await signersOf(keys)).toEqual([old?.vkey]);
    expect(log.troubles).toEqual([`${CANNOT}${file} is missing: it holds the private key of ${key.vkey}`]);
    fs.renameSync(`${file}.away`, file);
    expect(await signersOf(keys)).toEqual([old?.vkey, key.vkey]);
    expect(log.troubles).toHaveLength(1);
  });

  test.each([
    ['is not a note', () => 'rubbish'],
    ['was changed', (note: string) => note.replace(/^2026-/m, '2027-')],
    ['was cut short', (note: string) => note.slice(0, -40)],
    [
      'belongs to another log',
      () => {
        const other = new ScratchLog();
        other.start('other.example/log');
        return fs.readFileSync(other.rotate(DAY).note, 'utf8');
      },
    ],
  ])('because its note %s leaves the old key signing', async (_, changed) => {
    const log = new ScratchLog();
    const keys = log.start();
    const { note } = log.rotate(DAY);
    fs.writeFileSync(note, changed(fs.readFileSync(note, 'utf8')));
    expect(await signersOf(keys)).toHaveLength(1);
    expect(log.troubles).toHaveLength(1);
    expect(log.troubles[0]).toContain(`${CANNOT}the keys in ${path.join(log.dataDir, 'checkpoints')} `);
    expect(log.keyFiles()).toHaveLength(2);
    expect(faultOf(() => log.open()).reason).toBe('broken');
  });

  test('because an earlier note is missing is refused at a start', () => {
    const log = new ScratchLog();
    log.start();
    log.rotate(0);
    log.rotate(0);
    fs.rmSync(log.noteFile(1));
    expect(faultOf(() => log.open())).toMatchObject({
      reason: 'broken',
      message: `${log.noteFile(2)} exists, but an earlier rotation note is missing`,
    });
  });

  test('because its note was removed is reported, and the new key still signs', async () => {
    const log = new ScratchLog();
    const keys = log.start();
    const { key, note } = log.rotate(DAY);
    await signersOf(keys);
    fs.rmSync(note);
    expect(await signersOf(keys)).toHaveLength(2);
    expect(log.troubles).toEqual([`${CANNOT}the note of a rotation that was followed is missing`]);
    expect(keys.keys.at(-1)?.vkey).toBe(key.vkey);
  });
});

test('a second signing key that is missing is reported, and the current one signs', async () => {
  const log = new ScratchLog();
  log.start();
  const { key, before } = log.rotate(DAY);
  fs.rmSync(path.join(log.directory, keyFile(before.vkey)));
  expect(await signersOf(log.open())).toEqual([key.vkey]);
  expect(log.troubles).toHaveLength(1);
  expect(log.troubles[0]).toContain('the previous key should sign');
});

test('an old key that cannot be destroyed is reported once', async () => {
  const log = new ScratchLog();
  const keys = log.start();
  const { key } = log.rotate(0);
  const spy = vi.spyOn(fs, 'rmSync').mockImplementation(() => {
    throw new Error('read-only');
  });
  onTestFinished(() => spy.mockRestore());
  expect(await signersOf(keys)).toEqual([key.vkey]);
  expect(await signersOf(keys)).toEqual([key.vkey]);
  expect(log.troubles).toEqual(['a signing key that was rotated cannot be destroyed: Error: read-only']);
});

test('the signed text is a note that anyone can check with the verifier key', async () => {
  const log = new ScratchLog();
  const keys = log.start();
  const vkey = fs.readFileSync(log.originFile, 'utf8').trimEnd();
  expect(verifyNote(await keys.sign(TEXT), [noteKey(vkey)]).text).toBe(TEXT);
});
