/** The built command, on spools on the disk. Needs packages/client/dist. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Authority } from '../../../collector/test/running/certificates.js';
import { STRAY } from '../../../collector/src/stray-signals.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import type { SpoolOptions } from '../../src/spool/spool.js';
import { answer, fakeCollector } from '../running/fake-collector.js';
import { temporaryDirectory } from '../running/hurried-client.js';
import { canMount, inSmallFileSystem } from '../spool/small-file-system.js';
import { startProcess } from '../spool/spool-processes.js';

const MAIN = path.resolve(import.meta.dirname, '../../dist/cli/main.js');
const SPOOL_PROCESS = path.resolve(import.meta.dirname, '../spool/spool-process.mjs');
const KEY = Buffer.alloc(32, 4);
const SECRET = 'Mrs Example has a rash';
/** Clears a screen, and reverses the text after it. */
const HOSTILE = '\u001b[2J\u009b2J\u202e';
const REWOUND = '\r\u001b[K';
const REFUSAL = { status: 400, code: `validation${HOSTILE}`, message: SECRET, at: '2026-01-01T00:00:00Z' };

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** @param act what happens to the process while it runs. */
async function command(
  args: readonly string[],
  {
    env = {},
    act,
    terminal = false,
  }: {
    env?: Record<string, string>;
    act?: (child: ReturnType<typeof spawn>) => void;
    terminal?: boolean;
  } = {},
): Promise<Ended> {
  const node = terminal ? ['--import', 'data:text/javascript,process.stderr.isTTY=true'] : [];
  const child = spawn(process.execPath, [...node, MAIN, ...args], {
    env: { PATH: process.env['PATH'], ...env },
  });
  const ended = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (ended.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (ended.stderr += text));
  act?.(child);
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  // All output, except a line that is overwritten.
  const printed = ended.stdout + (terminal ? ended.stderr.replaceAll(REWOUND, '') : ended.stderr);
  // eslint-disable-next-line no-control-regex
  expect(printed).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  return { code, ...ended };
}

const event = (id: number) => Buffer.from(JSON.stringify({ event_id: `${id}`, words: SECRET + HOSTILE }));

/** A spool that no process holds, with three events that wait and two in quarantine. */
async function leftSpool(options: Partial<SpoolOptions> = {}): Promise<string> {
  const directory = temporaryDirectory();
  const spool = await openSpool({ directory, durability: 'os', ...options });
  for (let id = 0; id < 5; id++) await spool.append('outcome', event(id));
  for (const taken of await spool.take(2, 1e6)) await spool.quarantine(taken, REFUSAL);
  await spool.close();
  return directory;
}

function keyFile(key: Uint8Array | string): string {
  const file = path.join(path.dirname(temporaryDirectory()), 'spool.key');
  fs.writeFileSync(file, key);
  return file;
}

async function shown(directory: string, ...more: readonly string[]) {
  const { code, stdout } = await command(['show', directory, '--json', ...more]);
  expect(code).toBe(0);
  return JSON.parse(stdout) as {
    waiting: number | null;
    oldest: string;
    parts_not_counted: number;
    parts: { held: boolean; holder: object | null; waiting: number | null }[];
    quarantine: { events: number; sealed: number; reasons: object[] };
    damaged: object[];
  };
}

const filesIn = (directory: string) =>
  fs
    .readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => {
      const file = path.join(entry.parentPath, entry.name);
      return [file, fs.readFileSync(file, 'hex')];
    });

test('[R-866] show prints what waits, its holder and what was refused, without contents', async () => {
  const directory = await leftSpool();
  const before = filesIn(directory);
  const { code, stdout, stderr } = await command(['show', directory]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^3 events wait \(.* B\), the oldest since 20/);
  expect(stdout).toContain('none');
  expect(stdout).toContain('2 events in quarantine.');
  expect(stdout).toContain('an unknown code');
  expect(stdout).not.toContain('validation');
  expect(stdout).not.toContain(SECRET);
  const json = await shown(directory);
  expect(json).toMatchObject({
    ...{ waiting: 3, parts: [{ held: false, holder: null, waiting: 3 }], damaged: [] },
    quarantine: { events: 2, sealed: 0, reasons: [{ status: '400', events: 2 }] },
  });
  expect(filesIn(directory)).toEqual(before);
});

