/** Builds a release twice, and installs its artifacts in empty directories. Needs the registry for dependencies alone. */
import { execFile, spawnSync, type SpawnSyncOptions } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keyFrom, started, type Started } from './release/bundle-process.js';

const ROOT = path.resolve(import.meta.dirname, '..');
const OTHER_USER = 10_001;
const isRoot = process.getuid?.() === 0;
if (!isRoot) console.log('not root: one user builds both releases');
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'release-'));
const builds = [
  { checkout: path.join(scratch, 'a'), TZ: 'Asia/Kathmandu', umask: '022', user: 0 },
  {
    checkout: path.join(scratch, 'a-longer/name of a directory/b'),
    TZ: 'America/St_Johns',
    umask: '077',
    user: OTHER_USER,
  },
] as const;
const release = path.join(builds[0].checkout, 'release');
const artifact = (name: string) => path.join(release, name);
const execute = promisify(execFile);
const ENV = { PATH: process.env['PATH'] };
const textOf = (file: string) => fs.readFileSync(path.join(ROOT, file), 'utf8');
const { version: VERSION } = JSON.parse(textOf('package.json')) as { version: string };

/** The start of a command that runs as another user, if the tests may become one. */
const as = (user: number) =>
  isRoot ? ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'] : [];

/** The first directory of PATH with a suitable python3 that both users may run. */
const python = process.env['PATH']?.split(path.delimiter).find((directory) => {
  const code = 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))';
  const python3 = path.join(directory, 'python3');
  return spawnSync('env', [...as(OTHER_USER), python3, '-c', code]).status === 0;
});
if (python === undefined) console.log('skipped: there is no python3 of version 3.10 or newer with venv');

