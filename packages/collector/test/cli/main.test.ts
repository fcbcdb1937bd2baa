import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { scratchDirectory } from '../access/scratch-keys.js';
import { collector } from './collector-process.js';

test('the help names every command and every exit code, and ends with 0', async () => {
  const { code, stdout, stderr } = await collector(['--help']);
  expect([code, stderr]).toEqual([0, '']);
  for (const name of ['serve', 'keys', 'events', 'doctor'])
    expect(stdout).toMatch(new RegExp(`^  ${name} +\\S`, 'm'));
  for (const exitCode of [0, 1, 2, 3, 4, 5, 6])
    expect(stdout).toMatch(new RegExp(`^  ${exitCode}  \\S`, 'm'));
});

test('without a command the help goes to standard error, with exit code 2', async () => {
  const { code, stdout, stderr } = await collector([]);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain('Usage: collector');
});

test('the version is that of the package', async () => {
  expect(await collector(['--version'])).toMatchObject({ code: 0, stdout: '0.0.1\n' });
});

test('help for a command shows its examples', async () => {
  const { code, stdout } = await collector(['keys', 'create', '--help']);
  expect(code).toBe(0);
  expect(stdout).toContain('$ collector keys create --permissions all');
});

test.each([
  [['serv'], "unknown command 'serv' (Did you mean serve?)"],
  [['keys', 'craete'], "unknown command 'craete' (Did you mean create?)"],
  [['keys', 'list', '--jsno'], "unknown option '--jsno' (Did you mean --json?)"],
  [['keys', 'list', 'extra'], "too many arguments for 'list'. Expected 0 arguments but got 1."],
  [['keys', 'create'], "required option '--permissions <kinds>' not specified"],
])('%j is refused in one line with exit code 2', async (args, message) => {
  expect(await collector(args)).toEqual({ code: 2, stdout: '', stderr: `collector: ${message}\n` });
});

test('a faulty configuration is refused with a line for each fault', async () => {
  const env = { COLLECTOR_PORT: '-1', COLLECTOR_PROT: '80' };
  expect(await collector(['keys', 'list', '--log-level', 'loud'], { env })).toEqual({
    code: 2,
    stdout: '',
    stderr: [
      'collector: COLLECTOR_PROT: no such setting; did you mean "COLLECTOR_PORT"?\n',
      'collector: COLLECTOR_PORT: "-1" is not a whole number\n',
      'collector: --log-level: "loud" is not one of trace, debug, info, warn, error, fatal, silent\n',
    ].join(''),
  });
});

test('a damaged keys.db is told of in one line with exit code 1, and with a stack at log level debug', async () => {
  const dataDir = scratchDirectory();
  writeFileSync(path.join(dataDir, 'keys.db'), 'not a database'.repeat(1000));
  const { code, stdout, stderr } = await collector(['keys', 'list', '--data-dir', dataDir]);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toBe(
    `collector: the API keys in ${path.join(dataDir, 'keys.db')} cannot be used: file is not a database\n`,
  );
  const debugging = await collector(['keys', 'list', '--data-dir', dataDir, '--log-level', 'debug']);
  expect(debugging.code).toBe(1);
  expect(debugging.stderr).toMatch(/^collector: .*\nKeyStoreError: .*\n +at /);
});

test('output that nobody reads ends the command quietly with 0', async () => {
  expect(await collector(['--help'], { closeStdout: true })).toMatchObject({ code: 0, stderr: '' });
});
