import { spawn } from 'node:child_process';
import { generateKeyPairSync, hash, sign } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { SigningKeys } from '../../src/tree/signing-keys.js';
import { run, temporaryDirectory } from '../running/collector-process.js';
import { candidate, idOf, type Made } from '../store/candidate.js';
import { fillSigned, firstKey, loggedEvent, ORIGIN, proofIn } from './signed-directory.js';

const MAIN = path.resolve(import.meta.dirname, '../../dist/main.js');
const RUN = '0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10';
const RECEIVED = Date.parse('2026-01-10T03:00:00.017Z');

/** Made once: nothing below changes what it reads. */
let directory: string;
let key: string;
let proof: string;
const EVENTS = Array.from({ length: 7 }, (_, i) =>
  loggedEvent(`Gr\u00fc\u00dfe ${i}`, {
    ...{ kind: 'human-output', organisation: 'ward', receivedAt: RECEIVED },
    ...(i === 4 && { runId: RUN, door: 'import' }),
  }),
);
const EVENT = EVENTS[4] as Made;

/** A file of this content. */
function file(content: string | Uint8Array, name = 'file'): string {
  const made = path.join(fs.mkdtempSync(path.join(directory, 'given-')), name);
  fs.writeFileSync(made, content);
  return made;
}

beforeAll(async () => {
  directory = temporaryDirectory();
  const dataDir = path.join(directory, 'data');
  await fillSigned(dataDir, [EVENTS]);
  ({ proof } = await proofIn(dataDir, idOf(EVENT)));
  key = firstKey(dataDir);
  return () => fs.rmSync(directory, { recursive: true });
});

interface Given {
  readonly proof?: string;
  readonly body?: string | Uint8Array;
  readonly key?: string;
}

function check(given: Given = {}, ...args: readonly string[]) {
  const body = file(given.body ?? EVENT.body);
  return run([
    'check-proof',
    file(given.proof ?? proof),
    '--event',
    body,
    '--key',
    given.key ?? key,
    ...args,
  ]);
}

/** Runs the command in an empty directory and hands it something on standard input. */
async function checkWith(
  input: string | Uint8Array,
  ...args: readonly string[]
): Promise<[number | null, string]> {
  const child = spawn(process.execPath, [MAIN, 'check-proof', ...args], { cwd: directory });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (piece: Buffer) => (output += piece.toString()));
  child.stdin.end(input);
  return new Promise((resolve) => child.on('close', (code) => resolve([code, output])));
}

/** Changes one character into another of the same alphabet. */
function changed(text: string, at: number): string {
  return text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);
}

