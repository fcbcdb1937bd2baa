/**
 * The same bytes, cut anywhere, to a listener with the shortcut and to one without: the same answers, the same events,
 * the same end.
 */
import diagnostics from 'node:diagnostics_channel';
import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_PATHS, SALT_BYTES } from '@clinical-events/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../../../../test/property-runs.js';
import { SHORT_LINE } from '../../src/ingest/admission.js';
import { Listener } from '../../src/ingest/listener.js';
import { collectorWithoutLedger } from '../running/collector-without-ledger.js';

/** Beyond it a piece of a request is not waited for any more, and the connection is handed over. */
const PATIENCE_MS = 5;
/** Turns of the event loop after which nothing is in transit. */
const QUIET_TURNS = 24;

const RESTING_MS = 60;
/**
 * So that what waits for time waits together. Four requests of each may be in the line, which is never long then: on a
 * slow machine one of the two would refuse some.
 */
const AT_A_TIME = (0.75 * SHORT_LINE) / 4;

/** The listeners' ends of the connections, by both ports: connections to two listeners may have the same one here. */
const ACCEPTED = new Map<string, net.Socket>();
const between = (client = 0, listener = 0) => `${client} ${listener}`;
diagnostics.subscribe('net.server.socket', (message) => {
  const { socket } = message as { readonly socket: net.Socket };
  ACCEPTED.set(between(socket.remotePort, socket.localPort), socket);
});

const turn = () => new Promise((resolve) => setImmediate(resolve));
const PATHS = Object.values(EVENT_PATHS);

const name = (text: string) => fc.constantFrom(text, text.toLowerCase(), text.toUpperCase());
const mostly = <T>(usual: fc.Arbitrary<T>, odd: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 30, arbitrary: usual }, { weight: 1, arbitrary: odd });

const line = (names: string, values: fc.Arbitrary<string>, separator = ': ') =>
  fc
    .tuple(name(names), mostly(fc.constant(separator), fc.constantFrom(':', ':  ', ' : ', ':\t')), values)
    .map((parts) => parts.join(''));

const HARMLESS = fc.oneof(
  line('Accept', fc.constantFrom('*/*', 'application/json', '')),
  line('User-Agent', fc.string({ maxLength: 20 })),
  line('Connection', fc.constantFrom('keep-alive', 'Keep-Alive', 'keep-alive ')),
  line('Keep-Alive', fc.constant('timeout=5')),
  line('X-Event-Door', fc.constantFrom('import', 'otlp', 'Import', 'endpoint')),
  line('traceparent', fc.constant('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01')),
);
const ODD = fc.oneof(
  line('Connection', fc.constantFrom('close', 'upgrade', 'keep-alive, close', 'x', 'transfer-encoding')),
  line('Proxy-Connection', fc.constantFrom('close', 'keep-alive')),
  line(
    'Content-Length',
    fc.constantFrom('0', '1', '5', '+5', '0x5', '05', '5,5', '', '99999999999999999999'),
  ),
  line('Transfer-Encoding', fc.constantFrom('chunked', 'identity', 'gzip, chunked', 'xchunked', '')),
  line('Expect', fc.constantFrom('100-continue', '200-ok')),
  line('Upgrade', fc.constantFrom('websocket', 'h2c')),
  line('Content-Encoding', fc.constantFrom('identity', 'gzip', 'br', 'x', '')),
  line('Host', fc.constantFrom('other', '')),
  line('X-API-Key', fc.constantFrom('one', 'unknown', '')),
  line('Content-Type', fc.constantFrom('application/json', 'text/plain')),
  line('TE', fc.constant('trailers')),
  line('Trailer', fc.constant('X-Sum')),
  fc.constantFrom(
    ' folded: line',
    '\tfolded',
    'no colon',
    ': no name',
    'Sp ace: x',
    'Nul: \0',
    'Umlaut: \xfc',
    'Cr: a\rb',
    'Lf: a\nX-B: c',
    '',
  ),
  fc.integer({ min: 3000, max: 5000 }).map((bytes) => `X-Long: ${'x'.repeat(bytes)}`),
);

interface Drawn {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly key: string;
  readonly type: string;
  readonly body: string;
  readonly slip: number;
  readonly chunked: boolean;
  readonly more: readonly string[];
  readonly order: number;
}

