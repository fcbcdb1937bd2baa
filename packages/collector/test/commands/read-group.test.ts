import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ENVIRONMENT, KEY, temporaryDirectory } from '../running/collector-process.js';
import { post } from '../running/load.js';
import { sampleEvent } from '../running/sample-events.js';

const DIST = path.resolve(import.meta.dirname, '../../dist');
/** Users and groups by number, which need no account. */
const COLLECTOR = 4711;
const PRIMARY = 4712;
const READERS = 4713;
const READER = 4714;
const STRANGER = 4715;
const isRoot = process.getuid?.() === 0;

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A process of another user. */
interface User {
  readonly uid: number;
  readonly gid: number;
  readonly groups?: readonly number[];
}
const collectorUser: User = { uid: COLLECTOR, gid: PRIMARY, groups: [READERS] };
const readingUser: User = { uid: READER, gid: READER, groups: [READERS] };

function spawnAs({ uid, gid, groups = [] }: User, cwd: string, args: readonly string[]): ChildProcess {
  const more = groups.length > 0 ? [`--groups=${groups.join(',')}`] : ['--clear-groups'];
  const ids = [`--reuid=${uid}`, `--regid=${gid}`, ...more, '--inh-caps=-all', process.execPath, ...args];
  const small = { COLLECTOR_MAX_BODY_BYTES: '16KiB', COLLECTOR_LIMITS: '{"segment-bytes":"64KiB"}' };
  const env = { ...ENVIRONMENT, ...small, TMPDIR: cwd };
  return spawn('setpriv', ids, { cwd, env });
}

function ended(child: ChildProcess): Promise<Ended> {
  const output = { stdout: '', stderr: '' };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, ...output })));
}

/** The directories of a log of the user {@link COLLECTOR}. Keys, kek and data are apart. */
class Site {
  readonly root = temporaryDirectory();
  readonly dataDir = path.join(this.root, 'data');
  readonly keys = path.join(this.root, 'keys');
  readonly mirror = path.join(this.root, 'keys-mirror');
  key = '';

  constructor() {
    onTestFinished(() => fs.rmSync(this.root, { recursive: true, force: true }));
    fs.chmodSync(this.root, 0o755);
    const kek = `${randomBytes(32).toString('base64')}\n`;
    for (const each of [this.dataDir, this.keys, this.mirror, this.homeOf(collectorUser)])
      this.#make(each, COLLECTOR, PRIMARY);
    this.#make(this.homeOf(readingUser), READER, READER);
    for (const user of [collectorUser, readingUser]) {
      const file = path.join(this.homeOf(user), 'kek');
      fs.writeFileSync(file, kek, { mode: 0o600 });
      fs.chownSync(file, user.uid, user.gid);
    }
  }