test('[R-866] show names the process that holds a part', async () => {
  const directory = temporaryDirectory();
  const spool = await openSpool({ directory, durability: 'os' });
  onTestFinished(() => spool.close());
  await spool.append('outcome', event(1));
  expect((await command(['show', directory])).stdout).toContain(`process ${process.pid}  1 `);
  const { parts } = await shown(directory);
  expect(parts).toMatchObject([{ held: true, holder: { pid: process.pid, this_host: true }, waiting: 1 }]);
  expect((await command(['show', directory, '--check'])).code).toBe(0);
});

test('[R-866] show --events prints waiting and refused events, contents only with --contents', async () => {
  const directory = await leftSpool();
  const listed = async (...more: readonly string[]) => {
    const { code, stdout, stderr } = await command(['show', directory, '--events', ...more]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout.trimEnd().split('\n');
  };
  const lines = await listed();
  expect(
    lines.map((line) => /^20\S+Z {2}outcome {12}\d+ B( {2}400 an unknown code)?$/.exec(line)?.[1]),
  ).toEqual([...Array<undefined>(3).fill(undefined), ...Array<string>(2).fill('  400 an unknown code')]);
  expect(lines.join()).not.toContain('undefined');
  expect((await listed('--json')).join()).not.toContain('Mrs');
  expect((await listed('--contents')).filter((line) => line.includes(SECRET))).toHaveLength(7);
  const told = (await listed('--contents', '--json')).map((line) => JSON.parse(line) as object);
  const where = [...Array<string>(3).fill('segment'), ...Array<string>(2).fill('file')];
  expect(told).toMatchObject(
    [2, 3, 4, 0, 1].map((id, at) => ({
      ...{ kind: 'outcome', bytes: event(id).length, offset: expect.any(Number) as number },
      ...{ [where[at] ?? '']: expect.any(String) as string, event: event(id).toString() },
      ...(at > 2 && { status: '400', code: 'an unknown code', refusal: REFUSAL }),
    })),
  );
});

test('[R-866] a reader that closes the pipe ends the command without an error', async () => {
  const directory = temporaryDirectory();
  const spool = await openSpool({ directory, durability: 'os' });
  for (let id = 0; id < 200; id++) await spool.append('outcome', Buffer.alloc(4000, 'x'));
  await spool.close();
  const { code, stderr } = await command(['show', directory, '--events', '--contents'], {
    act: (child) => child.stdout?.destroy(),
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});

test('[R-866] drain sends waiting events, also those that were requeued', async () => {
  const collector = await fakeCollector();
  const directory = await leftSpool();
  const env = { COLLECTOR_URL: collector.url, COLLECTOR_KEY: 'cek_secret' };
  const drained = await command(['drain', directory], { env });
  expect(drained).toMatchObject({ code: 0, stderr: '' });
  expect(drained.stdout).toBe(
    '3 events sent, 0 still waiting, 0 refused.\n2 events in quarantine: see collector-spool show --events\n',
  );
  expect(collector.accepted.map(({ apiKey }) => apiKey)).toEqual(Array(3).fill('cek_secret'));
  const requeued = await command(['requeue', directory]);
  expect(requeued.code).toBe(0);
  expect(requeued.stdout).toMatch(/^2 events /);
  expect(await shown(directory)).toMatchObject({ waiting: 2, quarantine: { events: 0 } });
  const apiKey = keyFile('cek_other\n');
  const json = await command([
    'drain',
    directory,
    '--url',
    collector.url,
    '--api-key-file',
    apiKey,
    '--json',
  ]);
  expect(JSON.parse(json.stdout)).toEqual({
    ...{
      found: 2,
      sent: 2,
      erased: 0,
      waiting: 0,
      refused: 0,
      in_quarantine: 0,
      held_by_others: 0,
      not_taken: [],
      cut: 0,
    },
    damaged: { bytes: 0, missing_events: 0, files: [] },
    cause: null,
  });
  const texts = collector.accepted.map(({ text }) => text);
  expect(texts.sort()).toEqual([0, 1, 2, 3, 4].map((id) => event(id).toString()));
  expect((await command(['show', directory])).stdout).toMatch(/^0 events wait/);
});

test('[R-866] drain does not take events of a running process, and says so', async () => {
  const collector = await fakeCollector();
  const directory = temporaryDirectory();
  const spool = await openSpool({ directory, durability: 'os' });
  onTestFinished(() => spool.close());
  await spool.append('outcome', event(1));
  const env = { COLLECTOR_URL: collector.url, COLLECTOR_KEY: 'key' };
  const { code, stdout } = await command(['drain', directory], { env });
  expect(code).toBe(0);
  expect(stdout).toContain('1 event held by running processes.');
  expect(collector.accepted).toEqual([]);
});

test('[R-866] drain puts refused events into quarantine, and ends after its timeout', async () => {
  const collector = await fakeCollector(({ event: { event_id: id } }, response) =>
    id === '2' ? answer(response, 400, { message: 'm', code: 'validation_failed' }) : answer(response, 503),
  );
  const directory = await leftSpool();
  const env = { COLLECTOR_URL: collector.url, COLLECTOR_KEY: 'key' };
  let { waiting, refused } = { waiting: 3, refused: 0 };
  let told = '';
  for (let seconds = 1; refused === 0 || !told.includes('503'); seconds *= 2) {
    const { code, stdout, stderr } = await command(
      ['drain', directory, '--timeout', `${seconds}`, '--json'],
      {
        env,
      },
    );
    expect(code).toBe(7);
    told += stderr;
    const drained = JSON.parse(stdout) as { waiting: number; refused: number };
    ({ waiting } = drained);
    refused += drained.refused;
  }
  expect(told).toContain('the collector answered 503');
  expect({ waiting, refused }).toEqual({ waiting: 2, refused: 1 });
  expect(await shown(directory)).toMatchObject({ waiting: 2, quarantine: { events: 3 } });
});

test.each([
  [401, { code: 'key_unknown', message: SECRET }, 'the collector rejected the API key (401 key_unknown)'],
  [404, {}, 'the server at this address is not a collector (404)'],
  [200, '<html>', 'the server at this address is not a collector (200)'],
])('[R-866] drain stops when waiting does not help: %i', async (status, body, cause) => {
  const collector = await fakeCollector((_event, response) => answer(response, status, body));
  const directory = await leftSpool();
  const env = { COLLECTOR_URL: collector.url, COLLECTOR_KEY: 'cek_secret' };
  const { code, stdout, stderr } = await command(['drain', directory], { env });
  expect({ code, stderr }).toEqual({
    code: 7,
    stderr: `collector-spool: nothing more is sent: ${cause}; events are kept\n`,
  });
  expect(stdout).toMatch(/^0 events sent, 3 still waiting, 0 refused\.\n2 events in quarantine/);
  const json = await command(['drain', directory, '--json'], { env });
  expect(JSON.parse(json.stdout)).toMatchObject({
    ...{ found: 3, sent: 0, waiting: 3, refused: 0, in_quarantine: 2 },
    cause: `${cause}; events are kept`,
  });
  expect(await shown(directory)).toMatchObject({ waiting: 3 });
});

test('[R-866] drain sends what the key may send, and stops at the rest', async () => {
  const collector = await fakeCollector(
    ({ path: to }, response) =>
      to.endsWith('outcome') && answer(response, 403, { code: 'permission_denied' }),
  );
  const directory = await leftSpool();
  const spool = await openSpool({ directory, durability: 'os' });
  await spool.append('user-feedback', event(9));
  await spool.close();
  const env = { COLLECTOR_URL: collector.url, COLLECTOR_KEY: 'key' };
  const { code, stdout, stderr } = await command(['drain', directory, '--timeout', '600'], { env });
  expect(code).toBe(7);
  expect(collector.accepted).toHaveLength(1);
  expect(stdout).toContain('1 event sent, 3 still waiting');
  expect(stderr).toContain('nothing more is sent: the key may not send outcome (403 permission_denied)');
});

test('[R-866] drain stops at an untrusted certificate, which NODE_EXTRA_CA_CERTS makes trusted', async () => {
  const authority = new Authority();
  const { certificate, key } = authority.issue({ names: ['dns:localhost'] });
  let requests = 0;
  const server = https.createServer({ cert: certificate, key }, (_request, response) => {
    requests++;
    answer(response, 201, { status: 'accepted' });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => void server.close());
  const directory = await leftSpool();
  const url = `https://localhost:${(server.address() as AddressInfo).port}`;
  const env = { COLLECTOR_URL: url, COLLECTOR_KEY: 'key' };
  const { code, stderr } = await command(['drain', directory], { env });
  expect(code).toBe(7);
  expect(stderr).toMatch(
    /^collector-spool: nothing more is sent: the collector's certificate is not trusted; .+\n$/,
  );
  expect(requests).toBe(0);
  const trusting = { ...env, NODE_EXTRA_CA_CERTS: keyFile(authority.certificate) };
  expect(await command(['drain', directory], { env: trusting })).toMatchObject({ code: 0, stderr: '' });
  expect(requests).toBe(3);
  const plain = await fakeCollector();
  const other = await leftSpool();
  const noTls = { ...env, COLLECTOR_URL: plain.url.replace('http', 'https') };
  const failed = await command(['drain', other], { env: noTls });
  expect(failed.code).toBe(7);
  expect(failed.stderr).toContain('nothing more is sent: the server at this address does not speak TLS');
});

test('[R-866] drain prints a cause once, and gives up after a time without progress', async () => {
  let [refusals, takesOne] = [0, true];
  const collector = await fakeCollector((_event, response) => {
    if (takesOne) return (takesOne = false);
    refusals++;
    return answer(response, 503);
  });
  const env = { COLLECTOR_URL: collector.url, COLLECTOR_KEY: 'key' };
  /** Refused at least twice: a busy machine gets more time. */
  const drained = async (prepare: () => Promise<string>, options: { terminal?: boolean } = {}) => {
    for (let seconds = 6; ; seconds *= 2) {
      const directory = await prepare();
      refusals = 0;
      const ended = await command(['drain', directory, '--timeout', `${seconds}`], { env, ...options });
      expect(ended.code).toBe(7);
      if (refusals > 1) return { ...ended, directory, seconds };
    }
  };
  const piped = await drained(() => {
    takesOne = true;
    return leftSpool();
  });
  expect(piped.stderr.split('\n')).toEqual([
    'collector-spool: the collector answered 503',
    `collector-spool: given up after ${piped.seconds} s: the collector answered 503`,
    '',
  ]);
  expect(piped.stdout).toContain('1 event sent, 2 still waiting, 0 refused.');
  const { directory } = piped;
  const seen = await drained(() => Promise.resolve(directory), { terminal: true });
  // One line, which is overwritten, and cleared at the end.
  expect(seen.stderr.split('\n')).toHaveLength(2);
  expect(seen.stderr).toContain(`${REWOUND}0 of 2 events sent; the collector answered 503${REWOUND}`);
  expect(seen.stderr).toContain(
    `${REWOUND}collector-spool: given up after ${seen.seconds} s: the collector answered 503\n`,
  );
  // Scripts get no such line.
  const json = await command(['drain', directory, '--timeout', '1', '--json'], { env, terminal: true });
  expect(json.stderr).not.toContain(REWOUND);
});

test.runIf(canMount)(
  '[R-852] drain takes nothing on a full disk, says so, and sends all once there is room',
  async () => {
    const collector = await fakeCollector();
    const wish = { directory: 'spool', durability: 'fsync', prefix: 'f', do: 'fill and be killed' };
    // One after the other, in one small file system.
    const script =
      'head -c 65536 /dev/zero >room; "$1" "$2" "$3" & wait $!; export COLLECTOR_KEY=key; "$1" "$4" drain spool --url "$5" --timeout 5 2>&1; ' +
      'echo "code $?"; rm room; exec "$1" "$4" drain spool --url "$5" --json';
    const all = startProcess(wish, [
      ...[...inSmallFileSystem(), 'sh', '-c', script, 'sh', process.execPath, SPOOL_PROCESS],
      ...[JSON.stringify(wish), MAIN, collector.url],
    ]);
    expect(await all.ended, all.lines.join('\n')).toBe(0);
    const captured = all.lines.filter((line) => line.startsWith('+')).map((line) => line.slice(1));
    expect(captured.length).toBeGreaterThan(300);
    expect(all.lines).toContain('code 7');
    expect(all.lines.join('\n')).toContain('the disk is full');
    expect(new Set(collector.accepted.map(({ event }) => event['name']))).toEqual(new Set(captured));
    const said = all.lines.slice(all.lines.indexOf('{')).join('\n');
    expect(JSON.parse(said)).toMatchObject({ sent: captured.length, waiting: 0 });
  },
);

test('[R-866] a signal ends drain in order', async () => {
  let signal: () => void = () => undefined;
  const collector = await fakeCollector((_event, response) => {
    signal();
    return answer(response, 503);
  });
  const directory = await leftSpool();
  const env = { COLLECTOR_URL: collector.url, COLLECTOR_KEY: 'key' };
  const { code } = await command(['drain', directory], {
    env,
    act: (child) => (signal = () => void child.kill('SIGTERM')),
  });
  expect(code).toBe(130);
  expect(await shown(directory)).toMatchObject({ waiting: 3, parts: [{ held: false }] });
});

test('[R-609] stray signals do not end drain, and SIGUSR1 opens no debugger', async () => {
  let child: ReturnType<typeof spawn> | undefined;
  const collector = await fakeCollector((_event, response) => {
    for (const signal of STRAY) child?.kill(signal);
    return answer(response, 201, { status: 'accepted' });
  });
  const env = { COLLECTOR_URL: collector.url, COLLECTOR_KEY: 'key' };
  const { code, stderr } = await command(['drain', await leftSpool()], { env, act: (it) => (child = it) });
  expect(code, stderr).toBe(0);
  expect(stderr).toBe('');
});

test('[R-866] a sealed spool needs its key, as bytes, hexadecimal or Base64', async () => {
  const directory = await leftSpool({ key: KEY });
  const blind = await shown(directory);
  expect(blind).toMatchObject({
    ...{ waiting: 3, parts_not_counted: 0, parts: [{ waiting: 3 }] },
    quarantine: { events: 2, sealed: 2, reasons: [] },
  });
  for (const args of [['show', '--events'], ['requeue'], ['show', '--check']]) {
    const { code, stdout, stderr } = await command([...args, directory]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('see --key-file');
  }
  const other = keyFile(Buffer.alloc(32, 9));
  expect((await command(['show', directory, '--events', '--key-file', other])).code).toBe(2);
  for (const key of [KEY, KEY.toString('hex'), `${KEY.toString('base64')}\n`]) {
    const sealed = await shown(directory, '--key-file', keyFile(key));
    expect(sealed).toMatchObject({ waiting: 3, quarantine: { sealed: 0, reasons: [{ events: 2 }] } });
  }
  const opened = ['--events', '--contents', '--key-file', keyFile(KEY)];
  const listed = await command(['show', directory, ...opened]);
  expect(listed.stdout).toContain(SECRET);
});

test('[R-866] show --check finds a byte that has changed', async () => {
  const directory = await leftSpool();
  const intact = await command(['show', directory, '--check']);
  expect(intact).toMatchObject({ code: 0, stderr: '' });
  expect(intact.stdout).toContain('No damage');
  const [[file = ''] = []] = filesIn(directory).filter(([name = '']) => name.endsWith('.segment'));
  const bytes = fs.readFileSync(file);
  // Of the last event.
  const at = bytes.length - 50;
  bytes[at] = (bytes[at] as number) ^ 1;
  fs.writeFileSync(file, bytes);
  const { code, stdout } = await command(['show', directory, '--check', '--json']);
  expect(code).toBe(3);
  const { findings, ...figures } = JSON.parse(stdout) as { intact: boolean; findings: { path: string }[] };
  expect(figures).toMatchObject({ intact: false, events: 4, quarantined: 2 });
  expect(findings).toMatchObject([{ path: file }, { path: file, message: '1 of its events are missing' }]);
});

test('[R-866] wrong arguments are reported in one line, and no spool is created', async () => {
  const directory = await leftSpool();
  const missing = temporaryDirectory();
  const wrong: [readonly string[], number][] = [
    [[], 2],
    [['show'], 2],
    [['shwo', directory], 2],
    [['show', directory, directory], 2],
    [['list', directory], 2],
    [['show', directory, '--contents'], 2],
    [['show', directory, '--events', '--check'], 2],
    [['drain', directory, '--check'], 2],
    [['show', directory, `--${HOSTILE}`], 2],
    [['show', directory, '--key-file', missing], 2],
    [['show', directory, '--key-file', keyFile('too short')], 2],
    [['drain', directory, '--url', 'http://127.0.0.1:9'], 2],
    [['drain', directory, '--url', 'file:///', '--api-key-file', keyFile('k')], 2],
    [['drain', directory, '--timeout', 'soon'], 2],
    [['drain', directory, '--timeout', '-1'], 2],
    [['show', missing], 6],
    [['requeue', missing], 6],
    [['show', `${missing}${HOSTILE}`], 6],
    [['show', '--events', path.dirname(MAIN)], 6],
    [['show', '--check', MAIN], 6],
  ];
  for (const [args, expected] of wrong) {
    const { code, stdout, stderr } = await command(args);
    expect({ code, stdout }, args.join(' ')).toEqual({ code: expected, stdout: '' });
    expect(stderr).toMatch(/^collector-spool: .+\n$/);
    if (!args.join('').includes(HOSTILE)) expect(stderr).not.toContain('\\u');
  }
  expect(fs.existsSync(missing)).toBe(false);
});

test('[R-866] the help names every command and option', async () => {
  const { code, stdout } = await command(['--help']);
  expect(code).toBe(0);
  for (const word of ['show', 'requeue', 'drain', '--events', '--check', '--key-file', '--timeout'])
    expect(stdout).toContain(word);
  expect((await command(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});
