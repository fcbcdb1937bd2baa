import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { runs } from '../../../../test/property-runs.js';
import { freePort } from '../../../../test/free-port.js';
import { type AccessLine, lineIn } from '../../src/commands/access-lines.js';
import { AppendRate } from '../../src/commands/append-rate.js';
import { type AccessSocket, offerAccessSocket, socketAddress } from '../../src/commands/access-socket.js';
import { applyReadGroup } from '../../src/commands/read-group.js';
import { writeMirrorNote } from '../../src/tree/state-files.js';
import { run, start, temporaryDirectory } from '../running/collector-process.js';

const RUN = '0190f5fe-7c00-7a00-8000-000000000001';
const LOOK = {
  ...{ state: 'begun', command: 'viewer run', uid: 990, user: 'viewer' },
  actor: { kind: 'oidc', name: 'reviewer-4@hospital.example', role: 'reviewer' },
  filter: { run: RUN, organisation: 'demo' },
};
const BREAK_GLASS = {
  ...{ ...LOOK, break_glass: true, reason: 'patient in resuscitation' },
  actor: { ...LOOK.actor, role: 'break-glass' },
};
const FULL_DISK = path.resolve(import.meta.dirname, '../running/full-disk.mjs');

let dataDir: string;
beforeEach(() => {
  dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

async function offered(directory = dataDir, onBreakGlass?: () => void): Promise<AccessSocket> {
  const socket = await offerAccessSocket(directory, onBreakGlass);
  onTestFinished(() => socket.close());
  return socket;
}

/** A connection that sends anything, and reads answers. */
class Client {
  readonly socket: net.Socket;
  readonly closed: Promise<unknown>;
  readonly #answers: AsyncIterator<string>;

  constructor(directory = dataDir) {
    const { address, release } = socketAddress(directory);
    this.socket = net.connect(address).on('error', () => undefined);
    this.closed = new Promise<void>((resolve) => this.socket.once('close', resolve)).then(release);
    const lines = createInterface({ input: this.socket }).on('error', () => undefined);
    this.#answers = lines[Symbol.asyncIterator]();
    onTestFinished(() => void this.socket.destroy());
  }

  send(bytes: string | Buffer): void {
    this.socket.write(bytes);
  }

  async answer(): Promise<Record<string, unknown> | undefined> {
    const next = await this.#answers.next();
    return next.done === true ? undefined : (JSON.parse(next.value) as Record<string, unknown>);
  }

  ask(request: unknown): ReturnType<Client['answer']> {
    this.send(`${JSON.stringify(request)}\n`);
    return this.answer();
  }
}

function logged(file = path.join(dataDir, 'access.log')): (AccessLine & { command: string })[] {
  if (!fs.existsSync(file)) return [];
  const lines = fs.readFileSync(file, 'utf8').split('\n');
  expect(lines.pop()).toBe('');
  return lines.map((line) => {
    const read = lineIn(Buffer.from(line));
    expect(read, line).toBeTypeOf('object');
    return read as AccessLine & { command: string };
  });
}

describe('the access socket', () => {
  test('[R-2041] stores the two lines of a look, which the collector writes itself', async () => {
    await offered();
    const client = new Client();
    const { kept, reading } = (await client.ask(LOOK)) ?? {};
    expect(kept).toBe(true);
    const [begun] = logged();
    expect(begun).toEqual({
      ...{ at: expect.any(String) as string, reading, state: 'begun' },
      ...{ actor: { ...LOOK.actor, proven: true }, uid: 990, user: 'viewer' },
      ...{ command: 'viewer run', filter: LOOK.filter },
    });
    expect(await client.ask({ state: 'ended', reading, events: 7, complete: true })).toEqual({ kept: true });
    expect(logged()[1]).toMatchObject({ reading, state: 'ended', events: 7, complete: true });
    expect(fs.statSync(path.join(dataDir, 'access.sock')).mode & 0o777).toBe(0o600);
  });

  test('[R-2041] answers several looks on one connection in their order', async () => {
    await offered();
    const client = new Client();
    client.send(`${[1, 2, 3].map((uid) => JSON.stringify({ ...LOOK, uid })).join('\n')}\n`);
    const readings = [await client.answer(), await client.answer(), await client.answer()];
    expect(logged().map(({ reading, uid }) => ({ kept: true, reading, uid }))).toEqual(
      readings.map((answer, i) => ({ ...answer, uid: i + 1 })),
    );
  });

  test('[R-2041] takes a megabyte a second after a burst, so that no sender fills the disk', async () => {
    let now = 0;
    const rate = new AppendRate(() => now);
    expect([rate.took(8 << 20), rate.took(1 << 20)]).toEqual([0, 1000]);
    now += 500;
    expect(rate.took(0)).toBe(500);
    now += 3_600_000;
    expect([rate.took(8 << 20), rate.took(1 << 20)]).toEqual([0, 1000]);

    await offered();
    const filter = { ...LOOK.filter, model: 'x'.repeat(256), app: 'x'.repeat(256), since: 'x'.repeat(256) };
    const look = `${JSON.stringify({ ...LOOK, filter })}\n`;
    const size = () => fs.statSync(path.join(dataDir, 'access.log')).size;
    const clients = Array.from({ length: 30 }, () => new Client());
    // The looks of a connection that have not ended are limited to 1,024.
    for (const client of clients) client.send(look.repeat(1000));
    await expect.poll(size).toBeGreaterThan(8 << 20);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(size()).toBeLessThan(16 << 20);
    for (const client of clients) client.socket.destroy();
  });

  test('[R-2041] stores looks that arrive together with one flush, also those before an invalid request', async () => {
    await offered();
    const client = new Client();
    await client.ask(LOOK);
    const flushes = vi.spyOn(fs, 'fsyncSync');
    client.send(`${JSON.stringify(LOOK)}\n${JSON.stringify(LOOK)}\nno JSON\n${JSON.stringify(LOOK)}\n`);
    expect([await client.answer(), await client.answer(), await client.answer()]).toMatchObject([
      { kept: true },
      { kept: true },
      { refused: 'the request is not JSON' },
    ]);
    await client.closed;
    expect(logged()).toHaveLength(3);
    expect(flushes).toHaveBeenCalledTimes(1);
    flushes.mockRestore();
  });

  const refused: [string, unknown][] = [
    ['another command', { ...LOOK, command: 'erase apply' }],
    ['a command that runs on the host', { ...LOOK, command: 'events' }],
    ['a mirror', { ...LOOK, command: 'mirror', filter: { mirror: RUN, erased: RUN } }],
    ['an unknown page', { ...LOOK, command: 'viewer keys' }],
    ['an actor without a name', { ...LOOK, actor: { kind: 'oidc', name: '', role: 'reviewer' } }],
    ['an actor without a role', { ...LOOK, actor: { kind: 'oidc', name: 'x' } }],
    ['an unknown kind of login', { ...LOOK, actor: { ...LOOK.actor, kind: 'root' } }],
    ['a long name', { ...LOOK, actor: { ...LOOK.actor, name: 'x'.repeat(257) } }],
    ['a name that a database refuses', { ...LOOK, actor: { ...LOOK.actor, name: 'a\0' } }],
    ['a name with half a surrogate pair', { ...LOOK, actor: { ...LOOK.actor, name: '\ud800' } }],
    ['a long reason', { ...BREAK_GLASS, reason: 'x'.repeat(2001) }],
    ['break-glass without a reason', { ...BREAK_GLASS, reason: undefined }],
    ['break-glass with a short reason', { ...BREAK_GLASS, reason: ' because      ' }],
    ['break-glass of a reviewer', { ...LOOK, break_glass: true, reason: 'because I can' }],
    ['break-glass without its mark', { ...BREAK_GLASS, break_glass: undefined }],
    ['no filter', { ...LOOK, filter: undefined }],
    ['a run without its id', { ...LOOK, filter: { organisation: 'demo' } }],
    ['the id of a patient', { ...LOOK, command: 'viewer runs', filter: { target: 'patient-1' } }],
    ['the id of a caller', { ...LOOK, command: 'viewer runs', filter: { user: 'dr-1' } }],
    ['a member within a member', { ...LOOK, filter: { run: RUN, more: { a: 1 } } }],
    ['a member with an invalid name', { ...LOOK, filter: { run: RUN, 'A B': true } }],
    [
      'a followed erasure with another member',
      { ...LOOK, command: 'viewer', filter: { viewer: RUN, erased: RUN } },
    ],
    ['a long member', { ...LOOK, filter: { run: RUN, model: 'm'.repeat(1001) } }],
    [
      'a line that a database refuses',
      {
        ...LOOK,
        filter: Object.fromEntries([
          ['run', RUN],
          ...'abcdefghijklmnopqrstu'.split('').map((name) => [name, '\u0001'.repeat(1000)]),
        ]) as object,
      },
    ],
    ['a negative user id', { ...LOOK, uid: -1 }],
    ['an end without a start', { state: 'ended', reading: RUN, events: 1, complete: true }],
    ['a third state', { ...LOOK, state: 'changed' }],
    ['a list', [LOOK]],
    ['null', null],
  ];
  test.each(refused)('[R-2041] refuses %s, and closes the connection', async (_what, request) => {
    await offered();
    const client = new Client();
    const answer = await client.ask(request);
    expect(Object.keys(answer ?? {})).toEqual(['refused']);
    await client.closed;
    expect(logged()).toEqual([]);
  });

  test('[R-2050] records that a viewer has followed an erasure', async () => {
    await offered();
    const [actor, filter] = [
      { kind: 'os', name: 'viewer' },
      { viewer: randomUUID(), erased: randomUUID() },
    ];
    await new Client().ask({ ...LOOK, command: 'viewer', actor, filter });
    expect(logged()).toMatchObject([{ command: 'viewer', actor: { ...actor, proven: false }, filter }]);
  });

  test('[R-2041] ends a look only on the connection on which it began, and once', async () => {
    await offered();
    const [one, other] = [new Client(), new Client()];
    const end = { state: 'ended', reading: (await one.ask(LOOK))?.['reading'], events: 1, complete: true };
    expect(await other.ask(end)).toEqual({ refused: 'no such look has begun on this connection' });
    one.send(`${JSON.stringify(end)}\n`.repeat(2));
    expect(await one.answer()).toEqual({ kept: true });
    expect(await one.answer()).toHaveProperty('refused');
    expect(logged()).toHaveLength(2);
  });

  test('[R-2041] refuses a request that is too long before it ends', async () => {
    await offered();
    const client = new Client();
    client.send('x'.repeat((64 << 10) + 1));
    expect(await client.answer()).toEqual({ refused: 'the request is too long' });
    await client.closed;
  });

  test('[R-2041] stores no line of another command, whatever it is sent', async () => {
    await offered();
    const member = fc.constantFrom(
      ...Object.keys(BREAK_GLASS),
      'reading',
      'events',
      'complete',
      'at',
      'done',
    );
    const change = fc.tuple(member, fc.oneof(fc.jsonValue(), fc.string({ unit: 'binary' })));
    const request = fc
      .tuple(fc.constantFrom(LOOK, BREAK_GLASS), fc.array(change, { maxLength: 4 }))
      .map(([look, changes]) => `${JSON.stringify({ ...look, ...Object.fromEntries(changes) })}\n`);
    const sent = fc.oneof(
      request,
      fc.string({ unit: 'binary' }),
      fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    );
    let kept = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(sent, { maxLength: 5 }), async (pieces) => {
        const client = new Client();
        for (const piece of pieces) client.send(piece);
        client.socket.end();
        for (let answer = await client.answer(); answer; answer = await client.answer()) {
          expect(['kept', 'refused']).toContain(Object.keys(answer)[0]);
          if (answer['kept'] === true) kept++;
        }
        await client.closed;
        const lines = logged();
        expect(lines).toHaveLength(kept);
        for (const { command, actor, filter } of lines) {
          expect(command).toMatch(/^viewer( (runs|run|report|proof|break-glass))?$/);
          expect(Object.keys(actor).every((each) => ['kind', 'name', 'role', 'proven'].includes(each))).toBe(
            true,
          );
          expect(filter).toBeDefined();
        }
      }),
      { numRuns: runs(1000, 100) },
    );
    expect(kept).toBeGreaterThan(0);
  });

  test('[R-2042] refuses a look while the disk is full, and keeps the connection', async () => {
    await offered();
    const client = new Client();
    const full = vi.spyOn(fs, 'writeSync').mockImplementation(() => {
      throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
    });
    expect(await client.ask(LOOK)).toEqual({ refused: 'the access log cannot be written (ENOSPC)' });
    full.mockRestore();
    expect(await client.ask(LOOK)).toMatchObject({ kept: true });
    expect(logged()).toHaveLength(1);
  });

  test('[R-2041] waits for a sender that does not read its answers', async () => {
    await offered();
    const [slow, other] = [new Client(), new Client()];
    slow.socket.pause();
    const requests = 3000;
    slow.send(`${JSON.stringify({ ...LOOK, command: 'viewer runs', filter: {} })}\n`.repeat(requests));
    await expect.poll(() => logged().length).toBeGreaterThan(0);
    expect(await other.ask(LOOK)).toMatchObject({ kept: true });
    expect(logged().length).toBeLessThanOrEqual(requests);
  });

  test('[R-2041] on a mirror writes to its log of readings', async () => {
    writeMirrorNote(dataDir, {
      store: 'postgres://db/c',
      ledger_id: 'a',
      id: RUN,
      forwarded: 0,
      followed: 0,
    });
    await offered();
    expect(await new Client().ask(LOOK)).toMatchObject({ kept: true });
    expect(fs.existsSync(path.join(dataDir, 'access.log'))).toBe(false);
    expect(logged(path.join(dataDir, 'mirror-access.log'))).toHaveLength(1);
  });

  test('[R-2041] lies in a directory whose path is too long for a socket', async () => {
    const deep = path.join(dataDir, 'd'.repeat(60), 'e'.repeat(60));
    fs.mkdirSync(deep, { recursive: true });
    const socket = await offered(deep);
    expect(await new Client(deep).ask(LOOK)).toMatchObject({ kept: true });
    await socket.close();
    expect(fs.readdirSync(deep)).toEqual(['access.log']);
  });

  test('[R-2041] belongs to the process that answers on it; a stale one is replaced', async () => {
    const socket = await offered();
    await expect(offerAccessSocket(dataDir)).rejects.toThrow('another process offers access.sock');
    expect(await new Client().ask(LOOK)).toMatchObject({ kept: true });
    await socket.close();
    const file = path.join(dataDir, 'access.sock');
    expect(fs.existsSync(file)).toBe(false);
    const dead = net.createServer().listen(path.join(dataDir, 'dead.sock'));
    await once(dead, 'listening');
    fs.renameSync(path.join(dataDir, 'dead.sock'), file);
    dead.close();
    expect(fs.existsSync(file)).toBe(true);
    await offered();
    expect(await new Client().ask(LOOK)).toMatchObject({ kept: true });
  });

  test('[R-2041] replaces nothing that is not a socket', async () => {
    fs.writeFileSync(path.join(dataDir, 'access.sock'), 'a file');
    await expect(offerAccessSocket(dataDir)).rejects.toThrow('not a socket');
    expect(fs.readFileSync(path.join(dataDir, 'access.sock'), 'utf8')).toBe('a file');
  });

  test('[R-2045] may be used by the group to which the directory is open', async () => {
    const group = { dataDir, readGroup: String(process.getegid?.() ?? 0) };
    applyReadGroup({ ...group, encryption: 'off', encryptionKeys: '', kek: '' });
    await offered();
    expect(fs.statSync(path.join(dataDir, 'access.sock')).mode & 0o777).toBe(0o660);
  });

  test('[R-2041] belongs to the owner of the directory if root offers it', async () => {
    if (process.getuid?.() !== 0) {
      process.stdout.write('not tested: that needs root\n');
      return;
    }
    fs.chownSync(dataDir, 4711, 4712);
    await offered();
    const { uid, gid } = fs.statSync(path.join(dataDir, 'access.sock'));
    expect([uid, gid]).toEqual([4711, 4712]);
    expect(fs.readdirSync(dataDir)).toEqual(['access.sock']);
  });

  test('[R-2041] accepts at most 64 connections', async () => {
    await offered();
    const clients = Array.from({ length: 65 }, () => new Client());
    await clients[64]?.closed;
    expect(await clients[0]?.ask(LOOK)).toMatchObject({ kept: true });
  });
});

