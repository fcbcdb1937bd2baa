import { hash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { EVENT_KINDS } from '@clinical-events/protocol';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  launch,
  run,
  start,
  storedEvents,
  temporaryDirectory,
  type PrintedEvent,
  type Running,
} from '../running/collector-process.js';
import { Authority, writePair } from '../running/certificates.js';
import { issueKey } from '../running/issued-keys.js';
import { outcomeOfSize, outcomeText, sampleEvent } from '../running/sample-events.js';

let scratch: string;
let dataDir: string;
let key: string;
let keyFile: string;
let collector: Running;

beforeEach(async () => {
  scratch = temporaryDirectory();
  dataDir = path.join(scratch, 'data');
  fs.mkdirSync(dataDir, { mode: 0o700 });
  key = (await issueKey(dataDir)).text;
  keyFile = path.join(scratch, 'key');
  fs.writeFileSync(keyFile, `${key}\n`);
  collector = await start(dataDir);
  onTestFinished(async () => {
    await collector.kill();
    fs.rmSync(scratch, { recursive: true, force: true });
  });
});

/** A file of lines, each ended by a line feed. */
function file(lines: readonly (string | Buffer)[], name = 'events.ndjson'): string {
  const made = path.join(scratch, name);
  fs.writeFileSync(made, Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from('\n')])));
  return made;
}

/** The words of a command that sends to the collector. */
function words(...args: readonly string[]): string[] {
  return ['import', '--url', collector.url, '--key', `@${keyFile}`, ...args];
}

function importFiles(...args: readonly string[]) {
  return run(words(...args));
}

interface Told {
  readonly complete: boolean;
  readonly lines: number;
  readonly stored: number;
  readonly refused: number;
  readonly refused_by_code: Readonly<Record<string, number>>;
  readonly rejects: string | null;
}

/** Imports, and parses the report. */
async function told(...args: readonly string[]): Promise<Told & { code: number | null }> {
  const { code, stdout, stderr } = await importFiles(...args, '--json');
  if (stdout === '') throw new Error(`exit code ${code}: ${stderr}`);
  return { code, ...(JSON.parse(stdout) as Told) };
}

function rejectsIn(name: string): Record<string, unknown>[] {
  const lines = fs.readFileSync(name, 'utf8').split('\n');
  expect(lines.pop()).toBe('');
  const rejects = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return rejects.toSorted((a, b) => Number(a['line']) - Number(b['line']));
}

function outcomes(count: number): string[] {
  return Array.from({ length: count }, (_, i) => outcomeText(String(i)));
}

async function storedBodies(): Promise<string[]> {
  return (await storedEvents(dataDir)).map(({ body }) => body);
}

const byText = (list: readonly string[]) => list.toSorted();