describe('[R-908] a valid proof', () => {
  test('is reported in words that say what is proved and what is not', async () => {
    const { code, stdout, stderr } = await check();
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^VALID\n\nProved:\n.*\n\nNot proved:\n/s);
    for (const part of [
      hash('sha256', EVENT.body),
      ORIGIN,
      idOf(EVENT),
      RUN,
      '2026-01-10T03:00:00.017Z',
      key,
    ])
      expect(stdout).toContain(part);
  });

  test('comes as JSON for scripts', async () => {
    const { code, stdout, stderr } = await check({}, '--json');
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout)).toEqual({
      ...{ valid: true, event_id: idOf(EVENT), run_id: RUN, kind: 'human-output', profile: 'minimum' },
      ...{
        door: 'import',
        organisation: 'ward',
        key_id: 'abcdefghij23',
        received_at: '2026-01-10T03:00:00.017Z',
      },
      ...{
        content: 'body',
        sha256: hash('sha256', EVENT.body),
        sequence: 5,
        index: 4,
        tree_size: 7,
        origin: ORIGIN,
      },
      ...{ root: proof.split('\n').at(-4), signed_by: key, cosigned_by: [] },
    });
  });

  test('or its body can be read from standard input', async () => {
    const [ofProof, ofBody, ofKey] = [file(proof), file(EVENT.body), file(`${key}\n`)];
    expect((await checkWith(EVENT.body, ofProof, '--event', '-', '--key', key))[0]).toBe(0);
    expect((await checkWith(proof, '-', '--event', ofBody, '--key', key))[0]).toBe(0);
    expect((await checkWith(proof, '--event', ofBody, '-', '--key', `@${ofKey}`))[0]).toBe(0);
    expect((await checkWith(proof, '-', '--event', '-', '--key', key))[0]).toBe(2);
  });

  test('is checked by a key from a file, and by any of several keys', async () => {
    const ofKey = file(`${key}\n`, 'log.vkey');
    expect((await check({ key: ofKey })).code).toBe(0);
    expect((await check({ key: `@${ofKey}` })).code).toBe(0);
    expect((await check({ key: `${key}\n` })).code).toBe(0);
    const other = await otherKey();
    expect((await check({ key: other }, '--key', key)).code).toBe(0);
    expect((await check({ key: file(`${other}\n\n${key}\n`) })).code).toBe(0);
  });

  test('is reported with the signatures under its checkpoint that were not checked', async () => {
    const more = `${proof}\u2014 witness.example/w1 ${Buffer.from('0000cafe'.padEnd(144, '7'), 'hex').toString('base64')}\n`;
    const { code, stdout } = await check({ proof: more });
    expect(code).toBe(0);
    expect(stdout).toContain('witness.example/w1 (0000cafe)');
  });

  test('is printed without the control characters that the log has signed', async () => {
    const dataDir = path.join(directory, 'hostile');
    const eventId = '6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10';
    const hostile = candidate({
      ...{ eventId, organisation: 'a\u001b[2Jb\n', keyId: '\u0007', receivedAt: 2 ** 53 - 1 },
      body: { event_id: eventId },
    });
    await fillSigned(dataDir, [[hostile]], { origin: 'log.example/\u202eabc' });
    const made = await proofIn(dataDir, eventId);
    const { code, stdout } = await check({ proof: made.proof, body: hostile.body, key: firstKey(dataDir) });
    expect(code).toBe(0);
    expect(stdout).toContain('API key \\u0007 of organisation a\\u001b[2Jb\\n\n');
    expect(stdout).toContain('are entry 1 of the log log.example/\\u202eabc:');
    expect(stdout).toContain('received at   9007199254740991 ms after 1970');
    const json = await check({ proof: made.proof, body: hostile.body, key: firstKey(dataDir) }, '--json');
    expect(json.stdout).toContain('"log.example/\\u202eabc"');
  });
});

/** As a verifier key names it. */
function idOfKey(vkey: string): string {
  return vkey.split('+')[1] ?? '';
}

/** The key of a log that has nothing to do with this one. */
async function otherKey(): Promise<string> {
  const dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true }));
  await fillSigned(dataDir, []);
  return firstKey(dataDir);
}

describe('[R-908] an invalid proof', () => {
  const [other] = EVENTS as [Made];

  // check-proof.test.ts of packages/protocol has the reason of each kind of forgery.
  test.each<[string, () => Given, string]>([
    [
      'the body ends with a line break that was not sent',
      () => ({ body: `${EVENT.body.toString()}\n` }),
      'without the line break at its end',
    ],
    ['the body is not JSON', () => ({ body: 'abc' }), 'not JSON'],
    [
      'the signature was changed',
      () => ({ proof: changed(proof, proof.length - 20) }),
      'The checkpoint is forged or damaged',
    ],
    ['it is cut short', () => ({ proof: proof.slice(0, -60) }), 'The file is not a proof of this log: '],
    ['it is JSON that contains the proof', () => ({ proof: JSON.stringify({ proof }) }), 'jq -j .proof'],
  ])('is refused because %s', async (_, given, message) => {
    const { code, stdout, stderr } = await check(given());
    expect([code, stderr]).toEqual([3, '']);
    expect(stdout).toMatch(/^NOT VALID\n\n[^\n]*\n$/);
    expect(stdout).toContain(message);
  });

  test('is refused because the key is that of another log', async () => {
    const stranger = await otherKey();
    const { code, stdout } = await check({ key: stranger });
    expect(code).toBe(3);
    for (const each of [key, stranger]) expect(stdout).toContain(idOfKey(each));
  });

  test('is reported as JSON for scripts, with a reason that never changes', async () => {
    const { code, stdout, stderr } = await check({ body: other.body }, '--json');
    expect([code, stderr]).toEqual([3, '']);
    expect(JSON.parse(stdout)).toEqual({
      ...{ valid: false, reason: 'other-event' },
      message: expect.stringContaining(idOf(other)) as string,
    });
  });

  test('results from a change of any single byte', async () => {
    const { checkProof } = await import('@clinical-events/protocol/verify');
    const bytes = Buffer.from(proof);
    for (let at = 0; at < bytes.length; at++) {
      const forged = Buffer.from(bytes);
      forged[at] = (forged[at] ?? 0) ^ 1;
      const verdict = await checkProof({ proof: forged.toString(), body: EVENT.body, keys: [key] });
      expect([at, verdict.valid]).toEqual([at, false]);
    }
  });
});

