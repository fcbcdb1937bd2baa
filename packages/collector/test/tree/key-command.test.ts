import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { noteKey, verifierKeyOf, verifyNote } from '../../src/tree/note-signing.js';
import { SigningCommandFailed, SigningCommandUnfit } from '../../src/tree/key-command.js';
import { SigningKeyFault } from '../../src/tree/key-files.js';
import { programFault } from '../../src/tree/program.js';
import { openSigner, type SigningKeys } from '../../src/tree/signing-keys.js';
import { scratchDirectory } from '../access/scratch-keys.js';
import { keyFile, ORIGIN, ScratchLog, TEXT } from './scratch-log.js';
import { ScratchProgram } from './scratch-program.js';

/** A program for each test, and a log that it signs. */
class Signing extends ScratchProgram {
  readonly log = new ScratchLog();
  readonly troubles: string[] = [];

  constructor() {
    // Nothing that a shell would take for more than a name.
    super(scratchDirectory('sign $(touch x); it.mjs'));
  }

  open(timeLimitMs = 10_000): Promise<SigningKeys> {
    const { path: program, log } = this;
    return openSigner({
      ...{ signingKeys: `command:${program}`, dataDir: log.dataDir, origin: () => ORIGIN, timeLimitMs },
      onTrouble: (what) => this.troubles.push(what),
    });
  }
}

/** @param kind of the error: it distinguishes the program from the keys of the log. */
async function messageOf(
  work: Promise<unknown>,
  kind: new (...args: never[]) => Error = SigningCommandFailed,
): Promise<string> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(kind);
  // Whatever is logged of it: what was signed, and what the program printed, is not in it.
  for (const line of TEXT.trimEnd().split('\n').slice(2)) expect(inspect(error)).not.toContain(line);
  expect(inspect(error)).not.toContain('cannot sign');
  return error instanceof Error ? error.message : '';
}

test('[R-905] a key of a command signs notes that verify with the first key of the log', async () => {
  const signing = new Signing();
  const signer = await signing.open();
  const vkey = fs.readFileSync(signing.log.originFile, 'utf8').trimEnd();
  expect([signer.origin, signer.keys.map((key) => key.vkey)]).toEqual([ORIGIN, [vkey]]);
  expect(verifyNote(await signer.sign(TEXT), [noteKey(vkey)])).toMatchObject({ text: TEXT });
  expect(signing.log.keyFiles()).toEqual([]);
  // Opened again, it is the same log.
  expect((await signing.open()).keys[0]?.vkey).toBe(vkey);
});

test('[R-905] a command that fails at a later start does not keep events out, and signs when it works again', async () => {
  const signing = new Signing();
  const before = await signing.open();
  signing.behave({ misbehaviour: 'fails', on: 'public-key' });
  const signer = await signing.open();
  expect(signing.troubles).toEqual([
    'the signing command does not answer; events are stored, and it is asked again',
  ]);
  expect([signer.origin, signer.keys.map(({ vkey }) => vkey)]).toEqual([
    before.origin,
    before.keys.map(({ vkey }) => vkey),
  ]);
  signing.behave({ misbehaviour: 'fails', on: 'sign' });
  await expect(signer.sign(TEXT)).rejects.toThrow(SigningCommandFailed);
  signing.behave({});
  expect(verifyNote(await signer.sign(TEXT), signer.keys)).toMatchObject({ text: TEXT });
  // With another key it is not believed, although its key was not read.
  signing.behave({ key: generateKeyPairSync('ed25519').privateKey });
  await expect(signer.sign(TEXT)).rejects.toThrow(SigningCommandUnfit);
});

test('[R-905] a command that later prints another key is refused, and both keys are named', async () => {
  const signing = new Signing();
  const [key] = (await signing.open()).keys;
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  signing.behave({ key: privateKey });
  expect(await messageOf(signing.open(), SigningCommandUnfit)).toBe(
    `it prints the key ${verifierKeyOf(ORIGIN, publicKey)}, and the current key of this log is ` +
      `${key?.vkey ?? ''} (checkpoints/origin.vkey and the rotation notes); the key of a signing command cannot be rotated`,
  );
});

test('[R-905] a log that was begun with a command, and is started without it, reports the missing key', async () => {
  const signing = new Signing();
  const [key] = (await signing.open()).keys;
  const file = path.join(signing.log.directory, keyFile(key?.vkey ?? ''));
  const missing = `${file} is missing: it holds the private key of ${key?.vkey ?? ''}`;
  expect(() => signing.log.open()).toThrow(new SigningKeyFault('key-missing', missing));
});

test('a log whose key moved from a file into a KMS continues', async () => {
  const signing = new Signing();
  const keys = signing.log.start();
  const file = path.join(signing.log.directory, signing.log.keyFiles()[0] ?? '');
  fs.writeFileSync(`${signing.path}.json`, JSON.stringify({ pem: fs.readFileSync(file, 'utf8') }));
  const signer = await signing.open();
  expect(verifyNote(await signer.sign(TEXT), keys.keys).signedBy).toHaveLength(1);
});