  #make(directory: string, uid: number, gid: number): void {
    fs.mkdirSync(directory, { mode: 0o700 });
    fs.chownSync(directory, uid, gid);
  }

  /** The working directory of a user, with a copy of the kek: each finds its own under the noted name. */
  homeOf({ uid }: User): string {
    return path.join(this.root, `home-${uid}`);
  }

  get encrypted(): string[] {
    return ['--encryption-keys', `${this.keys},${this.mirror}`, '--kek', 'file:/proc/self/cwd/kek'];
  }

  run(args: readonly string[], user = collectorUser): Promise<Ended> {
    const all = [path.join(DIST, 'main.js'), ...args, '--data-dir', this.dataDir];
    return ended(spawnAs(user, this.homeOf(user), all));
  }

  async ok(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(args);
    expect(code, `${args.join(' ')}: ${stderr}`).toBe(0);
    return stdout;
  }

  async start(
    ...args: readonly string[]
  ): Promise<{ port: number; stop: () => Promise<void>; log: () => string }> {
    const all = [path.join(DIST, 'main.js'), 'serve', '--port', '0', '--data-dir', this.dataDir, ...args];
    const child = spawnAs(collectorUser, this.homeOf(collectorUser), all);
    onTestFinished(() => void child.kill('SIGKILL'));
    const end = ended(child);
    let log = '';
    child.stdout?.on('data', (text: string) => (this.key ||= KEY.exec(text)?.[0] ?? ''));
    const port = await new Promise<number>((resolve, reject) => {
      child.stderr?.on('data', (text: string) => {
        log += text;
        const found = /"port":(\d+),.*"msg":"listening"/.exec(log);
        if (found !== null) resolve(Number(found[1]));
      });
      end.then(({ stderr }) => reject(new Error(stderr)), reject);
    });
    await expect.poll(() => this.key).not.toBe('');
    const stop = async () => {
      child.kill('SIGTERM');
      expect((await end).code).toBe(0);
    };
    return { port, stop, log: () => log };
  }

  /** Sends events that fill a segment and more. @returns the id of the last one. */
  async fill(port: number): Promise<string> {
    let id = '';
    for (let i = 0; i < 40; i++) {
      const event = sampleEvent('inference-start', { inputs: { prompt: randomBytes(1500).toString('hex') } });
      id = event.event_id;
      const { status } = await post(port, this.key, JSON.stringify(event), { kind: 'inference-start' });
      expect(status).toBe(201);
    }
    return id;
  }

  /** What a user can open for reading and list, as patterns. */
  async readableBy(user: User): Promise<{ files: string[]; directories: string[] }> {
    const paths = [this.dataDir, this.keys, this.mirror].flatMap((directory) => [
      directory,
      ...fs
        .readdirSync(directory, { recursive: true, encoding: 'utf8' })
        .map((name) => path.join(directory, name)),
    ]);
    const script = `
      import fs from 'node:fs';
      const found = { files: [], directories: [] };
      const isAllowed = (act) => { try { act(); return true; } catch { return false; } };
      for (const each of ${JSON.stringify(paths)}) {
        if (isAllowed(() => fs.readdirSync(each))) found.directories.push(each);
        else if (isAllowed(() => fs.closeSync(fs.openSync(each, 'r')))) found.files.push(each);
      }
      console.log(JSON.stringify(found));`;
    const home = user.uid === READER ? this.homeOf(user) : this.root;
    const { stdout, stderr } = await ended(spawnAs(user, home, ['--input-type=module', '-e', script]));
    expect(stderr).toBe('');
    const found = JSON.parse(stdout) as { files: string[]; directories: string[] };
    return { files: this.#patterns(found.files), directories: this.#patterns(found.directories) };
  }

  /** What others than the owner have rights on, in a directory or on itself. */
  opened(directory: string): string[] {
    return ['', ...fs.readdirSync(directory, { recursive: true, encoding: 'utf8' })].filter(
      (name) => (fs.statSync(path.join(directory, name)).mode & 0o077) !== 0,
    );
  }

  #patterns(paths: readonly string[]): string[] {
    const patterns = paths.map((each) =>
      path
        .relative(this.root, each)
        // Files that a running collector prepares under another name.
        .replace(/\.draft$/, '')
        .replace('ledger/next.', 'ledger/N.')
        .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/, 'UUID')
        .replace(/\d{16}-[0-9a-f]{8}|[0-9a-f]{32}/, 'ID')
        .replace(/(?<=index\/).*(?=\.run$)/, 'ID')
        .replace(/\d+/g, 'N'),
    );
    return [...new Set(patterns)].sort();
  }
}