describe('collector import [R-714]', () => {
  test('stores the events of another log with their exact texts, also again and from a pipe', async () => {
    const id = randomUUID();
    const odd = outcomeText('[1.0, 12345678901234567890, 1e400, "\\u00e9é\u2028\u007f\\/"]', id);
    const texts = [
      ...EVENT_KINDS.map((kind) => [kind, JSON.stringify(sampleEvent(kind), undefined, '\t')] as const),
      ['outcome', ` ${odd}\r\n`] as const,
    ];
    const lines = texts.map(([kind, text]) => JSON.stringify({ kind, body: text }));
    expect(await told(file(lines))).toMatchObject({ code: 0, complete: true, lines: 6, stored: 6 });
    const printed = await run(['events', '--data-dir', dataDir]);
    const essence = ({ kind, event_id, sha256, body }: PrintedEvent) => ({ kind, event_id, sha256, body });
    const before = (await storedEvents(dataDir)).map(essence);
    expect(byText(before.map(({ body }) => body))).toEqual(byText(texts.map(([, text]) => text)));

    const result = await told(file(printed.stdout.trimEnd().split('\n'), 'printed.ndjson'));
    expect(result).toMatchObject({
      ...{ code: 0, stored: 6, refused: 0, rejects: null },
      files: [{ bytes: Buffer.byteLength(printed.stdout), sha256: hash('sha256', printed.stdout) }],
    });
    const piped = launch(words('-', '--json'));
    piped.process.stdin?.end(printed.stdout);
    expect(await piped.exited).toBe(0);
    expect(JSON.parse(piped.output.stdout)).toMatchObject({ stored: 6, files: [{ file: '-' }] });
    expect((await storedEvents(dataDir)).map(essence)).toEqual(before);
    expect(fs.readdirSync(scratch).toSorted()).toEqual(['data', 'events.ndjson', 'key', 'printed.ndjson']);
  });

  test('[R-1880] stores "import" as the door, whatever door the events had in their first log', async () => {
    const lines = [outcomeText('1'), outcomeText('2')].map((body) =>
      JSON.stringify({ kind: 'outcome', door: 'otlp', body }),
    );
    const [first = '', ...rest] = lines;
    expect(await told(file([first]))).toMatchObject({ code: 0, stored: 1 });
    const posted = outcomeText('3');
    const headers = { 'Content-Type': 'application/json', 'X-API-Key': key };
    const answer = await fetch(`${collector.url}/event/outcome`, { method: 'POST', headers, body: posted });
    expect(answer.status).toBe(201);
    expect(await told(file(rest))).toMatchObject({ code: 0, stored: 1 });
    const stored = await storedEvents(dataDir);
    expect(stored.map(({ door }) => door)).toEqual(['import', 'endpoint', 'import']);
  });

  test('accepts events without wrappers with --kind, with any line ends and a byte order mark', async () => {
    const [one, two, three] = outcomes(3) as [string, string, string];
    const input = file([`\ufeff${one}\r`, '', '  ', two]);
    fs.appendFileSync(input, three);
    expect(await told(input, '--kind', 'outcome')).toMatchObject({ code: 0, lines: 5, empty: 2, stored: 3 });
    expect(byText(await storedBodies())).toEqual(byText([one, two, three]));
  });

  test('refuses faulty lines and stores all others; the reject file has what is needed to correct them', async () => {
    const [good, known] = [outcomeText('1'), outcomeText('"before"')];
    expect((await told(file([known], 'known'), '--kind', 'outcome')).code).toBe(0);
    const faulty = outcomeText('"MRN zwiebelkuchen"').replace(
      '"outcome":{}',
      '"outcome":"MRN zwiebelkuchen"',
    );
    const lines = [
      good,
      faulty,
      known,
      known.replace('before', 'MRN zwiebelkuchen'),
      'MRN zwiebelkuchen',
      good.slice(0, 50),
    ];
    const input = file([...lines, Buffer.from([0x7b, 0xff]), outcomeOfSize((1 << 20) + 1)]);
    const { code, stdout, stderr } = await importFiles(input, '--kind', 'outcome');
    expect(code).toBe(7);
    expect(stdout).toContain('8 lines of 1 file read: 2 events stored, 6 refused.\n');
    expect(stdout).toContain(`see ${input}.rejects.ndjson. It contains patient data`);
    expect(stdout + stderr).not.toContain('zwiebelkuchen');
    const rejects = rejectsIn(`${input}.rejects.ndjson`);
    expect(fs.statSync(`${input}.rejects.ndjson`).mode & 0o777).toBe(0o600);
    const idOf = (text: string) => (JSON.parse(text) as { event_id: string }).event_id;
    const faultyId = { file: input, event_id: idOf(faulty), outcome: 'rejected', text: faulty };
    expect(rejects).toMatchObject([
      { line: 2, code: 'validation_failed', ...faultyId },
      { line: 4, code: 'event_id_conflict', event_id: idOf(known), outcome: 'conflict', text: lines[3] },
      { line: 5, code: 'invalid_json', outcome: 'rejected', text: 'MRN zwiebelkuchen' },
      { line: 6, code: 'invalid_json', outcome: 'rejected', text: lines[5] },
      { line: 7, code: 'invalid_encoding', outcome: 'rejected', text_base64: 'e/8=' },
      { line: 8, code: 'body_too_large', outcome: 'rejected' },
    ]);
    expect(rejects[0]).toMatchObject({ details: { issues: [{ pointer: '/outcome', rule: 'type' }] } });
    // Only the text of a reject may have content of the line.
    for (const reject of rejects)
      expect(JSON.stringify({ ...reject, text: '' })).not.toContain('zwiebelkuchen');

    // The reject file is not overwritten.
    const again = await importFiles(input, '--kind', 'outcome');
    expect(again).toMatchObject({ code: 2, stdout: '' });
    expect(again.stderr).toContain('Move it away first');
    const text = String(rejects[0]?.['text']).replace('"outcome":"MRN zwiebelkuchen"', '"outcome":{}');
    expect(await told(file([text], 'corrected'), '--kind', 'outcome')).toMatchObject({ code: 0, stored: 1 });
    expect(await storedEvents(dataDir)).toHaveLength(3);
  });

  test('[R-714] refuses a line that contradicts its wrapper or is for another organisation, and does not send it', async () => {
    const event = outcomeText('1');
    const id = (JSON.parse(event) as { event_id: string }).event_id;
    const [other, wrap] = [randomUUID(), (more: object) => JSON.stringify({ kind: 'outcome', ...more })];
    const sha256 = hash('sha256', event);
    const input = file([
      ...[wrap({ body: event, organisation: 'ward-7' }), wrap({ body: event, organisation: 'a b' })],
      ...[wrap({ body: event, sha256: hash('sha256', 'x') }), wrap({ body: event, event_id: other })],
      ...[
        event,
        JSON.stringify({ kind: 'outcomes', body: event }),
        wrap({ body: null }),
        wrap({ event: [] }),
      ],
      wrap({ body: event, event: {} }),
      wrap({ body: outcomeText('"\ud800"') }),
      // These agree with their wrappers, whatever members another log added.
      wrap({ body: event, organisation: 'default', sha256, event_id: id, profile: 'full', key_id: 'k' }),
      `{"event":${event},"organisation":null,"event_id":"${id.toUpperCase()}","kind":"outcome"}`,
    ]);
    expect(await told(input)).toMatchObject({ code: 7, stored: 2, refused: 10 });
    const reasons = rejectsIn(`${input}.rejects.ndjson`).map(({ code, details }) => {
      const [issue] = (details as { issues?: { pointer: string; rule: string }[] } | undefined)?.issues ?? [];
      return issue === undefined ? code : `${issue.pointer} ${issue.rule}`;
    });
    expect(reasons).toEqual([
      ...['/organisation const', '/organisation pattern', 'sha256_mismatch', '/event_id const'],
      ...['kind_missing', '/kind enum', '/body required', '/event type', '/event not', 'invalid_encoding'],
    ]);
    expect(await storedBodies()).toEqual([event]);

    const ward = file([wrap({ body: event, organisation: 'ward-7' })], 'ward.ndjson');
    expect(await told(ward, '--organisation', 'ward-7')).toMatchObject({ code: 0, stored: 1 });
  });

  test('does not hold a line in memory that is larger than any event', async () => {
    const importing = launch(words('-', '--kind', 'outcome', '--json'), { cwd: scratch });
    const { process: child, exited, output } = importing;
    const stdin = child.stdin;
    if (stdin === null) throw new Error('no standard input');
    const write = async (piece: string | Buffer) => {
      if (!stdin.write(piece)) await new Promise((resolve) => stdin.once('drain', resolve));
    };
    const [first, last] = [outcomeText('1'), outcomeText('2')];
    await write(`${first}\n`);
    const megabyte = Buffer.alloc(1 << 20, 'x');
    for (let i = 0; i < 320; i++) await write(megabyte);
    const peak = /VmHWM:\s+(\d+) kB/.exec(fs.readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1];
    expect(Number(peak) / 1024).toBeLessThan(300);
    stdin.end(`\n${last}\n`);
    expect(await exited).toBe(7);
    expect(JSON.parse(output.stdout)).toMatchObject({ stored: 2, refused_by_code: { body_too_large: 1 } });
    expect(rejectsIn(path.join(scratch, 'stdin.rejects.ndjson'))).toEqual([
      {
        ...{ file: '-', line: 2, code: 'body_too_large', outcome: 'rejected' },
        details: { bytes: 320 << 20, offset: first.length + 1 },
      },
    ]);
  });

  test('sends events of one id in the order of their lines', async () => {
    const ids = Array.from({ length: 20 }, () => randomUUID());
    const first = ids.map((id) => outcomeText('"first"', id));
    const input = file([
      ...first,
      ...ids.flatMap((id) => [outcomeText('"second"', id), outcomeText('"first"', id)]),
    ]);
    expect(await told(input, '--kind', 'outcome')).toMatchObject({
      ...{ code: 7, stored: 40, refused_by_code: { event_id_conflict: 20 } },
    });
    expect(byText(await storedBodies())).toEqual(byText(first));
  });

  test('adds the offset of a zone to timestamps on request, and records that in the event', async () => {
    const [good, summer, twice] = outcomes(3) as [string, string, string];
    const lines = [
      good,
      summer.replace('2026-03-04T05:06:07Z', '2026-07-01 10:00:00.250'),
      twice.replace('2026-03-04T05:06:07Z', '2026-10-25T02:30:00'),
    ];
    const input = file(lines);
    const fixing = [input, '--kind', 'outcome', '--fix', 'timestamps=Europe/Berlin'];
    expect(await told(...fixing)).toMatchObject({ code: 0, stored: 3, fixed: 2 });
    const stored = await storedBodies();
    expect(stored).toContain(good);
    const fixed = stored.filter((body) => body !== good).map((body) => JSON.parse(body) as { extra: number });
    expect(fixed.toSorted((a, b) => a.extra - b.extra)).toMatchObject([
      {
        timestamp: '2026-07-01T10:00:00.250+02:00',
        import_fixes: [{ pointer: '/timestamp', original: '2026-07-01 10:00:00.250', zone: 'Europe/Berlin' }],
      },
      { timestamp: '2026-10-25T02:30:00+02:00', import_fixes: [{ clock_change: 'overlap' }] },
    ]);
    // The same import again is a repeat; in another zone the events are others.
    expect(await told(...fixing)).toMatchObject({ code: 0, stored: 3 });
    const elsewhere = await told(input, '--kind', 'outcome', '--fix', 'timestamps=+00:00');
    expect(elsewhere).toMatchObject({ code: 7, refused_by_code: { event_id_conflict: 2 } });
    expect(rejectsIn(`${input}.rejects.ndjson`)[0]).toMatchObject({ outcome: 'conflict', text: lines[1] });
  });

  test('is refused if its reject file is a link', async () => {
    const input = file(outcomes(1));
    fs.symlinkSync(path.join(scratch, 'elsewhere'), `${input}.rejects.ndjson`);
    const { code, stderr } = await importFiles(input, '--kind', 'outcome');
    expect(code).toBe(2);
    expect(stderr).toContain('is a link and was not followed');
    expect(fs.readdirSync(scratch)).not.toContain('elsewhere');
    expect(await storedEvents(dataDir)).toEqual([]);
  });

  test('stops when it is interrupted, reports what is stored, and continues when it is run again', async () => {
    const lines = outcomes(10);
    const importing = launch(words('-', '--kind', 'outcome', '--json'), { cwd: scratch });
    onTestFinished(() => void importing.process.kill('SIGKILL'));
    importing.process.stdin?.write(`${lines.slice(0, 4).join('\n')}\n`);
    await expect.poll(() => storedEvents(dataDir)).toHaveLength(4);
    importing.process.kill('SIGINT');
    expect(await importing.exited).toBe(130);
    expect(JSON.parse(importing.output.stdout)).toMatchObject({ complete: false, stored: 4 });
    expect(importing.output.stderr).toContain('stopped by SIGINT; 4 events are stored');
    expect(await told(file(lines), '--kind', 'outcome')).toMatchObject({ code: 0, stored: 10 });
    expect(byText(await storedBodies())).toEqual(byText(lines));
  });

  test('refuses invalid arguments, and does nothing', async () => {
    file(outcomes(1));
    file([], 'packed.ndjson.gz');
    for (const [code, args, message] of [
      [6, ['none.ndjson'], 'none.ndjson'],
      [2, ['.'], 'is a directory'],
      [2, ['-', '-'], 'only once'],
      [2, ['packed.ndjson.gz'], 'is compressed'],
      [2, ['events.ndjson', '--kind', 'outcomes'], 'is not one of'],
      [2, ['events.ndjson', '--organisation', 'a b'], '--organisation'],
      [2, ['events.ndjson', '--fix', 'timestamps'], '--fix'],
      [2, ['events.ndjson', '--fix', 'timestamps=Berlin'], 'Europe/Berlin'],
      [2, ['-', '--key', '-'], 'standard input holds the events'],
      [2, ['events.ndjson', '--url', 'ftp://x'], '--url'],
      [2, [], 'file'],
    ] as const) {
      const inScratch = (word: string) =>
        /^(\.|.*\.ndjson(\.gz)?)$/.test(word) ? path.join(scratch, word) : word;
      const ended = await importFiles(...args.map(inScratch));
      expect(ended, message).toMatchObject({ code, stdout: '' });
      expect(ended.stderr).toContain(message);
    }
    expect(fs.readdirSync(scratch).toSorted()).toEqual(['data', 'events.ndjson', 'key', 'packed.ndjson.gz']);
    expect(await storedEvents(dataDir)).toEqual([]);
  });
});

