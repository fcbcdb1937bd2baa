/** The memory of a collector that is started as the image starts it, under the loads that ask for most of it. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import zlib from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { start, temporaryDirectory } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { chunked, requestBytes } from '../running/raw-http.js';
import { outcomeText } from '../running/sample-events.js';

/** In MiB, as docs/guide/operate.md has it. These loads reach 450, and 560 where garbage waits for a busy core. */
const MOST_MIB = 640;
const KEYS = 8;
const MIB = 1 << 20;
const DOCKERFILE = path.resolve(import.meta.dirname, '../../../../deploy/docker/Dockerfile');
const VALUE_BYTES = MIB - 500;

/** How the image starts Node. */
function startOfImage(): { nodeArgs: string[]; env: NodeJS.ProcessEnv } {
  const text = fs.readFileSync(DOCKERFILE, 'utf8');
  const [, flags = ''] = /^ENTRYPOINT \["node", (.*), "[^"]*main\.js"\]$/m.exec(text) ?? [];
  const env = [...text.matchAll(/^ +(MALLOC_\w+)=(\d+) \\$/gm)].map(([, name, value]) => [name, value]);
  expect([flags, env.length]).toEqual([expect.stringContaining('--max-semi-space-size'), 2]);
  return {
    nodeArgs: JSON.parse(`[${flags}]`) as string[],
    env: Object.fromEntries(env) as NodeJS.ProcessEnv,
  };
}

const filled = (item: (i: number) => string): string => {
  let text = '';
  for (let i = 0; text.length < VALUE_BYTES - 100; i++) text += `${i > 0 ? ',' : ''}${item(i)}`;
  return text;
};
const VALUES = [
  `"${'x'.repeat(VALUE_BYTES)}"`,
  `"${'\u4e2d'.repeat(VALUE_BYTES / 3)}"`,
  `"${'\\"'.repeat(VALUE_BYTES / 2)}"`,
  `{${filled((i) => `"${i.toString(36)}":0`)}}`,
  `[${filled(() => '{}')}]`,
  `[${filled(() => `${'['.repeat(50)}${']'.repeat(50)}`)}]`,
  `[${filled((i) => `${i}.5e-99999999`)}]`,
];
const BODIES = [...VALUES.map((value) => Buffer.from(outcomeText(value))), Buffer.alloc(MIB, 0xc3)];

const CODINGS: Readonly<Record<string, (body: Buffer) => Buffer>> = {
  identity: (body) => body,
  gzip: (body) => zlib.gzipSync(body),
  br: (body) => zlib.brotliCompressSync(body, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 2 } }),
  zstd: (body) => zlib.zstdCompressSync(body),
};

interface Load {
  readonly connections: number;
  readonly requests: readonly Buffer[];
  /** It ends with so many answers, whatever they are, or once so many requests wait unread in the sockets. */
  readonly answers: number;
  /** Bytes that are written at a time, with a pause after them. */
  readonly slice?: number;
}

const ID = Buffer.from('"event_id":"');

/** Sends requests in turn, a new event each time where it is one, and the next when it is answered. */
async function put(port: number, { connections, requests, answers, slice }: Load): Promise<void> {
  const sockets = new Set<net.Socket>();
  let [next, answered, over] = [0, 0, false];
  const request = () => {
    const bytes = Buffer.from(requests[next++ % requests.length] ?? []);
    const id = bytes.indexOf(ID);
    if (id > 0) bytes.write(randomUUID(), id + ID.length, 'latin1');
    return bytes;
  };
  const write = (socket: net.Socket, bytes: Buffer) => {
    if (slice === undefined || bytes.length <= slice) return void socket.write(bytes);
    socket.write(bytes.subarray(0, slice));
    setTimeout(() => {
      if (!socket.destroyed) write(socket, bytes.subarray(slice));
    }, 100);
  };
  await new Promise<void>((resolve) => {
    const open = () => {
      const socket = net.connect(port, '127.0.0.1');
      sockets.add(socket);
      let answer = '';
      socket.on('connect', () => write(socket, request()));
      socket.on('data', (piece) => {
        answer += piece.toString('latin1');
        if (!answer.endsWith('}')) return;
        answer = '';
        if (++answered >= answers) resolve();
        else write(socket, request());
      });
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        if (!over) setTimeout(open, 20);
      });
    };
    for (let i = 0; i < connections; i++) open();
  });
  over = true;
  for (const socket of sockets) socket.destroy();
}

function peakMiB(pid: number | undefined): number {
  const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}

test.each(['on', 'off'])(
  '[R-803] with encryption %s, memory stays below the limit in the guide under hostile bodies and connections',
  async (encryption) => {
    const directory = temporaryDirectory();
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
    const keys: string[] = [];
    while (keys.length < KEYS) keys.push((await issueKey(directory)).text);
    const { nodeArgs, env } = startOfImage();
    const collector = await start(directory, ['--encryption', encryption], nodeArgs, env);
    onTestFinished(() => collector.kill());
    const { port } = collector;
    const all = BODIES.flatMap((body, i) =>
      Object.entries(CODINGS).map(([coding, encode], j) =>
        requestBytes({
          key: keys[(i + j) % KEYS],
          headers: { 'Content-Encoding': coding },
          body: encode(body),
        }),
      ),
    );
    const large = keys.map((key) => requestBytes({ key, body: BODIES[0] ?? '' }));
    const inChunks = keys.map((key, i) =>
      requestBytes({
        ...{ key, headers: { 'Transfer-Encoding': 'chunked' } },
        body: chunked(BODIES[i % BODIES.length] ?? '', 1 << (10 + i)),
      }),
    );
    const bomb = Buffer.alloc(64 * MIB, ' ');
    const bombs = (['gzip', 'br', 'zstd'] as const).map((coding) =>
      requestBytes({
        key: keys[0],
        headers: { 'Content-Encoding': coding },
        body: CODINGS[coding]?.(bomb) ?? '',
      }),
    );
    const unproven = requestBytes({ body: BODIES[0] ?? '' });
    const peaks: Record<string, number> = {};
    const loads: Record<string, Load> = {
      large: { connections: 64, requests: large, answers: 400 },
      shapes: { connections: 64, requests: all, answers: 600 },
      bombs: { connections: 64, requests: bombs, answers: 200 },
      chunks: { connections: 64, requests: inChunks, answers: 200 },
      'slow, many': { connections: 600, requests: [...large, ...inChunks], answers: 1200, slice: 16 << 10 },
      'small, many': {
        connections: 3000,
        requests: [requestBytes({ key: keys[0], body: '{}' })],
        answers: 20_000,
      },
      'without a key': { connections: 300, requests: [unproven], answers: 600 },
      'shapes again': { connections: 64, requests: all, answers: 300 },
    };
    for (const [name, load] of Object.entries(loads)) {
      await put(port, load);
      peaks[name] = Math.round(peakMiB(collector.process.pid));
    }
    expect(Math.max(...Object.values(peaks)), JSON.stringify(peaks)).toBeLessThan(MOST_MIB);
  },
);