describe('[R-908] a log that has changed its key', () => {
  test('is verified from an earlier key by its rotation notes, in a directory or in files', async () => {
    const dataDir = path.join(directory, 'rotated');
    const [event, more] = [loggedEvent('one'), loggedEvent('two')];
    await fillSigned(dataDir, [[event]]);
    const { proof: early } = await proofIn(dataDir, idOf(event));
    const signingKeys = path.join(dataDir, 'signing-keys');
    for (let i = 0; i < 2; i++) {
      SigningKeys.rotate({ dataDir, directory: signingKeys, overlapMs: 0 });
      await fillSigned(dataDir, [[i === 0 ? more : loggedEvent('three')]]);
    }
    const { proof: later, verifierKey } = await proofIn(dataDir, idOf(event));
    const given = { proof: later, body: event.body, key: firstKey(dataDir) };
    expect((await check(given)).code).toBe(3);
    const notes = path.join(dataDir, 'checkpoints', 'rotations');
    const files = fs.readdirSync(notes).map((name) => path.join(notes, name));
    const [first = '', second = ''] = files;
    expect(files).toHaveLength(2);
    const { code, stdout } = await check(given, '--key', notes);
    expect([code, stdout.includes(`with the key\n    ${verifierKey}\n`)]).toEqual([0, true]);
    expect((await check(given, '--key', first, '--key', second)).code).toBe(0);
    const both = file(files.map((each) => `${fs.readFileSync(each, 'utf8')}\n`).join(''));
    expect((await check(given, '--key', both)).code).toBe(0);
    expect((await check(given, '--key', second)).code).toBe(3);
    // The other way round: a later key, and a proof from before it.
    const old = { ...given, proof: early, key: verifierKey };
    const checked = await check(old, '--key', notes);
    expect(checked.code).toBe(3);
    expect(checked.stdout).toContain(idOfKey(verifierKey));
    expect(checked.stdout).toContain('is older than the key you gave');
    // Without the note between them it is not known which key is older.
    expect((await check(old, '--key', first)).stdout).not.toContain('is older than the key you gave');
    const forged = file(changed(fs.readFileSync(first, 'utf8'), fs.readFileSync(first).length - 30));
    const refused = await check(given, '--key', forged);
    expect(refused.code).toBe(3);
    expect(refused.stdout).toContain('rotation note 1');
  });
});