const KEY_FILES = ['actions/ID.json', 'buckets/ID.keys', 'epochs/N.json', 'holds/UUID.keys', 'names.keys'];
const OPEN_FILES = [
  'data/checkpoints/N.checkpoint',
  'data/checkpoints/latest',
  'data/checkpoints/origin.vkey',
  'data/checkpoints/rotations/N.note',
  'data/encryption-keys.json',
  'data/index/ID.run',
  'data/ledger/N.segment',
  'data/lifecycle/erasures/UUID.json',
  'data/lifecycle/holds/UUID.json',
  'data/lock',
  'data/tree/level-N',
  ...['keys', 'keys-mirror'].flatMap((directory) => KEY_FILES.map((name) => `${directory}/${name}`)),
].sort();
const OPEN_DIRECTORIES = [
  'data/checkpoints',
  'data/checkpoints/rotations',
  'data/index',
  'data/ledger',
  'data/lifecycle/erasures',
  'data/lifecycle/holds',
  'data/tree',
  ...['keys', 'keys-mirror'].flatMap((directory) =>
    ['actions', 'buckets', 'epochs', 'holds'].map((name) => `${directory}/${name}`),
  ),
].sort();
const NOTHING = { files: [], directories: [] };

/** Reads every entry with its payload, proves an event, and prints what it found. */
const READ = (dataDir: string, eventId: string) => {
  const url = (name: string) => JSON.stringify(pathToFileURL(path.join(DIST, name)).href);
  return `
    import net from 'node:net';
    import { once } from 'node:events';
    import { openStore } from ${url('store/open-to-read.js')};
    import { isLocked } from ${url('store/directory-lock.js')};
    import { proveEvent } from ${url('commands/event-proof.js')};
    import { readMirrorNote } from ${url('tree/state-files.js')};
    const dataDir = ${JSON.stringify(dataDir)};
    const { events, tree } = openStore(dataDir);
    const found = { read: 0, erased: 0, own: 0, other: 0 };
    for await (const block of events.entries())
      for (const entry of block) {
        if (typeof entry.kind !== 'string') found.own++;
        else if (entry.payloadState === 'erased') found.erased++;
        else if (entry.payloadState !== 'plain') found.other++;
        else if (JSON.parse(entry.body.toString()).inputs.prompt.length === 3000) found.read++;
      }
    const mayBeSigned = () => isLocked(dataDir);
    const reading = { events, files: events, tree, dataDir, place: dataDir, mayBeSigned };
    const { proof } = await proveEvent(reading, ${JSON.stringify(eventId)}, 'default');
    const socket = net.connect(dataDir + '/access.sock');
    await once(socket, 'connect');
    socket.destroy();
    console.log(JSON.stringify({
      ...found,
      proof: proof.split('\\n')[0],
      isLocked: isLocked(dataDir),
      mirror: readMirrorNote(dataDir) ?? null,
    }));
    await tree.close();
    await events.close();`;
};