describe('collector serve', () => {
  test('[R-2041] [R-2042] offers the socket; a head covers looks, and a killed viewer leaves one without an end', async () => {
    const collector = await start(dataDir);
    await expect.poll(() => fs.existsSync(path.join(dataDir, 'access.sock'))).toBe(true);
    const client = new Client();
    const { reading } = (await client.ask(LOOK)) ?? {};
    await client.ask({ state: 'ended', reading, events: 7, complete: true });
    await client.ask(LOOK);
    client.socket.destroy();
    expect(await collector.stop()).toBe(0);
    expect(fs.existsSync(path.join(dataDir, 'access.sock'))).toBe(false);
    const { code, stdout } = await run(['verify', '--data-dir', dataDir, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ intact: true, findings: [] },
      access_log: { lines: 3, unsigned_lines: 0, unended: 1, torn: 0 },
    });
  });

  test('[R-2041] offers the socket again after it was killed', async () => {
    const collector = await start(dataDir);
    await expect.poll(() => fs.existsSync(path.join(dataDir, 'access.sock'))).toBe(true);
    expect(await new Client().ask(LOOK)).toMatchObject({ kept: true });
    await collector.kill();
    expect(fs.existsSync(path.join(dataDir, 'access.sock'))).toBe(true);
    const next = await start(dataDir);
    await expect.poll(async () => (await new Client().ask(LOOK))?.['kept']).toBe(true);
    expect(await next.stop()).toBe(0);
    expect(logged()).toHaveLength(2);
  });

  test('[R-2042] refuses looks while its disk is full', async () => {
    const flag = path.join(dataDir, 'full');
    const collector = await start(dataDir, [], ['--import', FULL_DISK], { FULL_DISK: flag });
    await expect.poll(() => fs.existsSync(path.join(dataDir, 'access.sock'))).toBe(true);
    const client = new Client();
    fs.writeFileSync(flag, '');
    expect(await client.ask(LOOK)).toEqual({ refused: 'the access log cannot be written (ENOSPC)' });
    fs.rmSync(flag);
    expect(await client.ask(LOOK)).toMatchObject({ kept: true });
    await collector.stop();
  });

  test('[R-2041] warns and continues if it cannot offer the socket, and tries again', async () => {
    const place = path.join(dataDir, 'access.sock');
    fs.mkdirSync(place);
    const collector = await start(dataDir);
    await expect.poll(() => collector.output.stderr).toContain('the access socket cannot be offered');
    expect((await fetch(`${collector.url}/v1/inference-start`)).status).toBe(404);
    fs.rmdirSync(place);
    await expect.poll(() => collector.output.stderr).toContain('the access socket is offered');
    expect(await new Client().ask(LOOK)).toMatchObject({ kept: true });
    expect(await collector.stop()).toBe(0);
    expect(fs.existsSync(place)).toBe(false);
  });

  test('[R-2044] counts looks with break-glass, and warns without a name', async () => {
    const port = await freePort();
    const collector = await start(dataDir, ['--management-port', String(port)]);
    await expect.poll(() => fs.existsSync(path.join(dataDir, 'access.sock'))).toBe(true);
    const get = async (page: string) => (await fetch(`http://127.0.0.1:${port}${page}`)).text();
    expect(await get('/metrics')).toContain('collector_break_glass_total 0');
    const client = new Client();
    await client.ask(LOOK);
    await client.ask(BREAK_GLASS);
    await client.ask(BREAK_GLASS);
    await expect.poll(() => get('/metrics')).toContain('collector_break_glass_total 2');
    const state = await get('/console/state.json');
    expect(state).toContain('2 looks with break-glass since the start');
    expect(state + collector.output.stderr).not.toMatch(/j\.doe|resuscitation/);
    await collector.stop();
  });
});