const REQUEST = fc
  .record<Drawn>({
    method: mostly(fc.constant('POST'), fc.constantFrom('GET', 'OPTIONS', 'post', 'PUT')),
    target: mostly(
      fc.constantFrom(...PATHS),
      fc.constantFrom(
        '/event/outcome?x=1',
        'http://h/event/outcome',
        '/',
        '/event/none',
        '/event/Outcome',
        '*',
      ),
    ),
    version: mostly(fc.constant('HTTP/1.1'), fc.constantFrom('HTTP/1.0', 'HTTP/2.0', 'http/1.1')),
    key: mostly(fc.constantFrom('one', 'two'), fc.constant('unknown')),
    type: mostly(
      fc.constant('application/json'),
      fc.constantFrom('application/json; charset=utf-8', 'text/plain'),
    ),
    body: fc.oneof(
      fc.string({ maxLength: 60, unit: 'grapheme' }),
      fc.integer({ min: 900, max: 1040 }).map((bytes) => 'x'.repeat(bytes)),
      fc.constantFrom('', 'conflict', 'POST /event/outcome HTTP/1.1\r\n\r\n'),
    ),
    slip: mostly(fc.constant(0), fc.constantFrom(-1, 1, 7)),
    chunked: mostly(fc.constant(false), fc.constant(true)),
    more: fc
      .tuple(
        fc.array(HARMLESS, { maxLength: 2 }),
        mostly(fc.constant<string[]>([]), fc.array(ODD, { minLength: 1, maxLength: 2 })),
      )
      .map((both) => both.flat()),
    order: fc.nat(),
  })
  .map(({ method, target, version, key, type, body, slip, chunked: asked, more, order }) => {
    const bytes = Buffer.from(body);
    // Whether one that is too large is seen whole before it is refused hangs on how it is cut.
    const chunked = asked && bytes.length <= 1024;
    const framing = chunked
      ? 'Transfer-Encoding: chunked'
      : `Content-Length: ${Math.max(0, bytes.length + slip)}`;
    const lines = ['Host: h', `X-API-Key: ${key}`, `Content-Type: ${type}`, framing];
    for (const one of more) lines.splice(order % (lines.length + 1), 0, one);
    const head = Buffer.from(`${method} ${target} ${version}\r\n${lines.join('\r\n')}\r\n\r\n`, 'latin1');
    const piece = `${bytes.length.toString(16)}\r\n${bytes.toString('latin1')}\r\n`;
    return Buffer.concat([
      head,
      chunked ? Buffer.from(`${bytes.length > 0 ? piece : ''}0\r\n\r\n`, 'latin1') : bytes,
    ]);
  });

/**
 * A request with a byte of its head changed, taken away or added. Not of its body: the size of a chunk could then reach
 * beyond what a body may have, and whether such a one is seen whole hangs on how it is cut.
 */
const SPOILT = fc
  .tuple(REQUEST, fc.nat(), fc.constantFrom('set', 'cut', 'add'), fc.integer({ min: 0, max: 255 }))
  .map(([bytes, at, how, byte]) => {
    const place = at % (bytes.indexOf('\r\n\r\n') + 4);
    const rest = bytes.subarray(how === 'add' ? place : place + 1);
    return Buffer.concat([
      bytes.subarray(0, place),
      how === 'cut' ? Buffer.alloc(0) : Buffer.from([byte]),
      rest,
    ]);
  });

interface Talk {
  /** What is sent, one after the other when the listener has done what it can with those before. */
  readonly pieces: readonly Buffer[];
  readonly waits: boolean;
}

/** A client with a key may send before it is answered; from others such data is dropped, depending on time. */
const PROOF = Buffer.from(
  'POST /event/outcome HTTP/1.1\r\nHost: h\r\nX-API-Key: one\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}',
);

const TALK: fc.Arbitrary<Talk> = fc
  .record({
    requests: fc.array(mostly(REQUEST, SPOILT), { minLength: 1, maxLength: 4 }),
    isProven: mostly(fc.constant(true), fc.constant(false)),
    cuts: fc.oneof(fc.constant<number[]>([]), fc.array(fc.nat(), { maxLength: 3 })),
    isWhole: fc.boolean(),
    waits: mostly(fc.constant(false), fc.constant(true)),
  })
  .map(({ requests, isProven, cuts, isWhole, waits }) => {
    const all = Buffer.concat(requests);
    if (!isProven) return { pieces: [all], waits };
    let end = 0;
    const ends = isWhole ? [] : requests.map(({ length }) => (end += length));
    const at = [0, ...ends, ...cuts.map((cut) => cut % all.length), all.length].sort((a, b) => a - b);
    const pieces = at.slice(1).map((to, i) => all.subarray(at[i], to));
    return { pieces: [PROOF, ...pieces.filter(({ length }) => length > 0)], waits };
  });

interface Said {
  readonly answers: readonly string[];
  /** Before the client ends its side. */
  readonly isOpen: boolean;
}

/**
 * What does not hang on how the bytes were cut on their way to Node's parser. Of what is put back into the socket it
 * sees more at once: so it may end the connection behind an answer where it would have answered the garbage behind it
 * too, and may keep one whose refused body it has seen the end of.
 */
function essence({ answers, isOpen }: Said): Said {
  const last = answers.at(-1) ?? '';
  const isKept = isOpen && !last.includes('\r\nConnection: close\r\n');
  if (isKept && last.startsWith('HTTP/1.1 201')) return { answers, isOpen };
  const given = answers.length > 1 && last.includes('"malformed_request"') ? answers.slice(0, -1) : answers;
  const end = (given.at(-1) ?? '').replace(/Connection: .*\r\n(Keep-Alive: .*\r\n)?/, '');
  return { answers: [...given.slice(0, -1), end], isOpen: false };
}

