import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { noteKey, verifyNote } from '../../src/integrity/note-signing.js';
import { CommandSigner, SigningCommandFailed } from '../../src/signing/command-signer.js';
import { SigningKeyFault } from '../../src/signing/signing-key-fault.js';
import { scratchDirectory } from '../access/scratch-keys.js';
import { ORIGIN, ScratchLog, TEXT } from './scratch-log.js';

const PROGRAM = new URL('./signing-program.mjs', import.meta.url);

interface Behaviour {
  readonly key?: KeyObject;
  readonly misbehaviour?: string;
  readonly on?: 'public-key' | 'sign';
}

/** A program of its own for each test, and a log that it signs. */
class Signing {
  readonly log = new ScratchLog();
  // Nothing that a shell would take for more than a name.
  readonly program = scratchDirectory('sign $(touch x); it.mjs');
  readonly key = generateKeyPairSync('ed25519').privateKey;

  constructor() {
    // With this very Node, whatever is first in PATH.
    const source = fs.readFileSync(PROGRAM, 'utf8').replace(/^#!.*/, `#!${process.execPath}`);
    fs.writeFileSync(this.program, source, { mode: 0o700 });
    this.behave({});
  }

  behave({ key = this.key, ...how }: Behaviour): void {
    const pem = key.export({ type: 'pkcs8', format: 'pem' });
    fs.writeFileSync(`${this.program}.json`, JSON.stringify({ pem, ...how }));
  }

  open(timeLimitMs = 10_000): Promise<CommandSigner> {
    const { program, log } = this;
    return CommandSigner.open({ program, dataDir: log.dataDir, origin: () => ORIGIN, timeLimitMs });
  }
}

/** @param kind of the error: by it the program is told from the keys of the log. */
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

test('[R-905] a key behind a command signs notes that verify with the key the log began with', async () => {
  const signing = new Signing();
  const signer = await signing.open();
  const vkey = fs.readFileSync(signing.log.originFile, 'utf8').trimEnd();
  expect([signer.origin, signer.keys.map((key) => key.vkey)]).toEqual([ORIGIN, [vkey]]);
  expect(verifyNote(await signer.sign(TEXT), [noteKey(vkey)])).toMatchObject({ text: TEXT });
  expect(signing.log.keyFiles()).toEqual([]);
  // Opened again, it is the same log.
  expect((await signing.open()).keys[0]?.vkey).toBe(vkey);
});

test('[R-905] a command that comes with another key later is refused', async () => {
  const signing = new Signing();
  const [key] = (await signing.open()).keys;
  signing.behave({ key: generateKeyPairSync('ed25519').privateKey });
  expect(await messageOf(signing.open(), SigningKeyFault)).toBe(
    `the key of the signing command ${signing.program} is not the one that this log signs with, ${key?.vkey ?? ''} ` +
      `(${signing.log.originFile}); a key behind a command cannot be rotated yet`,
  );
});

test('a log whose key moved from a file into a KMS goes on', async () => {
  const signing = new Signing();
  const keys = signing.log.start();
  const file = path.join(signing.log.directory, signing.log.keyFiles()[0] ?? '');
  fs.writeFileSync(`${signing.program}.json`, JSON.stringify({ pem: fs.readFileSync(file, 'utf8') }));
  const signer = await signing.open();
  expect(verifyNote(await signer.sign(TEXT), keys.keys).signedBy).toHaveLength(1);
});

test('a log that lost its first key is not given another', async () => {
  const signing = new Signing();
  await signing.open();
  fs.writeFileSync(path.join(signing.log.dataDir, 'checkpoints', 'latest'), '');
  fs.rmSync(signing.log.originFile);
  expect(await messageOf(signing.open(), SigningKeyFault)).toContain('put the verifier key back');
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
    'that, asked to sign, %s is told of without what it printed, and may do better next time',
    async (how, message) => {
      const signing = new Signing();
      const signer = await signing.open();
      signing.behave({ misbehaviour: how, on: 'sign' });
      expect(await messageOf(signer.sign(TEXT))).toBe(`the signing command ${signing.program} ${message}`);
      signing.behave({});
      expect(verifyNote(await signer.sign(TEXT), signer.keys).text).toBe(TEXT);
    },
  );

  test('[R-905] that signs something else is not believed', async () => {
    const signing = new Signing();
    const signer = await signing.open();
    signing.behave({ misbehaviour: 'lies', on: 'sign' });
    expect(await messageOf(signer.sign(TEXT))).toBe(
      `the signing command ${signing.program} printed a signature that does not verify with ${signer.keys[0]?.vkey ?? ''}`,
    );
  });

  test.each(['hangs', 'leaves a child'])('that %s is ended with all that it started', async (how) => {
    const signing = new Signing();
    const signer = await signing.open(1500);
    signing.behave({ misbehaviour: how, on: 'sign' });
    expect(await messageOf(signer.sign(TEXT))).toBe(
      `the signing command ${signing.program} did not end within 1.5 s (sign)`,
    );
    if (how === 'hangs') return;
    const pid = Number(fs.readFileSync(`${signing.program}.pid`, 'utf8'));
    // Without a parent it may stay in the process table, dead, until somebody asks for it.
    await expect.poll(() => stateOf(pid)).toMatch(/^[ZX]?$/);
  });

  test.each([
    ['fails', 'ended with exit code 1 (public-key)'],
    ['rubbish', 'did not print an Ed25519 public key as SPKI PEM'],
    ['silence', 'did not print an Ed25519 public key as SPKI PEM'],
    ['private', 'did not print an Ed25519 public key as SPKI PEM'],
  ])('that, asked for its key, %s begins no log', async (how, message) => {
    const signing = new Signing();
    signing.behave({ misbehaviour: how, on: 'public-key' });
    expect(await messageOf(signing.open())).toBe(`the signing command ${signing.program} ${message}`);
    expect(fs.existsSync(signing.log.originFile)).toBe(false);
  });

  test('with a key of another kind begins no log', async () => {
    const signing = new Signing();
    signing.behave({ key: generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey });
    expect(await messageOf(signing.open())).toContain('did not print an Ed25519 public key');
  });

  test('that is not there is named', async () => {
    const signing = new Signing();
    fs.rmSync(signing.program);
    expect(await messageOf(signing.open())).toBe(
      `the signing command ${signing.program} cannot be started: ENOENT (public-key)`,
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
