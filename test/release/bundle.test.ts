/** The server bundle and the context of the image, used in an empty directory without the checkout. */
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { build as buildBundle } from '../../scripts/release/bundle.mjs';
import { build as buildImage } from '../../scripts/release/image.mjs';
import { build as buildPackages } from '../../scripts/release/npm.mjs';
import { build as buildSboms } from '../../scripts/release/sbom.mjs';
import { CONTAINER_USER, textOf } from '../deployment/repository.js';
import { keyFrom, started, type Started } from './bundle-process.js';

const { version } = JSON.parse(textOf('package.json')) as { version: string };
const ABOUT = { version, commit: 'c'.repeat(40), epoch: 1_700_000_000 };
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-bundle-'));
const out = path.join(scratch, 'release');
const installed = path.join(scratch, `collector-${ABOUT.version}`);
const root = process.getuid?.() === 0;
const user = root ? { uid: CONTAINER_USER, gid: CONTAINER_USER } : {};
/** The environment of a host with Node.js 24 alone, without variables of the shell that runs the tests. */
const environment = {
  PATH: `${path.join(installed, 'bin')}:${path.dirname(process.execPath)}:/usr/bin:/bin`,
  COLLECTOR_MANAGEMENT_PORT: '0',
};

beforeAll(async () => {
  fs.chmodSync(scratch, 0o755);
  fs.mkdirSync(out);
  await buildBundle(out, ABOUT);
  await buildImage(out, ABOUT);
  buildSboms(out, ABOUT);
  const unpack = ['-C', scratch, '-xzf', path.join(out, `collector-${ABOUT.version}.tar.gz`)];
  expect(spawnSync('tar', unpack, { encoding: 'utf8' }).stderr).toBe('');
  // The file system of a container is read-only. Root could write nonetheless, and does not run the programs.
  spawnSync('chmod', ['-R', 'a-w', installed]);
});

afterAll(() => {
  spawnSync('chmod', ['-R', 'u+w', installed]);
  fs.rmSync(scratch, { recursive: true, force: true });
});

/** A directory for the user that runs the commands. */
function ownDirectory(name: string): string {
  const directory = path.join(scratch, name);
  fs.mkdirSync(directory, { mode: 0o700 });
  if (root) fs.chownSync(directory, CONTAINER_USER, CONTAINER_USER);
  return directory;
}

/** Starts a command of the bundle by its name, as another user. */
async function startedHere(command: string, args: readonly string[]): Promise<Started> {
  const program = await started(command, args, { ...user, cwd: '/', env: environment });
  onTestFinished(() => void program.child.kill('SIGKILL'));
  return program;
}

async function startedCollector(data: string) {
  const collector = await startedHere('collector', ['serve', '--port', '0', '--data-dir', data]);
  const key = await keyFrom(collector);
  const send = async (kind: string, event: object) => {
    const answer = await fetch(`${collector.url}/event/${kind}`, {
      method: 'POST',
      headers: { 'X-API-Key': key, 'Content-Type': 'application/json' },
      body: JSON.stringify({
        ...{ event_id: randomUUID(), timestamp: new Date().toISOString() },
        ...{ protocol_version: '0.0.1', system_metadata: {}, ...event },
      }),
    });
    expect([answer.status, await answer.json()]).toEqual([201, { status: 'accepted' }]);
  };
  return { ...collector, send };
}