function run(program: string, args: readonly string[], options: SpawnSyncOptions = {}): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    ...options,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  if (status !== 0)
    throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? ''}${stdout}${stderr}`);
  return stdout;
}

/** Paths that a clean checkout lacks. */
const NOT_COPIED =
  /(^|\/)(node_modules|dist)$|^(release|data|\.git|\.venv|\.build-stamp|packages\/protocol\/src\/generated)$/;

/** Copies the sources, and links the installed packages. */
function copySources(checkout: string, user: number): void {
  fs.mkdirSync(path.dirname(checkout), { recursive: true });
  fs.cpSync(ROOT, checkout, {
    recursive: true,
    filter: (file) => !NOT_COPIED.test(path.relative(ROOT, file)),
  });
  if (isRoot) run('chown', ['-R', `${user}:${user}`, checkout]);
  for (const installed of ['node_modules', 'packages/instrument/node_modules']) {
    const [from, to] = [path.join(ROOT, installed), path.join(checkout, installed)];
    if (!fs.existsSync(from)) continue;
    if (spawnSync('cp', ['-al', from, to]).status === 0) continue;
    fs.rmSync(to, { recursive: true, force: true });
    run('cp', ['-a', from, to]);
  }
}

/** Neither npm nor pip reaches a registry; where the system permits it, no network exists at all. */
const NOWHERE = 'http://127.0.0.1:1/';
const withoutNetwork = spawnSync('unshare', ['--net', 'true']).status === 0 ? ['unshare', '--net'] : [];

async function dryRun({ checkout, TZ, umask, user }: (typeof builds)[number]): Promise<void> {
  if (python !== undefined) {
    const PATH = `${python}${path.delimiter}${process.env['PATH']}`;
    const install = ['scripts/release/python.mjs', '--install'];
    run(process.execPath, install, { cwd: checkout, env: { ...process.env, PATH } });
  }
  const home = path.join(scratch, `home-${user}`);
  fs.mkdirSync(home);
  if (isRoot) fs.chownSync(home, user, user);
  const options = python === undefined ? ['--', '--without-python'] : [];
  const build = ['npm', 'run', '--ignore-scripts', 'release:dry-run', ...options];
  const shell = ['sh', '-c', `umask ${umask} && exec "$@"`, 'sh'];
  const [program = '', ...args] = [...withoutNetwork, ...as(user), ...shell, ...build];
  await execute(program, args, {
    cwd: checkout,
    env: {
      PATH: process.env['PATH'],
      HOME: home,
      TZ,
      SOURCE_COMMIT: '0123456789abcdef0123456789abcdef01234567',
      SOURCE_DATE_EPOCH: '1790000000',
      npm_config_registry: NOWHERE,
      PIP_INDEX_URL: NOWHERE,
      HTTP_PROXY: NOWHERE,
      HTTPS_PROXY: NOWHERE,
    },
  });
}

/** A running collector of the bundle. */
const collector = { main: '', url: '', key: '', data: path.join(scratch, 'data') };
let serving: Started | undefined;

async function serve(): Promise<void> {
  const place = path.join(scratch, 'bundle');
  fs.mkdirSync(place);
  run('tar', ['-xzf', artifact(`collector-${VERSION}.tar.gz`), '-C', place]);
  const [top = ''] = fs.readdirSync(place);
  collector.main = path.join(place, top, 'packages/collector/dist/main.js');
  const args = ['--port', '0', '--management', 'off', '--data-dir', collector.data];
  serving = await started(process.execPath, [collector.main, 'serve', ...args], { cwd: scratch, env: ENV });
  collector.url = serving.url;
  collector.key = await keyFrom(serving);
}

beforeAll(async () => {
  fs.chmodSync(scratch, 0o755);
  // Both first, so that a change of the sources meanwhile reaches neither.
  for (const { checkout, user } of builds) copySources(checkout, user);
  for (const build of builds) await dryRun(build);
  await serve();
}, 1_800_000);

afterAll(() => {
  serving?.child.kill();
  fs.rmSync(scratch, { recursive: true, force: true });
});

const filesOf = (directory: string) =>
  fs
    .readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => fs.statSync(path.join(directory, name)).isFile())
    .sort();
const sha256 = (file: string) => createHash('sha256').update(fs.readFileSync(file)).digest('hex');
const PACKAGES = ['client', 'collector', 'exports', 'instrument', 'postgres', 'protocol', 'report', 'viewer'];
const packed = (name: string) => `clinical-events-${name}-${VERSION}`;
const PYTHON = `clinical_events-${VERSION}`;

test('[R-2052] two directories, users, umasks and time zones give the same artifacts, without a network', () => {
  const [first = [], second = []] = builds.map(({ checkout }) =>
    filesOf(path.join(checkout, 'release')).map((name) => [
      name,
      sha256(path.join(checkout, 'release', name)),
    ]),
  );
  expect(second).toEqual(first);
  const sboms = [...PACKAGES.map(packed), PYTHON, `collector-${VERSION}`].map(
    (name) => `sbom/${name}.cdx.json`,
  );
  const manifests = ['', '-postgres', '-postgres-migrate'].map(
    (of) => `collector-kubernetes${of}-${VERSION}.yaml`,
  );
  const texts = ['INSTALL.md', 'LICENCES.md', 'SHA256SUMS'];
  const servers = [`collector-${VERSION}.tar.gz`, `collector-image-${VERSION}.tar`];
  const clients = python === undefined ? [] : [`${PYTHON}-py3-none-any.whl`, `${PYTHON}.tar.gz`];
  clients.push(...PACKAGES.map((name) => `${packed(name)}.tgz`));
  const names = [...sboms, ...manifests, ...texts, ...servers, ...clients].sort();
  expect(first.map(([name]) => name)).toEqual(names);
  // Every other file has its sum.
  const sums = fs.readFileSync(artifact('SHA256SUMS'), 'utf8');
  const others = first.filter(([name]) => name !== 'SHA256SUMS');
  expect(sums).toBe(others.map(([name, sum]) => `${sum}  ${name}\n`).join(''));
});

test('[R-2054] the list of licences has every dependency that an SBOM names', () => {
  const list = fs.readFileSync(artifact('LICENCES.md'), 'utf8');
  for (const name of fs.readdirSync(artifact('sbom'))) {
    const { components } = JSON.parse(fs.readFileSync(artifact(`sbom/${name}`), 'utf8')) as {
      components: { name: string; version: string }[];
    };
    for (const each of components) expect(list).toContain(`| ${each.name} | ${each.version} |`);
  }
});

/** The first example of a README in a language. */
const example = (readme: string, language: string) => {
  const [, code = ''] = new RegExp(`\`\`\`${language}\n(.*?)\n\`\`\``, 's').exec(textOf(readme)) ?? [];
  expect(code).not.toBe('');
  return code.replaceAll('http://127.0.0.1:8080', collector.url);
};

/** An empty directory with packages from their tarballs. */
function installed(name: string, packages: readonly string[], others: readonly string[] = []): string {
  const directory = path.join(scratch, name);
  fs.mkdirSync(directory);
  const tarballs = packages.map((each) => artifact(`${packed(each)}.tgz`));
  const options = ['--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts', '--loglevel=error'];
  run('npm', ['install', ...options, ...tarballs, ...others], { cwd: directory });
  return directory;
}

const environment = () => ({ ...ENV, COLLECTOR_KEY: collector.key });

/** Records that the collector of the bundle has. */
function recordsOf(...options: string[]): string {
  const args = [collector.main, 'records', '--data-dir', collector.data, ...options];
  return run(process.execPath, args, { env: environment() });
}

/** Writes a program into a directory, and returns its standard output when it has ended well. */
async function output(directory: string, file: string, text: string, input = '', env: object = {}) {
  fs.writeFileSync(path.join(directory, file), text);
  const ended = execute(process.execPath, [file], { cwd: directory, env: { ...environment(), ...env } });
  ended.child.stdin?.end(input);
  return (await ended).stdout;
}

