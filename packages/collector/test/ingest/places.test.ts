import { EventEmitter } from 'node:events';
import fs from 'node:fs';
import https from 'node:https';
import type { Socket } from 'node:net';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ServerCertificate } from '../../src/ingest/tls.js';
import { keepPlace, networkOf, Places } from '../../src/ingest/connections.js';
import { Authority, writePair } from '../running/certificates.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { collectorWithoutLedger } from '../running/collector-without-ledger.js';
import { RawConnection, requestBytes } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';
import { handshake, post as postOverTls } from '../running/tls-client.js';

const ONE = '127.0.0.1';
const OTHER = '127.0.0.2';
const LIMIT = 8;

const post = (key?: string) => requestBytes({ key, body: JSON.stringify(sampleEvent()) });

async function limited(...[tls]: [tls?: { ca: string; directory: string }]) {
  const files = tls && {
    cert: `${tls.directory}/tls.crt`,
    key: `${tls.directory}/tls.key`,
    clientCa: undefined,
  };
  const collector = await collectorWithoutLedger(64, {
    maxConnections: LIMIT,
    ...(files && { tls: { certificate: await ServerCertificate.read(files) } }),
  });
  const { ledger, port } = collector;
  let taken = 0;
  const take = (): number => {
    while (ledger.take() !== undefined) taken++;
    return taken;
  };
  return {
    port,
    open: async (from: string, bytes: string | Uint8Array): Promise<RawConnection> => {
      const connection = await RawConnection.open(port, from);
      onTestFinished(() => connection.close());
      connection.write(bytes);
      return connection;
    },
    /** Resolves when the ledger has taken this many events in all. */
    stored: async (events: number): Promise<void> => {
      await expect.poll(take, { interval: 1 }).toBe(events);
    },
    acknowledge: (): void => {
      for (; taken > 0; taken--) ledger.answer('accepted');
      ledger.send();
    },
  };
}

describe('[R-803] when all connections are taken', () => {
  const HALVES = [
    ['nothing', () => ''],
    ['one byte', () => 'P'],
    ['half a body without a key', () => post().subarray(0, -5)],
    ['a request with a wrong key', () => post('unknown')],
    ['a request to an unknown path', () => requestBytes({ key: 'one', target: '/event/none', body: '{}' })],
  ] as const;
  describe.each([
    ['its own', ONE],
    ['another', OTHER],
  ])('by %s address', (_whose, newcomer) => {
    test.each(HALVES)(
      'with %s on each, a sender gets in, and none with a key is cut off',
      async (_what, half) => {
        const { open, stored, acknowledge } = await limited();
        const whole = await open(ONE, post('honest'));
        const begun = await open(ONE, post('slow').subarray(0, -5));
        await stored(1);
        const halves: RawConnection[] = [];
        while (halves.length < 3 * LIMIT) halves.push(await open(ONE, half()));
        const late = await open(newcomer, post('honest'));
        await stored(2);
        begun.write(post('slow').subarray(-5));
        await stored(3);
        acknowledge();
        for (const connection of [whole, late, begun]) expect((await connection.answer())?.status).toBe(201);
        expect(await halves[0]?.ending()).not.toBe('open');
      },
    );
  });

  test('and each has shown a key, the newcomer is refused', async () => {
    const { open, stored, acknowledge } = await limited();
    const all: RawConnection[] = [];
    while (all.length < LIMIT) all.push(await open(ONE, post('honest')));
    await stored(LIMIT);
    expect(await (await open(OTHER, 'P')).ending()).not.toBe('open');
    acknowledge();
    for (const connection of all) expect((await connection.answer())?.status).toBe(201);
    all[0]?.close();
    await expect.poll(async () => (await open(ONE, 'P')).ending(100)).toBe('open');
  });

  test('by unfinished handshakes, and by TLS without a request, a sender gets in and is not cut off', async () => {
    const directory = temporaryDirectory();
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
    const authority = new Authority();
    writePair(directory, authority.issue({ names: ['dns:collector.test'] }));
    const sender = { ca: authority.certificate };
    const { open, port, stored, acknowledge } = await limited({ ...sender, directory });
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
    onTestFinished(() => agent.destroy());
    let sent = 0;
    const send = async (): Promise<void> => {
      const answer = postOverTls(port, 'honest', { ...sender, agent });
      await stored(1);
      acknowledge();
      expect((await answer).status).toBe(201);
      sent++;
    };
    await send();
    const first = Object.values(agent.freeSockets).flat()[0];
    for (let i = 0; i < 2 * LIMIT; i++) await open(ONE, Uint8Array.from([0x16, 0x03, 0x01]));
    await send();
    for (let i = 0; i < 2 * LIMIT; i++) {
      const idle = await handshake(port, sender);
      idle.on('error', () => undefined);
      onTestFinished(() => void idle.destroy());
    }
    await send();
    const answer = postOverTls(port, 'honest', { ...sender, agent: new https.Agent() });
    await stored(1);
    acknowledge();
    expect((await answer).status).toBe(201);
    expect(sent).toBe(3);
    expect(first?.destroyed).toBe(false);
  });
});