describe('[R-2045] files that are open to a group', () => {
  test('are only those that a reader needs, after all commands that write files', async () => {
    if (!isRoot) return void process.stdout.write('not run: processes of other users need root\n');
    const site = new Site();
    const { dataDir } = site;
    const private_ = await site.start(...site.encrypted);
    const first = await site.fill(private_.port);
    await private_.stop();
    await site.ok('signing-key', 'rotate');
    expect(await site.readableBy(readingUser)).toEqual(NOTHING);

    const open = ['--read-group', String(READERS)];
    let collector = await site.start(...open);
    const last = await site.fill(collector.port);
    await site.ok('hold', 'add', 'CASE-1', '--run', last);
    await site.ok('encryption-keys', 'rotate');
    const plan = path.join(site.homeOf(collectorUser), 'plan.json');
    await site.ok('erase', 'plan', '--run', first, '--by', 'Pat Planner', '--out', plan);
    const asked = ['--reason', 'erasure-request', '--case', 'DSR-2026/114', '--by', 'Al Applier', '--wait'];
    await site.ok('erase', 'apply', plan, ...asked);
    const lists = { files: OPEN_FILES, directories: OPEN_DIRECTORIES };
    expect(collector.log()).not.toContain('can be entered by other users');
    // Runs of the index are written when the collector stops.
    await collector.stop();
    expect(await site.readableBy(readingUser)).toEqual(lists);

    collector = await site.start(...open);
    const after = await site.fill(collector.port);
    expect(await site.readableBy(readingUser)).toEqual(lists);
    expect(await site.readableBy({ uid: STRANGER, gid: STRANGER })).toEqual(NOTHING);
    await expect.poll(() => fs.existsSync(path.join(dataDir, 'access.sock'))).toBe(true);
    for (const eventId of [last, after]) {
      const script = ['--input-type=module', '-e', READ(dataDir, eventId)];
      const read = await ended(spawnAs(readingUser, site.homeOf(readingUser), script));
      expect(read.stderr).toBe('');
      expect(JSON.parse(read.stdout)).toEqual({
        ...{ read: 119, erased: 1, own: expect.any(Number) as number, other: 0 },
        ...{ proof: expect.stringContaining('tlog-proof') as string, isLocked: true, mirror: null },
      });
    }
    const backup = path.join(site.homeOf(collectorUser), 'backup');
    await site.ok('backup', backup, '--keys-elsewhere');
    expect(site.opened(backup)).toEqual([]);
    await collector.stop();
    expect((await site.run(['doctor'])).stdout).toContain(`open to the group ${READERS} (--read-group)`);

    await (await site.start()).stop();
    expect(await site.readableBy(readingUser)).toEqual(NOTHING);
    for (const directory of [dataDir, site.keys, site.mirror]) expect(site.opened(directory)).toEqual([]);
  });

  test('are refused by a start and by --check if they are not possible, each in one sentence', async () => {
    if (!isRoot) return void process.stdout.write('not run: processes of other users need root\n');
    const site = new Site();
    const { dataDir, keys } = site;
    const faults = async (args: readonly string[], user = collectorUser) => {
      const { code, stderr } = await site.run(['serve', '--port', '0', ...args], user);
      const checked = await site.run(['serve', '--check', '--port', '0', ...args], user);
      expect([code, checked.code]).toEqual([2, 2]);
      // A check may report more.
      expect(checked.stderr).toContain(stderr);
      // Commands are named as they are called.
      const told = stderr.replace(/\S+\/collector (?=encryption-keys|mirror)/, 'collector ');
      return told.replace('collector: --read-group: ', '').trim();
    };
    const group = ['--read-group', String(READERS)];
    const unit = '; under systemd use deploy/systemd/collector-read-group.conf';
    expect(await faults(['--read-group', 'no-such-group', ...site.encrypted])).toBe(
      'there is no group no-such-group on this host',
    );
    expect(await faults([...group, ...site.encrypted], { uid: COLLECTOR, gid: PRIMARY })).toBe(
      `this process is not in the group ${READERS}, and so cannot give it files${unit}`,
    );
    const beside = (file: string) =>
      `the key that wraps the payload keys is beside them (${file}): keep it elsewhere, by --kek file:PATH ` +
      'or command:PROGRAM at the first start, later by collector encryption-keys rewrap';
    // A first start would create it there.
    expect(await faults(group)).toBe(beside(path.join(dataDir, 'encryption-keys/kek')));
    const named = path.join(keys, 'named');
    fs.copyFileSync(path.join(site.homeOf(collectorUser), 'kek'), named);
    fs.chownSync(named, COLLECTOR, PRIMARY);
    const within = ['--encryption-keys', keys, '--kek', `file:${named}`];
    expect(await faults([...group, ...within])).toBe(beside(named));
    expect(await faults([...group, '--encryption-keys', 'postgres://keys/keys', '--kek', 'file:/kek'])).toBe(
      'the payload keys are in PostgreSQL, which cannot be opened to a group of this host',
    );
    expect(await faults([...group, '--store', 'postgres://log/log'])).toContain(
      'this log is in a database: give the option to collector mirror',
    );
    expect(fs.readdirSync(dataDir)).toEqual([]);

    const linked = path.join(dataDir, 'ledger');
    fs.symlinkSync(site.root, linked);
    const { code, stderr } = await site.run(['serve', '--port', '0', ...group, '--encryption', 'off']);
    expect([code, stderr]).toEqual([
      2,
      `collector: --read-group: ${linked} is a symbolic link: mount its disk there\n`,
    ]);
  });
});