/** A model that gives one answer. */
async function modelServer(): Promise<{ url: string; close: () => void }> {
  const message = { role: 'assistant', content: '25 mg twice a day' };
  const choices = [{ index: 0, finish_reason: 'stop', message }];
  const answer = { id: 'c', object: 'chat.completion', created: 1, model: 'model-of-the-test', choices };
  const server = http.createServer((_, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}/v1`, close: () => server.close() };
}

test('[R-2053] the packages for applications do the first example of their READMEs', async () => {
  const manifest = JSON.parse(textOf('packages/instrument/package.json')) as {
    devDependencies: { openai: string };
  };
  const openai = `openai@${manifest.devDependencies.openai}`;
  const directory = installed('application', ['protocol', 'client', 'instrument'], [openai]);
  const types = path.join(directory, 'node_modules/@clinical-events/client/dist/index.d.ts');
  expect(fs.existsSync(types)).toBe(true);

  const chat = example('packages/client/README.md', 'js');
  const said = await output(directory, 'chat.mjs', chat, 'How do I start metoprolol?\n');
  expect(recordsOf('--run', /\(run (.*)\)/.exec(said)?.[1] ?? '')).toContain('ward-assistant');

  const event = `${example('packages/protocol/README.md', 'ts')}
const { status } = await fetch('${collector.url}' + EVENT_PATHS['inference-start'], {
  method: 'POST',
  headers: { 'x-api-key': '${collector.key}', 'content-type': 'application/json' },
  body: JSON.stringify(event),
});
console.log(issues, status);
`;
  expect(await output(directory, 'event.mts', event)).toMatch(/^undefined 20\d\n$/);

  const model = await modelServer();
  const call = `import { createClient } from '@clinical-events/client';
const app = { app_name: 'ward-chat' };
const log = createClient({ url: '${collector.url}', apiKey: process.env.COLLECTOR_KEY, spool: './spool', app });
${example('packages/instrument/README.md', 'js')}
await openai.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'How?' }] });
console.log(await log.close());
`;
  const access = { OPENAI_API_KEY: 'none', OPENAI_BASE_URL: model.url };
  expect(await output(directory, 'model.mjs', call, '', access)).toContain('waiting: 0');
  model.close();
  expect(recordsOf()).toContain('model-of-the-test');
});

test('[R-2053] the packages of the server, from their tarballs, read what the bundle wrote', () => {
  const others = PACKAGES.filter((name) => !['client', 'instrument'].includes(name));
  const directory = installed('server', others);
  const bin = path.join(directory, 'node_modules/.bin');
  const env = { PATH: `${path.dirname(process.execPath)}${path.delimiter}${process.env['PATH']}` };
  const program = (name: string, ...args: string[]) => run(path.join(bin, name), args, { cwd: scratch, env });
  const data = ['--data-dir', collector.data];
  expect(program('collector', '--version')).toContain(VERSION);
  expect(program('collector-viewer', '--version')).toContain(VERSION);
  expect(program('collector', 'records', ...data, '--format', 'fhir')).toContain('"resourceType"');
  expect(program('collector', 'report', ...data, '--out', path.join(scratch, 'report.html'))).toBeDefined();
  expect(fs.readFileSync(path.join(scratch, 'report.html'), 'utf8')).toContain('</html>');
  expect(program('collector', 'store', '--help')).toContain('store');
});

test('[R-2053] wheel and sdist do the first example of the README of the Python client', () => {
  if (python === undefined) return;
  const [hatchling = ''] = fs.globSync(path.join(builds[0].checkout, '.venv/lib/python3*/site-packages'));
  for (const name of [`${PYTHON}-py3-none-any.whl`, `${PYTHON}.tar.gz`]) {
    const directory = fs.mkdtempSync(path.join(scratch, 'python-'));
    const bin = path.join(directory, 'venv/bin');
    run(path.join(python, 'python3'), ['-m', 'venv', path.join(directory, 'venv')]);
    // pip builds an sdist by hatchling, here by the one that is installed.
    const install = ['-m', 'pip', 'install', '--quiet', '--no-index', '--no-build-isolation', artifact(name)];
    run(path.join(bin, 'python'), install, { env: { ...process.env, PYTHONPATH: hatchling } });
    expect(run(path.join(bin, 'clinical-events'), ['--version'])).toContain(VERSION);
    const files = fs.globSync(path.join(directory, 'venv/lib/python3*/site-packages/clinical_events/**'));
    for (const needed of ['py.typed', 'schemas/outcome.full.json'])
      expect(
        files.some((file) => file.endsWith(`/${needed}`)),
        needed,
      ).toBe(true);
    const code = `${example('clients/python/README.md', 'python')}\nprint(run.id)\n`;
    fs.writeFileSync(path.join(directory, 'example.py'), code);
    const id = run(path.join(bin, 'python'), ['-I', 'example.py'], { cwd: directory, env: environment() });
    expect(recordsOf('--run', id.trim())).toContain('25 mg twice a day');
  }
});
