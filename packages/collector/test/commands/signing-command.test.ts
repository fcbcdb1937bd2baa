import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { keyIdText } from '@clinical-events/protocol/verify';
import { describe, expect, onTestFinished, test } from 'vitest';
import { noteKey, verifierKeyOf } from '../../src/tree/note-signing.js';
import { scratchDirectory } from '../access/scratch-keys.js';
import { createKey, outcomeEvent, run, start } from '../running/collector-process.js';
import { ScratchProgram } from '../tree/scratch-program.js';
import { fillSigned, ORIGIN } from './signed-directory.js';

/** A collector that is expected not to start. */
function serve(dataDir: string, program: string) {
  const options = ['--port', '0', '--data-dir', dataDir, '--signing-keys', `command:${program}`];
  return run(['serve', ...options, '--log-level', 'error']);
}

async function doctor(dataDir: string, ...options: string[]): Promise<string> {
  const { code, stdout } = await run(['doctor', '--data-dir', dataDir, ...options]);
  expect(code).toBe(0);
  return stdout;
}

describe('a key of a signing command', () => {
  test('[R-905] [R-903] that stops signing is reported by doctor while events are stored, until it signs again', async () => {
    const dataDir = scratchDirectory('data');
    const apiKey = await createKey(dataDir);
    const program = new ScratchProgram();
    const options = ['--signing-keys', `command:${program.path}`];
    const serving = await start(dataDir, [...options, '--checkpoint-interval-ms', '100']);
    onTestFinished(() => serving.kill());
    const post = async () => {
      const headers = { 'x-api-key': apiKey, 'content-type': 'application/json' };
      const body = JSON.stringify(outcomeEvent());
      expect((await fetch(`${serving.url}/event/outcome`, { method: 'POST', headers, body })).status).toBe(
        201,
      );
    };
    expect(await doctor(dataDir, ...options)).toMatch(
      new RegExp(`^ok +signing key +signs by ${program.path}: `, 'm'),
    );
    expect(await doctor(dataDir)).toMatch(/^WARNING +signing key +.*--signing-keys command:PROGRAM/m);
    program.behave({ misbehaviour: 'fails', on: 'sign' });
    await post();
    const trouble = path.join(dataDir, 'checkpoints', 'trouble.json');
    await expect.poll(() => fs.existsSync(trouble)).toBe(true);
    // Also if doctor does not know the command.
    expect(await doctor(dataDir)).toMatch(
      /^WARNING +checkpoint +.* since \d{4}-.*Z: .* exit code 1 \(sign\)/m,
    );
    // The output of the program may be secret.
    expect(fs.readFileSync(trouble, 'utf8')).not.toContain('cannot sign');
    program.behave({});
    await expect.poll(() => fs.existsSync(trouble)).toBe(false);
    expect(await doctor(dataDir, ...options)).not.toContain('WARNING  checkpoint');
    expect(await serving.stop()).toBe(0);
  });

  test('[R-905] that is invalid is a fault of the configuration, in one line, and a command that fails is not', async () => {
    const dataDir = scratchDirectory('data');
    const program = new ScratchProgram();
    const { privateKey: rsa } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const plain = scratchDirectory('plain');
    fs.writeFileSync(plain, '', { mode: 0o600 });
    const expectRefused = async (command: string, message: string) => {
      const { code, stdout, stderr } = await serve(dataDir, command);
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr).toMatch(/^collector: --signing-keys: [^\n]*\n$/);
      expect(stderr).toContain(message);
      expect(stderr).not.toContain('SECRET');
    };
    await expectRefused('/no/such/program', '/no/such/program');
    await expectRefused(`${program.path} --token SECRET`, `${program.path} ...`);
    await expectRefused(plain, plain);
    for (const behaviour of [{ key: rsa }, { misbehaviour: 'rubbish', on: 'public-key' } as const]) {
      program.behave(behaviour);
      await expectRefused(program.path, 'Ed25519');
    }
    program.behave({ misbehaviour: 'fails', on: 'public-key' });
    expect((await serve(dataDir, program.path)).code).toBe(1);
    expect(fs.existsSync(path.join(dataDir, 'checkpoints', 'origin.vkey'))).toBe(false);
  });

  test('[R-905] that is not the key of the log, or is no longer named, is refused, and not reported as damage', async () => {
    const dataDir = scratchDirectory('data');
    await fillSigned(dataDir, []);
    const current = fs.readFileSync(path.join(dataDir, 'checkpoints', 'origin.vkey'), 'utf8').trim();
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    const program = new ScratchProgram();
    program.behave({ key: privateKey });
    const other = await serve(dataDir, program.path);
    expect([other.code, other.stdout]).toEqual([2, '']);
    for (const each of [verifierKeyOf(ORIGIN, publicKey), current]) expect(other.stderr).toContain(each);
    // As with a log that a command began.
    fs.rmSync(path.join(dataDir, 'signing-keys'), { recursive: true });
    const { code, stderr } = await run([
      ...['serve', '--port', '0', '--data-dir', dataDir, '--log-level', 'error'],
    ]);
    // No start fixes it, so a service manager must not retry.
    expect(code).toBe(2);
    expect(stderr).toMatch(/--with-signing-keys.*command:PROGRAM.* --signing-keys/);
    expect(stderr).toContain(current);
    expect(stderr).toContain(`${keyIdText(noteKey(current).keyId)}.pem`);
  });

  test('[R-905] another name than that of the log is a fault of the configuration', async () => {
    const dataDir = scratchDirectory('data');
    await fillSigned(dataDir, []);
    const options = ['--port', '0', '--data-dir', dataDir, '--log-origin', 'log.example/b'];
    const { code, stderr } = await run(['serve', ...options, '--log-level', 'error']);
    expect([code, stderr]).toEqual([2, expect.stringContaining(`--log-origin: `)]);
    expect(stderr).toContain(ORIGIN);
  });
});