describe('check-proof', () => {
  test('with a line of "collector events" in place of the body says how to extract the body', async () => {
    const dataDir = path.join(directory, 'data');
    const { stdout } = await run(['events', '--data-dir', dataDir, '--event', idOf(EVENT)]);
    const line = file(stdout);
    expect(await run(['check-proof', file(proof), '--event', line, '--key', key])).toMatchObject({
      ...{ code: 2, stdout: '', stderr: expect.stringContaining('jq -j .body') as string },
    });
    const { body } = JSON.parse(stdout) as { body: string };
    expect((await check({ body })).code).toBe(0);
  });

  test('with a file that does not exist ends with exit code 6', async () => {
    const none = path.join(directory, 'none');
    const [ofProof, ofBody] = [file(proof), file(EVENT.body)];
    for (const [proofFile, body, given] of [
      [none, ofBody, key],
      [ofProof, none, key],
      [ofProof, ofBody, `@${none}`],
      [ofProof, ofBody, 'no.vkey'],
    ] as const)
      expect(await run(['check-proof', proofFile, '--event', body, '--key', given])).toMatchObject({
        ...{ code: 6, stdout: '', stderr: expect.stringMatching(/none|no\.vkey/) as string },
      });
    expect((await check({}, '--key', none)).code).toBe(6);
    expect((await check({}, '--witness', 'no.vkey')).code).toBe(6);
    // What does not look like the name of a file may be a secret.
    const secret = await check({ key: 'cek_abc' });
    expect(secret.code).toBe(6);
    expect(secret.stderr).not.toContain('cek_abc');
  });

  test.each<[string, () => Promise<{ code: number | null; stdout: string; stderr: string }>, string]>([
    ['an invalid key', () => check({ key: 'PRIVATE+KEY+cek_abc' }), '--key'],
    ['a file with an invalid key', () => check({ key: file('cek_abc', 'some.vkey') }), '/some.vkey'],
    ['an empty key file', () => check({ key: file('\n', 'some.vkey') }), '/some.vkey'],
    ['a key with a wrong id', () => check({ key: key.replace(/\+[0-9a-f]{8}\+/, '+00000000+') }), '--key'],
    ['no key', () => run(['check-proof', file(proof), '--event', file(EVENT.body)]), '--key'],
    ['no body', () => run(['check-proof', file(proof), '--key', key]), '--event'],
    ['no proof', () => run(['check-proof', '--event', file(EVENT.body), '--key', key]), 'proof'],
    [
      'a directory for a proof',
      () => run(['check-proof', directory, '--event', file(EVENT.body), '--key', key]),
      ' is a directory',
    ],
  ])('with %s ends with exit code 2', async (_, checked, message) => {
    const { code, stdout, stderr } = await checked();
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^collector: [^\n]*\n$/);
    expect(stderr).toContain(message);
    expect(stderr).not.toContain('cek_abc');
  });
});

describe('a witness', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32);
  const name = 'witness.example/w1';
  const keyId = hash(
    'sha256',
    Buffer.concat([Buffer.from(`${name}\n`), Buffer.of(4), raw]),
    'buffer',
  ).readUInt32BE();
  const vkey = `${name}+${keyId.toString(16).padStart(8, '0')}+${Buffer.concat([Buffer.of(4), raw]).toString('base64')}`;
  const time = Date.parse('2026-01-10T03:00:02Z') / 1000;

  /** The proof, with what a witness signs by C2SP tlog-cosignature. */
  function cosigned(text = proof.slice(proof.indexOf('\n\n') + 2, proof.lastIndexOf('\n\n') + 1)): string {
    const at = Buffer.alloc(8);
    at.writeBigUInt64BE(BigInt(time));
    const signature = sign(null, Buffer.from(`cosignature/v1\ntime ${time}\n${text}`), privateKey);
    const id = Buffer.alloc(4);
    id.writeUInt32BE(keyId);
    return `${proof}\u2014 ${name} ${Buffer.concat([id, at, signature]).toString('base64')}\n`;
  }

  test('[R-908] that has cosigned is reported with its time', async () => {
    const { code, stdout } = await check({ proof: cosigned() }, '--witness', vkey);
    expect(code).toBe(0);
    expect(stdout).toContain(`The witness ${name} `);
    expect(stdout).toContain('2026-01-10T03:00:02.000Z');
    expect(stdout).not.toContain('other signatures');
    const json = await check({ proof: cosigned() }, '--json', '--witness', file(`${vkey}\n`));
    expect(JSON.parse(json.stdout)).toMatchObject({
      valid: true,
      cosigned_by: [{ key: vkey, at: '2026-01-10T03:00:02.000Z' }],
    });
  });

  test('[R-908] that has not cosigned, or has cosigned something else, makes the proof invalid', async () => {
    for (const [given, said] of [
      [proof, 'has not cosigned the checkpoint'],
      [cosigned(`${ORIGIN}\n8\nAAAA\n`), 'is not by the key'],
    ] as const) {
      const { code, stdout } = await check({ proof: given }, '--json', '--witness', vkey);
      const verdict = JSON.parse(stdout) as { valid: boolean; reason: string; message: string };
      expect([code, verdict.valid, verdict.reason]).toEqual([3, false, 'not-cosigned']);
      expect(verdict.message).toContain(name);
      expect(verdict.message).toContain(said);
    }
    const { code, stderr } = await check({ proof: cosigned() }, '--witness', key);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--witness')]);
  });
});
