/** scripts/setup.mjs in a checkout of its own, with a stand-in for npm. */
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');
const { workspaces } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  workspaces: readonly string[];
};

const POSTGRES = 'packages/postgres';
const CI = ['ci', '--no-audit', '--no-fund', '--loglevel=error'];

/** Writes a line for each call, and creates the files that npm would. With `HANGS` it waits for a signal. */
const NPM = `
import fs from 'node:fs';
const [, , command] = process.argv;
const bound = Object.keys(process.env).filter((name) => /^npm_config_(workspace|dry_run)$/.test(name));
fs.appendFileSync('calls', JSON.stringify([...process.argv.slice(2), ...bound]) + '\\n');
if (process.env.HANGS) {
  process.on('SIGTERM', () => {
    fs.appendFileSync('calls', 'ended');
    process.exit(1);
  });
  setInterval(() => undefined, 1000);
  fs.writeFileSync('waits', '');
} else if (command === 'ci') {
  fs.mkdirSync('node_modules/.bin', { recursive: true });
  fs.writeFileSync('node_modules/.bin/tsc', '');
} else {
  const { workspaces } = JSON.parse(fs.readFileSync('package.json', 'utf8'));
  for (const directory of workspaces) fs.mkdirSync(directory + '/dist', { recursive: true });
}
`;

function checkout() {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'setup-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  const files = [
    'package.json',
    'package-lock.json',
    'tsconfig.base.json',
    'scripts/setup.mjs',
    'scripts/commit.mjs',
  ];
  for (const name of workspaces) files.push(`${name}/package.json`, `${name}/tsconfig.json`);
  for (const file of files) {
    fs.mkdirSync(path.dirname(path.join(directory, file)), { recursive: true });
    fs.copyFileSync(path.join(ROOT, file), path.join(directory, file));
  }
  const npm = path.join(directory, 'npm.mjs');
  fs.writeFileSync(npm, NPM);
  const start = (env: NodeJS.ProcessEnv = {}, ...args: readonly string[]) =>
    spawn(process.execPath, ['scripts/setup.mjs', ...args], {
      ...{ cwd: directory, stdio: 'ignore' as const },
      env: { ...process.env, npm_execpath: npm, ...env },
    });
  const calls = () => fs.readFileSync(path.join(directory, 'calls'), 'utf8').split('\n').filter(Boolean);
  return { directory, start, calls };
}

const codeOf = (child: ReturnType<ReturnType<typeof checkout>['start']>) =>
  new Promise<number | null>((resolve) => child.on('exit', resolve));

test('[R-1400] npm start and npm pack install and build once, whatever is packed', async () => {
  const { directory, start, calls } = checkout();
  expect(await codeOf(start({ npm_config_workspace: 'packages/client', npm_config_dry_run: 'true' }))).toBe(
    0,
  );
  expect(await codeOf(start())).toBe(0);
  const selected = workspaces.filter((name) => name !== POSTGRES).map((name) => `--workspace=${name}`);
  expect(calls().map((call) => JSON.parse(call) as unknown)).toEqual([
    [...CI, '--omit=dev', '--include-workspace-root', ...selected],
    ['run', '--silent', 'build'],
  ]);
  for (const name of workspaces.filter((each) => each.startsWith('packages/'))) {
    const file = path.join(ROOT, name, 'package.json');
    const { scripts } = JSON.parse(fs.readFileSync(file, 'utf8')) as { scripts: Record<string, string> };
    expect(scripts['prepack']).toBe(`node ../../scripts/setup.mjs${name === POSTGRES ? ' --all' : ''}`);
  }
  fs.rmSync(path.join(directory, 'packages/client/dist'), { recursive: true });
  expect(await codeOf(start())).toBe(0);
  expect(calls()).toHaveLength(3);
});

test('[R-1400] only --all installs and builds the driver of PostgreSQL', async () => {
  const { directory, start, calls } = checkout();
  expect(await codeOf(start())).toBe(0);
  expect(await codeOf(start({}, '--all'))).toBe(0);
  const [, , all] = calls();
  expect(JSON.parse(all ?? '')).toEqual([...CI, '--include=dev']);
  // What --all has built is not built again without it.
  fs.mkdirSync(path.join(directory, 'node_modules/vitest'));
  expect(await codeOf(start())).toBe(0);
  expect(calls()).toHaveLength(4);
  fs.rmSync(path.join(directory, POSTGRES, 'dist'), { recursive: true });
  expect(await codeOf(start())).toBe(0);
  expect(calls()).toHaveLength(5);
});

test('[R-1400] a set-up that is ended ends its child process', async () => {
  const { directory, start, calls } = checkout();
  const setup = start({ HANGS: 'yes' });
  await expect.poll(() => fs.existsSync(path.join(directory, 'waits'))).toBe(true);
  setup.kill('SIGTERM');
  expect(await codeOf(setup)).toBe(1);
  expect(calls().at(-1)).toBe('ended');
});

test('[R-2058] a build takes the commit from SOURCE_COMMIT, else from git, else it is unknown', async () => {
  const { directory, start } = checkout();
  const file = path.join(directory, 'packages/collector/dist/commit.json');
  const commitOf = (env: NodeJS.ProcessEnv) =>
    codeOf(start(env)).then((code) => [code, fs.readFileSync(file, 'utf8')]);
  expect(await commitOf({ SOURCE_COMMIT: '' })).toEqual([0, '{"commit":"unknown"}\n']);
  expect(await commitOf({ SOURCE_COMMIT: 'c0ffee0123' })).toEqual([0, '{"commit":"c0ffee0123"}\n']);
  expect(await codeOf(start({ SOURCE_COMMIT: '<b>' }))).toBe(1);
  execFileSync('git', ['init', '-q'], { cwd: directory });
  const author = ['-c', 'user.name=test', '-c', 'user.email=test@example.org'];
  execFileSync('git', [...author, 'commit', '-q', '--allow-empty', '-m', 'x'], { cwd: directory });
  const head = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: directory, encoding: 'utf8' }).trim();
  expect(await commitOf({ SOURCE_COMMIT: '' })).toEqual([0, `{"commit":"${head}"}\n`]);
});
