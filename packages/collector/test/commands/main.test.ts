import { spawnSync } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { commit } from '../../src/commands/typed.js';
import { scratchDirectory } from '../access/scratch-keys.js';
import { run as collector } from '../running/collector-process.js';

test('the help names every command and every exit code, and ends with 0', async () => {
  const { code, stdout, stderr } = await collector(['--help']);
  expect([code, stderr]).toEqual([0, '']);
  for (const name of ['serve', 'keys', 'events', 'doctor'])
    expect(stdout).toMatch(new RegExp(`^  ${name} +\\S`, 'm'));
  for (const exitCode of [0, 1, 2, 3, 4, 5, 6])
    expect(stdout).toMatch(new RegExp(`^  ${exitCode} +\\S`, 'm'));
});

test('without a command the help goes to standard error, with exit code 2', async () => {
  const { code, stdout, stderr } = await collector([]);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain('Usage: collector');
});

test('[R-2058] --version prints the version of the package and the commit of the build', async () => {
  expect(await collector(['--version'])).toMatchObject({ code: 0, stdout: `0.1.0 (commit ${commit()})\n` });
});

test('a data directory that is a file is refused by every command', async () => {
  const file = scratchDirectory('file');
  writeFileSync(file, '');
  for (const args of [['serve'], ['events'], ['doctor'], ['keys', 'list']]) {
    const { code, stdout, stderr } = await collector([...args, '--data-dir', file]);
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining(file)]);
  }
});

test('a damaged keys.db ends every command that reads keys with exit code 3', async () => {
  const dataDir = scratchDirectory();
  writeFileSync(path.join(dataDir, 'keys.db'), 'not a database'.repeat(1000));
  const commands = [
    ['doctor'],
    ['serve', '--port', '0'],
    ['keys', 'create', '--permissions', 'all'],
    ['keys', 'revoke', 'aaaaaaaaaaaa'],
  ];
  for (const args of commands) {
    expect((await collector([...args, '--data-dir', dataDir])).code, args.join(' ')).toBe(3);
  }
});

test.skipIf(process.platform === 'win32')(
  '[R-725] ./collector of a checkout works from any directory, and through links',
  () => {
    const wrapper = path.resolve(import.meta.dirname, '../../../../collector');
    const directory = scratchDirectory();
    symlinkSync(wrapper, path.join(directory, 'absolute'));
    symlinkSync('absolute', path.join(directory, 'relative'));
    for (const file of [wrapper, './absolute', './relative']) {
      // The Node that PATH leads to may be an older one, or none.
      const env = { PATH: '/usr/bin:/bin' };
      const shown = spawnSync(file, ['runs', '--help'], { cwd: directory, env, encoding: 'utf8' });
      expect([shown.status, shown.stderr]).toEqual([0, '']);
      expect(shown.stdout).toContain(`$ ${wrapper} runs --target`);
    }
  },
);

test('on an older Node every command says in one line what it needs, before it loads anything', async () => {
  const old =
    "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })";
  const preload = `data:text/javascript,${encodeURIComponent(old)}`;
  for (const args of [[], ['doctor'], ['--help']]) {
    expect(await collector(args, { env: { NODE_OPTIONS: `--import=${preload}` } })).toEqual({
      ...{
        code: 2,
        stdout: '',
        stderr: expect.stringMatching(/^collector: [^\n]*20\.20\.2[^\n]*\n$/) as string,
      },
    });
  }
  const main = readFileSync(path.resolve(import.meta.dirname, '../../src/main.ts'), 'utf8');
  expect([...main.matchAll(/^import .* from '(.*)'/gm)].map(([, name]) => name)).toEqual([
    './commands/exit-codes.js',
  ]);
});

test.each([
  [['help', 'bogus'], 'bogus'],
  [['help', 'serv'], 'serve'],
  [['serv'], 'serve'],
  [['keys', 'craete'], 'create'],
  [['keys', 'list', '--jsno'], '--json'],
  [['serve', '--queue-bytes', '1'], 'queue-bytes in "limits"'],
  [['keys', 'list', 'extra'], 'list'],
  [['keys', 'create'], '--permissions'],
])('%j is refused in one line with exit code 2', async (args, message) => {
  const { code, stdout, stderr } = await collector(args);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^collector: [^\n]*\n$/);
  expect(stderr).toContain(message);
});

test('a faulty configuration is refused with a line for each fault', async () => {
  const env = { COLLECTOR_PORT: '-1', COLLECTOR_PROT: '80' };
  const { code, stderr } = await collector(['keys', 'list', '--log-level', 'loud'], { env });
  expect(code).toBe(2);
  expect(stderr.split('\n').map((line) => line.split(': ')[1])).toEqual([
    ...['COLLECTOR_PROT', 'COLLECTOR_PORT', '--log-level', undefined],
  ]);
});

test('output that no one reads ends the command quietly with 0', async () => {
  expect(await collector(['--help'], { closeStdout: true })).toMatchObject({ code: 0, stderr: '' });
});