describe('an import [R-714]', () => {
  test('sends nothing and leaves no file if there is no collector, or if it refuses the key', async () => {
    const input = file(outcomes(1));
    const away = await run(['import', input, '--url', 'http://127.0.0.1:9', '--key', `@${keyFile}`]);
    expect(away).toMatchObject({ code: 6, stdout: '' });
    expect(away.stderr).toContain('no collector answers at http://127.0.0.1:9/ (ECONNREFUSED)');
    const site = await listening(() => undefined, [404, 404]);
    const elsewhere = await run(['import', input, '--url', site.url, '--key', `@${keyFile}`]);
    expect(elsewhere).toMatchObject({ code: 6, stdout: '' });
    expect(elsewhere.stderr).toContain('status 404');
    expect(site.keys).toEqual([undefined]);

    const strange = (await issueKey(path.join(scratch, 'other'))).text;
    const env = { COLLECTOR_URL: collector.url, COLLECTOR_KEY: strange };
    const wrong = await run(['import', input, '--kind', 'outcome'], { env });
    expect(wrong).toMatchObject({ code: 2, stdout: '' });
    expect(wrong.stderr).toContain('refuses the key: key_invalid');
    const none = await run(['import', input, '--url', collector.url]);
    expect(none.stderr).toContain('--key: give @FILE, or the key in COLLECTOR_KEY');
    const open = await run(['import', input, '--key', key]);
    expect(open).toMatchObject({ code: 2 });
    expect(open.stderr).not.toContain(key);
    expect(fs.readdirSync(scratch)).not.toContain('events.ndjson.rejects.ndjson');
    expect(await storedEvents(dataDir)).toEqual([]);
    expect(
      (await run(['import', input, '--kind', 'outcome'], { env: { ...env, COLLECTOR_KEY: key } })).code,
    ).toBe(0);
  });

  test('stops if the key may not send a kind, and reports that', async () => {
    const outcome = await issueKey(dataDir, { permissions: ['outcome'] });
    fs.writeFileSync(keyFile, outcome.text);
    const feedback = JSON.stringify({ kind: 'user-feedback', event: sampleEvent('user-feedback') });
    let ended = { code: 0 as number | null, stderr: '' };
    // A collector reads new keys within a second.
    await expect
      .poll(async () => (ended = await importFiles(file([feedback]))).stderr)
      .toContain('permission_denied');
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('permission_denied; 0 events are stored');
  });

  test('waits at a rate limit, and has sent all events at the end', async () => {
    const limited = await issueKey(dataDir, { rateLimit: { perSecond: 100, burst: 20 } });
    fs.writeFileSync(keyFile, limited.text);
    const lines = outcomes(150);
    const input = file(lines);
    await expect.poll(async () => (await importFiles(input, '--kind', 'outcome')).code).toBe(0);
    expect(byText(await storedBodies())).toEqual(byText(lines));
  });

  test('sends each line again until it is stored, after broken connections, cut answers and overload', async () => {
    let asked = 0;
    const failures = [
      (_: unknown, response: http.ServerResponse) => response.destroy(),
      (_: unknown, response: http.ServerResponse) => {
        response.writeHead(201, { 'Content-Length': 21 });
        response.write('{"status"', () => response.destroy());
      },
      (_: unknown, response: http.ServerResponse) => response.writeHead(503, { 'Retry-After': 0 }).end(),
      (_: unknown, response: http.ServerResponse) => response.writeHead(201).end('{"status":"fine"}'),
      (_: unknown, response: http.ServerResponse) => response.writeHead(502).end('<html>'),
    ];
    const seen: string[] = [];
    const site = await listening((body, response) => {
      const failure = failures[asked++];
      if (failure !== undefined) {
        failure(body, response);
        return;
      }
      seen.push(body);
      // Without Content-Length: in chunks.
      response.writeHead(201);
      response.write('{"status":');
      response.end('"accepted"}');
    });
    const lines = outcomes(12);
    const ended = await run([
      ...['import', file(lines), '--kind', 'outcome', '--url', site.url, '--key', `@${keyFile}`],
    ]);
    expect(ended, ended.stderr).toMatchObject({ code: 0 });
    expect(byText(seen)).toEqual(byText(lines));
  });

  test('sends nothing over HTTPS unless the certificate is trusted', async () => {
    const authority = new Authority();
    const tls = writePair(scratch, authority.issue({ commonName: 'localhost', names: ['localhost'] }));
    const ca = path.join(scratch, 'ca.crt');
    fs.writeFileSync(ca, authority.certificate);
    await collector.stop();
    collector = await start(dataDir, tls);
    const url = `https://localhost:${collector.port}`;
    const words = ['import', file(outcomes(300)), '--kind', 'outcome', '--url', url, '--key', `@${keyFile}`];
    const untrusted = await run(words);
    expect(untrusted).toMatchObject({ code: 6, stdout: '' });
    expect(untrusted.stderr).toContain(`no collector answers at ${url}/ (UNABLE_TO_`);
    const { code, stderr } = await run(words, { env: { NODE_EXTRA_CA_CERTS: ca } });
    expect([code, stderr]).toEqual([0, '']);
    expect(await storedEvents(dataDir)).toHaveLength(300);
  });

  test('refuses an event at which the collector fails repeatedly, and sends the others', async () => {
    const lines = outcomes(3);
    const site = await listening((body, response) => {
      if (body === lines[1]) response.writeHead(500).end('{"message":"no","code":"internal"}');
      else response.writeHead(201).end('{"status":"accepted"}');
    });
    const input = file(lines);
    const ended = await run([
      ...['import', input, '--kind', 'outcome', '--url', site.url, '--key', `@${keyFile}`],
    ]);
    expect(ended.code).toBe(7);
    expect(rejectsIn(`${input}.rejects.ndjson`)).toMatchObject([
      { line: 2, code: 'internal', outcome: 'unreadable', text: lines[1] },
    ]);
  });

  test('continues with the next collector at the address after a kill, and each event is stored once', async () => {
    const lines = outcomes(20_000);
    const importing = launch(words(file(lines), '--kind', 'outcome'));
    onTestFinished(() => void importing.process.kill('SIGKILL'));
    await expect.poll(async () => (await storedEvents(dataDir)).length).toBeGreaterThan(500);
    await collector.kill();
    const { port } = collector;
    collector = await start(dataDir, ['--port', String(port)]);
    expect(await importing.exited, importing.output.stderr).toBe(0);
    expect(byText(await storedBodies())).toEqual(byText(lines));
  });

  test('that was killed is run again, and each event is stored once', async () => {
    const lines = outcomes(20_000);
    const input = file(lines);
    const importing = launch(words(input, '--kind', 'outcome'));
    await expect.poll(async () => (await storedEvents(dataDir)).length).toBeGreaterThan(500);
    importing.process.kill('SIGKILL');
    await importing.exited;
    expect(await told(input, '--kind', 'outcome')).toMatchObject({ code: 0, stored: 20_000 });
    expect(byText(await storedBodies())).toEqual(byText(lines));
  });
});

/**
 * A server that answers events as the test says.
 * @param asked the statuses of the question whether this is a collector, without a key and with one.
 */
async function listening(
  answer: (body: string, response: http.ServerResponse) => unknown,
  asked: readonly [number, number] = [401, 415],
) {
  const keys: (string | undefined)[] = [];
  const server = http.createServer((request, response) => {
    const given = request.headers['x-api-key'] as string | undefined;
    keys.push(given);
    let body = '';
    request.setEncoding('utf8').on('data', (piece: string) => (body += piece));
    request.on('end', () => {
      if (request.headers['content-type'] === 'application/json') answer(body, response);
      else response.writeHead(asked[given === undefined ? 0 : 1]).end('<html>');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { keys, url: `http://127.0.0.1:${(server.address() as { port: number }).port}` };
}