describe('[R-803] places', () => {
  class FakeSocket extends EventEmitter {
    destroyed = false;
    constructor(readonly remoteAddress: string) {
      super();
    }
    destroy(): void {
      this.destroyed = true;
    }
    /** A socket reports this later than it is destroyed. */
    close(): void {
      this.destroyed = true;
      this.emit('close');
    }
  }
  const real = (socket: FakeSocket) => socket as unknown as Socket;
  function fill(limit: number, address: (i: number) => string) {
    const lost: [reason: string, remote: string | undefined][] = [];
    const places = new Places(limit, (reason, remote) => lost.push([reason, remote]));
    const enter = (from: string): FakeSocket => {
      const socket = new FakeSocket(from);
      expect(places.admit(real(socket))).toBe(!socket.destroyed);
      return socket;
    };
    return { enter, lost, held: Array.from({ length: limit }, (_, i) => enter(address(i))) };
  }
  const survivors = (sockets: readonly FakeSocket[]) =>
    sockets.flatMap(({ destroyed }, i) => (destroyed ? [] : [i]));

  test('are taken from the address with the most without a key, the oldest first', () => {
    const { enter, lost, held } = fill(10, (i) => (i < 3 ? ONE : OTHER));
    enter('127.0.0.3');
    enter(OTHER);
    expect(lost).toEqual(Array(2).fill(['displaced', OTHER]));
    expect(survivors(held)).toEqual([0, 1, 2, 5, 6, 7, 8, 9]);
  });

  test('of a newcomer are safe from a flood of another network, whatever its rate', () => {
    const { enter } = fill(10, () => OTHER);
    const newcomer = enter(ONE);
    for (let i = 0; i < 1000; i++) enter(OTHER);
    expect(newcomer.destroyed).toBe(false);
  });

  test('are never more than the limit, and one with a key keeps its own, whoever comes and goes', () => {
    const action = fc.record({
      what: fc.constantFrom('enter', 'enter', 'enter', 'key', 'close'),
      which: fc.nat(30),
    });
    fc.assert(
      fc.property(fc.array(action, { maxLength: 200 }), fc.integer({ min: 1, max: 5 }), (actions, limit) => {
        const { enter } = fill(limit, () => ONE);
        const open: FakeSocket[] = [];
        const kept = new Set<FakeSocket>();
        for (const { what, which } of actions) {
          const socket = open[which % Math.max(1, open.length)];
          if (what === 'enter') {
            const full = kept.size === limit;
            const newcomer = enter(`127.0.0.${which}`);
            expect(newcomer.destroyed).toBe(full);
            if (!full) open.push(newcomer);
          } else if (socket === undefined) continue;
          else if (what === 'key') {
            if (socket.destroyed) continue;
            keepPlace(real(socket));
            kept.add(socket);
          } else {
            socket.close();
            kept.delete(socket);
          }
          expect(open.filter(({ destroyed }) => !destroyed).length).toBeLessThanOrEqual(limit);
          for (const one of kept) expect(one.destroyed).toBe(false);
        }
      }),
    );
  });

  test.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '::ffff:192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::6', '2001:db8:1:2'],
    ['2001:db8::6', '2001:db8:0:0'],
    ['::1', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['', ''],
  ])('are counted for %j by %j', (address, network) => expect(networkOf(address)).toBe(network));
});
