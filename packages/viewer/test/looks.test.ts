import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type AccessLine, lineIn } from '@clinical-events/collector/commands/access-lines';
import { offerAccessSocket } from '@clinical-events/collector/commands/access-socket';
import { BEGAN, type Look, type Looks } from '../src/contract.js';
import { openLooks } from '../src/looks.js';

const VIEWER = '5f0e2a52-3a6e-4a0f-9d0a-51cb6a1f9a11';
const ACTION = '0190f5fe-7c00-7a00-8000-0000000000aa';
const RUN = '0190f5fe-7c00-7a00-8000-000000000001';
const LOOK: Look = {
  acting: {
    person: { kind: 'oidc', name: 'reviewer-4', callerId: 'dr-17', groups: ['ward'] },
    role: 'reviewer',
    scope: { organisations: undefined, applications: undefined, caller: undefined },
    reason: undefined,
  },
  what: 'run',
  filter: { run: RUN, organisation: 'demo' },
};

let dataDir: string;
let looks: Looks;
beforeEach(() => {
  dataDir = fs.mkdtempSync(path.join(os.tmpdir(), 'looks-'));
  looks = openLooks({ dataDir, viewerId: VIEWER });
  onTestFinished(async () => {
    vi.restoreAllMocks();
    await looks.close();
    fs.rmSync(dataDir, { recursive: true, force: true });
  });
});

async function offered() {
  const socket = await offerAccessSocket(dataDir);
  onTestFinished(() => socket.close());
  return socket;
}

function logged(): AccessLine[] {
  const text = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => lineIn(Buffer.from(line)) as AccessLine);
}

/** A socket that answers as the test says. */
async function answering(take: (socket: net.Socket) => void): Promise<void> {
  const server = net.createServer(take);
  await new Promise<void>((resolve) => server.listen(path.join(dataDir, 'access.sock'), resolve));
  onTestFinished(() => void server.close());
}

describe('looks', () => {
  test('[R-2042] are in the access log before the page may be sent, and end with its events', async () => {
    await offered();
    const end = await looks.begin(LOOK);
    expect(logged()).toMatchObject([
      {
        ...{ state: 'begun', command: 'viewer run', filter: LOOK.filter },
        ...{
          actor: { kind: 'oidc', name: 'reviewer-4', role: 'reviewer', proven: true },
          uid: process.getuid?.(),
        },
      },
    ]);
    expect(logged()[0]).not.toHaveProperty('break_glass');
    await end({ events: 5, complete: true });
    const [begun, ended] = logged();
    expect(ended).toMatchObject({ state: 'ended', reading: begun?.reading, events: 5, complete: true });
  });

  test('[R-2042] with break-glass have the mark and the reason', async () => {
    await offered();
    const acting = { ...LOOK.acting, role: 'break-glass', reason: 'patient in resuscitation' } as const;
    await looks.begin({ ...LOOK, acting });
    expect(logged()).toMatchObject([
      { break_glass: true, reason: 'patient in resuscitation', actor: { role: 'break-glass' } },
    ]);
  });

  test('[R-2042] of many people at once go over one connection, each with its own end', async () => {
    const connections = vi.spyOn(net, 'connect');
    await offered();
    const names = Array.from({ length: 50 }, (_, i) => `person ${i}`);
    await Promise.all(
      names.map(async (name, events) => {
        const person = { ...LOOK.acting.person, name };
        const end = await looks.begin({ ...LOOK, acting: { ...LOOK.acting, person } });
        await end({ events, complete: true });
      }),
    );
    expect(connections).toHaveBeenCalledOnce();
    const ended = logged().filter(({ state }) => state === 'ended') as (AccessLine & { events: number })[];
    expect(ended.map(({ events, actor }) => [actor.name, events]).sort()).toEqual(
      names.map((name, i) => [name, i]).sort(),
    );
  });

  test('[R-2042] are refused while the collector is away, and recorded once it is back', async () => {
    await expect(looks.begin(LOOK)).rejects.toThrow(`no collector runs on ${dataDir}`);
    const socket = await offered();
    const end = await looks.begin(LOOK);
    await socket.close();
    await expect(looks.begin(LOOK)).rejects.toMatchObject({ name: 'LookRefused' });
    await end({ events: 1, complete: true });
    await offered();
    await looks.begin(LOOK);
    expect(logged().map(({ state }) => state)).toEqual(['begun', 'begun']);
  });

  test('[R-2042] are refused while the disk is full', async () => {
    await offered();
    const full = vi.spyOn(fs, 'writeSync').mockImplementation(() => {
      throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
    });
    await expect(looks.begin(LOOK)).rejects.toThrow(/does not record this look: .*ENOSPC/);
    full.mockRestore();
    await looks.begin(LOOK);
    expect(logged()).toHaveLength(1);
  });

  test('[R-2042] are refused if there is no answer in time; a late one belongs to its own look', async () => {
    const late = openLooks({ dataDir, viewerId: VIEWER, answerMs: 200 });
    let answer: (() => void) | undefined;
    let requests = '';
    await answering((socket) => {
      socket.on('data', (bytes: Buffer) => (requests += bytes.toString()));
      answer = () => socket.write('{"kept":true,"reading":"one"}\n{"kept":true,"reading":"two"}\n');
    });
    await expect(late.begin(LOOK)).rejects.toThrow('has not recorded this look in time');
    const second = late.begin(LOOK);
    await expect.poll(() => requests.split('\n').length).toBe(3);
    answer?.();
    const end = await second;
    const ended = end({ events: 1, complete: true });
    await expect.poll(() => requests).toContain('"reading":"two"');
    expect(requests).not.toContain('"reading":"one","events":1');
    // It has shown nothing, and the collector need not keep it as open.
    expect(requests).toContain('"reading":"one","events":0,"complete":false');
    await ended;
    await late.close();
  });

  test.each(['', 'null', '[]', '{"kept":1}', '{"kept":true}', 'no JSON', '{"refused":5}'])(
    '[R-2042] are refused if the answer is %j',
    async (text) => {
      await answering((socket) => socket.on('data', () => socket.end(`${text}\n`)));
      await expect(looks.begin(LOOK)).rejects.toMatchObject({ name: 'LookRefused' });
    },
  );

  test('[R-2050] report a followed erasure by ids', async () => {
    await offered();
    await looks.followed(ACTION);
    expect(logged()).toMatchObject([
      { state: 'begun', command: 'viewer', filter: { viewer: VIEWER, erased: ACTION } },
      { state: 'ended', command: 'viewer', events: 0, complete: true },
    ]);
    await looks.followed(BEGAN);
    expect(logged()[2]).toMatchObject({ state: 'begun', command: 'viewer', filter: { viewer: VIEWER } });
    expect(logged()[2]?.filter).not.toHaveProperty('erased');
    await expect(looks.followed('patient 1')).rejects.toMatchObject({ name: 'LookRefused' });
  });

  test('[R-2042] that have begun are answered before the connection is closed', async () => {
    await offered();
    const begun = Array.from({ length: 5 }, () => looks.begin(LOOK));
    await looks.close();
    expect(await Promise.all(begun)).toHaveLength(5);
    await expect(looks.begin(LOOK)).rejects.toThrow('the viewer is stopping');
  });
});