/** Signs in by the link that the viewer prints, as the form of its page does. @returns the cookie. */
async function signIn({ url, output }: Started): Promise<string> {
  const token = await vi.waitUntil(() => /\?token=(\S+)/.exec(output.stdout)?.[1], { timeout: 300_000 });
  const answer = await fetch(`${url}/sign-in/link`, {
    method: 'POST',
    headers: { Origin: url, 'Content-Type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ token }).toString(),
    redirect: 'manual',
  });
  const [cookie = ''] = answer.headers.getSetCookie();
  return cookie.split(';', 1)[0] ?? '';
}

test('[R-2053] an event that a collector from the bundle stored is seen in the viewer from the bundle', async () => {
  const data = path.join(ownDirectory('viewed'), 'data');
  const collector = await startedCollector(data);
  const run = randomUUID();
  await collector.send('inference-start', {
    run_id: run,
    model_instance: { model_id: 'triage-assistant', model_version: '1.0' },
    user_identity: { caller_id: 'clinician-17', caller_type: 'clinician' },
    target_identity: { target_id: 'document-42', target_type: 'document' },
    inputs: { prompt: 'Summarise the referral letter.' },
  });
  const state = path.join(ownDirectory('viewer'), 'state');
  const viewer = await startedHere('collector-viewer', [
    ...['--port', '0', '--data-dir', data, '--state-dir', state],
  ]);
  const cookie = await signIn(viewer);
  const shown = await vi.waitUntil(
    async () => {
      const answer = await fetch(`${viewer.url}/reviewer/runs/${run}`, { headers: { Cookie: cookie } });
      const text = await answer.text();
      return text.includes('triage-assistant') ? text : undefined;
    },
    { timeout: 300_000, interval: 100 },
  );
  expect(shown).toContain('Summarise the referral letter.');
  expect([await viewer.stop(), await collector.stop()]).toEqual([0, 0]);
});

test('[R-1400] the bundle runs as another user, writes into its data directory only, and ends in order', async () => {
  const collector = await startedCollector(path.join(ownDirectory('data'), 'collector'));
  await collector.send('outcome', { outcome: {} });
  // The management listener reads files of other packages when it is asked for pages.
  const management = await collector.portOf('management listening');
  for (const page of ['/livez', '/readyz', '/metrics', '/openapi.json']) {
    expect((await fetch(`http://127.0.0.1:${management}${page}`)).status, page).toBe(200);
  }
  expect(await collector.stop()).toBe(0);
});

test('[R-1400] the bundle holds no test, no compiler and no package that only builds', () => {
  const files = fs.readdirSync(installed, { recursive: true, encoding: 'utf8' });
  const ours = files.filter((file) => file.startsWith('packages'));
  expect(ours.filter((file) => /\btest\b|\.tsbuildinfo$/.test(file))).toEqual([]);
  for (const name of ['typescript', 'vitest', 'playwright-core', 'node', '@types']) {
    expect(fs.existsSync(path.join(installed, 'node_modules', name)), name).toBe(false);
  }
  const native = files.filter((file) => file.endsWith('.node'));
  expect(native).toEqual([]);
});

/** The directories of the packages in node_modules of a directory, and in theirs. */
function packagesIn(directory: string): string[] {
  return fs
    .globSync(['node_modules/*', 'node_modules/@*/*'], { cwd: directory })
    .map((name) => path.join(directory, name))
    .filter((found) => !path.basename(found).startsWith('@'))
    .flatMap((found) => [found, ...(fs.lstatSync(found).isSymbolicLink() ? [] : packagesIn(found))]);
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}

const manifestsOfBundle = () =>
  packagesIn(installed).map(
    (found) => JSON.parse(fs.readFileSync(path.join(found, 'package.json'), 'utf8')) as Manifest,
  );

interface Component {
  readonly 'bom-ref': string;
  readonly name: string;
  readonly version: string;
  readonly licenses: { readonly license?: { readonly id: string }; readonly expression?: string }[];
}

interface Sbom {
  readonly bomFormat: string;
  readonly specVersion: string;
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

const sbomIn = (file: string) => JSON.parse(fs.readFileSync(path.join(out, 'sbom', file), 'utf8')) as Sbom;

const componentsOf = (name: string) => {
  const { components } = sbomIn(`${name}-${ABOUT.version}.cdx.json`);
  return components.map(({ name: its, version, licenses: [first] }) =>
    [its, version, first?.license?.id ?? first?.expression].join(' '),
  );
};

test('[R-2052] the SBOM of the bundle has the packages that the bundle contains, with their licences', () => {
  const contained = manifestsOfBundle().map((its) => `${its.name} ${its.version} ${its.license}`);
  expect(componentsOf('collector').sort()).toEqual([...new Set(contained)].sort());
  // npm installs optional dependencies with the package.
  for (const dependency of [/^pg 8\./, /^pg-cloudflare /])
    expect(componentsOf('clinical-events-postgres')).toContainEqual(expect.stringMatching(dependency));
});

test('[R-2052] every SBOM is of CycloneDX 1.5, and each component states what it depends on', () => {
  for (const file of fs.readdirSync(path.join(out, 'sbom'))) {
    const { bomFormat, specVersion, metadata, components, dependencies } = sbomIn(file);
    expect([bomFormat, specVersion]).toEqual(['CycloneDX', '1.5']);
    const references = [metadata.component, ...components].map((each) => each['bom-ref']).sort();
    expect(new Set(references).size, file).toBe(references.length);
    expect(dependencies.map(({ ref }) => ref).sort(), file).toEqual(references);
    expect(references, file).toEqual(expect.arrayContaining(dependencies.flatMap((each) => each.dependsOn)));
  }
});

test('[R-2052] the lock file of the bundle has the packages that the bundle contains, and npm finds no fault', () => {
  const lock = fs.readFileSync(path.join(installed, 'package-lock.json'), 'utf8');
  const { packages } = JSON.parse(lock) as { packages: Record<string, Partial<Manifest>> };
  const links = Object.entries(packages).filter(([place]) => place.includes('node_modules/'));
  const contained = packagesIn(installed).map((found) => path.relative(installed, found));
  expect(links.map(([place]) => place).sort()).toEqual(contained.sort());
  const env = { PATH: process.env['PATH'], HOME: scratch, npm_config_offline: 'true' };
  const { status, stderr } = spawnSync('npm', ['ls', '--all'], { cwd: installed, env, encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
});

test('[R-1240] every link of a document in the bundle leads to a file, and its package.json has no script', () => {
  const documents = fs
    .readdirSync(installed, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md') && !file.includes('node_modules'));
  expect(documents).toContain('docs/guide/operate.md');
  const missing = documents.flatMap((file) =>
    [...fs.readFileSync(path.join(installed, file), 'utf8').matchAll(/\]\(([^)\s#]+)[^)\s]*\)/g)]
      .map(([, target = '']) => target)
      .filter((target) => !/^[a-z]+:/.test(target))
      .filter((target) => !fs.existsSync(path.join(installed, path.dirname(file), target)))
      .map((target) => `${file}: ${target}`),
  );
  expect(missing).toEqual([]);
  const manifest = fs.readFileSync(path.join(installed, 'package.json'), 'utf8');
  expect(Object.keys(JSON.parse(manifest) as object)).not.toContain('scripts');
});

test('[R-1240] the READMEs of packages link to no file, and name files of the bundle', async () => {
  await buildPackages(out, ABOUT);
  const tarballs = fs.readdirSync(out).filter((file) => file.endsWith('.tgz'));
  expect(tarballs.length).toBeGreaterThan(7);
  const readmes = tarballs.map(
    (file) =>
      spawnSync('tar', ['-xzOf', path.join(out, file), 'package/README.md'], { encoding: 'utf8' }).stdout,
  );
  readmes.push(textOf('clients/python/README.md'));
  for (const text of readmes) expect(text).not.toMatch(/\]\((?!https:|#)/);
  const named = readmes.flatMap((text) => [
    ...text.matchAll(/`([^`]+)` in the server bundle|`((?:docs|examples)\/[^`]+)`/g),
  ]);
  const places = named.map(([, place, other]) => place ?? other ?? '');
  expect(places).toEqual(
    expect.arrayContaining(['docs/guide/viewer.md', 'packages/instrument/README.md', 'examples/python-chat']),
  );
  expect(places.filter((place) => !fs.existsSync(path.join(installed, place)))).toEqual([]);
});

test('[R-1240] no document in the bundle uses a script of the clone without naming the clone', () => {
  const paragraphs = fs
    .readdirSync(installed, { recursive: true, encoding: 'utf8' })
    .filter((file) => /^(README\.md|docs\/guide\/.*\.md|examples\/.*\.md)$/.test(file))
    .flatMap((file) => fs.readFileSync(path.join(installed, file), 'utf8').split(/\n\n(?! {4})/));
  expect(paragraphs.length).toBeGreaterThan(300);
  const clone = /npm (?:start|run)|\.\/collector\b|\.\/clients\/|setup\.mjs/;
  expect(paragraphs.filter((text) => clone.test(text) && !/\bclone\b/.test(text))).toEqual([]);
});

test('[R-1400] the bundle holds what the installation in docs/guide/operate.md uses', () => {
  const [, steps = ''] =
    /^### On a host$([^]*?)^### In a container$/m.exec(textOf('docs/guide/operate.md')) ?? [];
  const used = [...steps.matchAll(/^ {4}install .*?(deploy\/\S+)/gm)].map(([, file = '']) => file);
  expect(used).toHaveLength(3);
  for (const file of [...used, 'deploy/prometheus/rules.yaml', 'docs/guide/operate.md', 'README.md']) {
    expect(fs.readFileSync(path.join(installed, file), 'utf8'), file).toBe(textOf(file));
  }
  const [, linked = ''] = /^ {4}ln -sfn \/opt\/collector\/(\S+) .*\/usr\/local\/bin\/?$/m.exec(steps) ?? [];
  const bin = path.join(scratch, 'bin');
  fs.mkdirSync(bin);
  fs.symlinkSync(path.join(installed, linked), path.join(bin, 'collector'));
  const env = { PATH: `${bin}:${path.dirname(process.execPath)}:/usr/bin:/bin` };
  const { stdout } = spawnSync('sh', ['-c', 'collector keys create --help'], { env, encoding: 'utf8' });
  expect(stdout).toContain('  $ collector keys create --permissions all');
});

test('[R-2052] the context of the image is the bundle and a Dockerfile that names version and commit', () => {
  const context = path.join(scratch, 'context');
  fs.mkdirSync(context);
  const tar = ['-C', context, '-xf', path.join(out, `collector-image-${ABOUT.version}.tar`)];
  expect(spawnSync('tar', tar, { encoding: 'utf8' }).stderr).toBe('');
  expect(fs.readdirSync(context)).toEqual(['Dockerfile', 'collector']);
  const { stdout } = spawnSync('diff', ['-r', path.join(context, 'collector'), installed], {
    encoding: 'utf8',
  });
  expect(stdout).toBe('');
  const dockerfile = fs.readFileSync(path.join(context, 'Dockerfile'), 'utf8');
  expect(fs.readFileSync(path.join(installed, 'deploy/docker/Dockerfile'), 'utf8')).toBe(dockerfile);
  expect(dockerfile).toContain(`org.opencontainers.image.version="${ABOUT.version}"`);
  expect(dockerfile).toContain(`org.opencontainers.image.revision="${ABOUT.commit}"`);
  expect(dockerfile.replaceAll(/(version|revision)="[^"]+"/g, '$1=""')).toBe(
    textOf('deploy/docker/Dockerfile'),
  );
});