async function collector(hasShortcut: boolean) {
  Listener.hasShortcut = hasShortcut;
  const { ledger, port } = await collectorWithoutLedger(1024);
  Listener.hasShortcut = true;
  let stored: string[] = [];
  const work = (): boolean => {
    const before = stored.length;
    for (let event = ledger.take(); event; event = ledger.take()) {
      const body = event.salted.subarray(SALT_BYTES).toString('latin1');
      stored.push(`${event.organisation} ${event.keyId} ${event.kind} ${event.door} ${body}`);
      ledger.answer(body === 'conflict' ? 'conflict' : 'accepted');
    }
    ledger.send();
    return stored.length > before;
  };
  /** Until it has read what was sent, unless it wants nothing more, and has done what it can with that. */
  const rest = async (socket: net.Socket, received: readonly Buffer[]): Promise<void> => {
    const { bytesWritten } = socket;
    const isRead = (): boolean => {
      const end = ACCEPTED.get(between(socket.localPort, port));
      if (end === undefined) return socket.destroyed;
      return end.destroyed || end.isPaused() || end.bytesRead >= bytesWritten;
    };
    for (let [quiet, came] = [0, received.length]; quiet < QUIET_TURNS; quiet++) {
      await turn();
      if (work() || received.length > came || !isRead()) [quiet, came] = [0, received.length];
    }
  };
  const talk = async ({ pieces, waits }: Talk): Promise<Said> => {
    const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const received: Buffer[] = [];
    const over = new Promise<void>((resolve) => {
      socket.on('data', (chunk: Buffer) => received.push(chunk));
      // A reset may overtake an answer, so it counts as an end.
      socket
        .on('error', () => undefined)
        .on('end', resolve)
        .on('close', () => resolve());
    });
    await once(socket, 'connect');
    const here = between(socket.localPort, port);
    for (const piece of pieces) {
      socket.write(piece);
      await rest(socket, received);
      if (waits) await sleep(PATIENCE_MS + 2);
    }
    // After a refusal the connection is paused.
    await Promise.all([sleep(RESTING_MS), rest(socket, received)]);
    await rest(socket, received);
    const isOpen = socket.readyState === 'open';
    socket.end();
    for (let isOver = false; !isOver;)
      isOver = await Promise.race([over.then(() => true), rest(socket, received).then(() => false)]);
    ACCEPTED.delete(here);
    socket.destroy();
    const text = Buffer.concat(received).toString('latin1');
    const answers = text.replaceAll(/X-Request-Id: \w+\r\n|Date: [^\r]+\r\n/g, '').split(/(?=HTTP\/1\.1 \d)/);
    return { answers, isOpen };
  };
  return async (talks: readonly Talk[]) => {
    const said = await Promise.all(talks.map(talk));
    const events = stored.sort();
    stored = [];
    return { said: said.map(essence), events };
  };
}

test.each([true, false])(
  '[R-1880] an event came by import if its sender says so, and otherwise by an endpoint: shortcut %s',
  async (has) => {
    const talk = await collector(has);
    const said = [
      'X-Event-Door: import',
      'x-event-door: otlp',
      'X-Event-Door: Import',
      'X-Event-Doors: import',
      'X-A: b',
    ];
    const request = (header: string) =>
      Buffer.from(
        `POST /event/outcome HTTP/1.1\r\nHost: h\r\nX-API-Key: one\r\nContent-Type: application/json\r\n${header}\r\nContent-Length: ${header.length}\r\n\r\n${header}`,
      );
    // The second of a kind is read by the head of the first.
    const pieces = said.flatMap((header) => [request(header), request(header)]);
    const { events } = await talk([{ pieces, waits: false }]);
    expect(events).toEqual(
      said
        .flatMap((header) => {
          const event = `default one outcome ${header === said[0] ? 'import' : 'endpoint'} ${header}`;
          return [event, event];
        })
        .sort(),
    );
    const twice = request(`${said[0] ?? ''}\r\n${said[0] ?? ''}`);
    expect((await talk([{ pieces: [twice], waits: false }])).said[0]?.answers[0]).toContain(
      'malformed_request',
    );
  },
);

test('[R-410] plain and odd requests, cut anywhere, are answered and stored the same with and without the shortcut', async () => {
  const [withIt, without] = [await collector(true), await collector(false)];
  let events = 0;
  const several = fc.array(TALK, { minLength: AT_A_TIME, maxLength: AT_A_TIME });
  const property = fc.asyncProperty(several, async (talks) => {
    const [actual, expected] = await Promise.all([withIt(talks), without(talks)]);
    expect(actual).toEqual(expected);
    events += expected.events.length;
  });
  await fc.assert(property, {
    numRuns: runs(800, 30),
    interruptAfterTimeLimit: 8 * 60_000,
  });
  expect(events).toBeGreaterThan(1000);
});