test('a log that lost its first key does not get another', async () => {
  const signing = new Signing();
  await signing.open();
  fs.writeFileSync(path.join(signing.log.dataDir, 'checkpoints', 'latest'), '');
  fs.rmSync(signing.log.originFile);
  expect(await messageOf(signing.open(), SigningKeyFault)).toContain('put back the verifier key');
  expect(fs.existsSync(signing.log.originFile)).toBe(false);
});

describe('a command', () => {
  test.each([
    ['fails', 'ended with exit code 1 (sign)'],
    ['kills itself', 'was ended by SIGTERM (sign)'],
    ['rubbish', 'did not print the base64 of a signature of 64 bytes'],
    ['silence', 'did not print the base64 of a signature of 64 bytes'],
    ['floods', 'prints more than any key or signature needs (sign)'],
    ['private', 'did not print the base64 of a signature of 64 bytes'],
  ])(
    'that %s when asked to sign is reported without its output, and is asked again next time',
    async (how, message) => {
      const signing = new Signing();
      const signer = await signing.open();
      signing.behave({ misbehaviour: how, on: 'sign' });
      expect(await messageOf(signer.sign(TEXT))).toBe(`the signing command ${signing.path} ${message}`);
      signing.behave({});
      expect(verifyNote(await signer.sign(TEXT), signer.keys).text).toBe(TEXT);
    },
  );

  test('[R-905] that signs something else is not believed', async () => {
    const signing = new Signing();
    const signer = await signing.open();
    signing.behave({ misbehaviour: 'lies', on: 'sign' });
    expect(await messageOf(signer.sign(TEXT))).toBe(
      `the signing command ${signing.path} printed a signature that does not verify with ${signer.keys[0]?.vkey ?? ''}`,
    );
  });

  test.each(['hangs', 'leaves a child'])(
    'that %s is killed with all processes that it started',
    async (how) => {
      const signing = new Signing();
      const signer = await signing.open(1500);
      signing.behave({ misbehaviour: how, on: 'sign' });
      expect(await messageOf(signer.sign(TEXT))).toBe(
        `the signing command ${signing.path} did not end within 1.5 s (sign)`,
      );
      if (how === 'hangs') return;
      const pid = Number(fs.readFileSync(`${signing.path}.pid`, 'utf8'));
      // Without a parent it may remain in the process table, dead, until its status is read.
      await expect.poll(() => stateOf(pid)).toMatch(/^[ZX]?$/);
    },
  );

  test.each([
    ['fails', 'ended with exit code 1 (public-key)'],
    ['rubbish', 'did not print an Ed25519 public key as SPKI PEM'],
    ['silence', 'did not print an Ed25519 public key as SPKI PEM'],
    ['private', 'did not print an Ed25519 public key as SPKI PEM'],
  ])('that %s when asked for its key begins no log', async (how, message) => {
    const signing = new Signing();
    signing.behave({ misbehaviour: how, on: 'public-key' });
    expect(await messageOf(signing.open())).toBe(`the signing command ${signing.path} ${message}`);
    expect(fs.existsSync(signing.log.originFile)).toBe(false);
  });

  test('[R-905] that does not exist, or is not a program, is named without the arguments after it', async () => {
    const signing = new Signing();
    fs.chmodSync(signing.path, 0o600);
    expect(programFault(signing.path)).toMatch(/ is not executable, .*\(EACCES\)$/);
    expect(programFault(path.dirname(signing.path))).toMatch(/ is not a program$/);
    fs.rmSync(signing.path);
    expect(await messageOf(signing.open(), SigningCommandUnfit)).toMatch(/^there is no such program: /);
    expect(programFault('/opt/sign')).toBe(
      'there is no such program: /opt/sign; it takes a path, without arguments',
    );
    expect(programFault(`${process.execPath} --token=SECRET`)).toBe(
      `there is no such program: ${process.execPath} ...; it takes a path, without arguments`,
    );
  });

  test('[R-905] is unfit if it prints no key or its interpreter is missing, and not if it fails or hangs', async () => {
    const signing = new Signing();
    const opening = () => signing.open(1500).then(String, (error: unknown) => error);
    for (const misbehaviour of ['fails', 'hangs', 'kills itself']) {
      signing.behave({ misbehaviour, on: 'public-key' });
      expect(await opening()).not.toBeInstanceOf(SigningCommandUnfit);
    }
    for (const misbehaviour of ['rubbish', 'private', 'floods']) {
      signing.behave({ misbehaviour, on: 'public-key' });
      expect(await opening()).toBeInstanceOf(SigningCommandUnfit);
    }
    fs.writeFileSync(signing.path, '#!/no/such/interpreter\n');
    expect(await messageOf(signing.open(), SigningCommandUnfit)).toBe(
      `the signing command ${signing.path} cannot be started: ENOENT (public-key)`,
    );
  });
});

/** Of a process: a letter as ps(1) has it, or nothing when there is none. */
function stateOf(pid: number): string {
  try {
    return /^State:\s+(\w)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';
  } catch {
    return '';
  }
}
