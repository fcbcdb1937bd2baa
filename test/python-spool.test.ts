/** The clients for Node and Python on one spool: each shows, sends and requeues the events of the other. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { answer, fakeCollector } from '../packages/client/test/running/fake-collector.js';
import { temporaryDirectory } from '../packages/client/test/running/hurried-client.js';
import { realCollector } from '../packages/client/test/running/real-collector.js';
import { caseOf, laidOut, NAMES } from '../packages/client/test/spool/corpus.js';
import { openSpool } from '../packages/client/src/spool/disk-spool.js';
import { hasPython } from './python.js';

const ROOT = path.resolve(import.meta.dirname, '..');
const NODE_COMMAND = path.join(ROOT, 'packages/client/dist/cli/main.js');
const SOURCES = path.join(ROOT, 'clients/python/src');

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

async function ended(program: string, args: readonly string[], input = ''): Promise<Ended> {
  const env = { PATH: process.env['PATH'], PYTHONPATH: SOURCES, COLLECTOR_KEY: 'key' };
  const child = spawn(program, args, { env });
  const said = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.stderr += text));
  child.stdin.on('error', () => undefined).end(input);
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, ...said };
}

const COMMANDS = {
  node: (...args: readonly string[]) => ended(process.execPath, [NODE_COMMAND, ...args]),
  python: (...args: readonly string[]) =>
    ended('python3', [
      '-c',
      'import sys; from clinical_events._command import main; sys.exit(main())',
      ...args,
    ]),
};
type Language = keyof typeof COMMANDS;
const OTHER: Readonly<Record<Language, Language>> = { node: 'python', python: 'node' };

/** Runs the commands of lines of standard input one after the other, in one process. */
const MANY = `
import contextlib, io, json, sys
from clinical_events._command import main
for line in sys.stdin:
    out = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out):
        code = main(json.loads(line))
    print(json.dumps([code, out.buffer.getvalue().decode()]), flush=True)
`;
/** Appends the bodies that standard input has, one a line, and ends as a killed process does. */
const WRITE = `
import os, sys
from clinical_events._spool import Spool
spool = Spool(sys.argv[1], on_trouble=print)
for number, line in enumerate(sys.stdin.buffer):
    spool.append([(number % 5, 1800000000000 + number, line.rstrip(b"\\n"))])
os._exit(0)
`;
/** Holds a spool with one event until standard input ends. */
const HOLD = `
import sys
from clinical_events._spool import Spool
spool = Spool(sys.argv[1], on_trouble=print)
spool.append([(3, 1800000000000, b"{}")])
print("held", flush=True)
sys.stdin.read()
`;
const KINDS = ['inference-start', 'internal-artifact', 'human-output', 'outcome', 'user-feedback'] as const;

const WRITERS: Readonly<Record<Language, (directory: string, bodies: readonly string[]) => Promise<void>>> = {
  async node(directory, bodies) {
    const spool = await openSpool({ directory, durability: 'os' });
    for (const [number, body] of bodies.entries())
      await spool.append(KINDS[number % 5] as 'outcome', Buffer.from(body));
    await spool.close();
  },
  async python(directory, bodies) {
    const { code, stderr, stdout } = await ended('python3', ['-c', WRITE, directory], bodies.join('\n'));
    expect({ code, stderr, stdout }).toEqual({ code: 0, stderr: '', stdout: '' });
  },
};

const bodiesOf = (language: Language) =>
  Array.from({ length: 12 }, (_, n) =>
    JSON.stringify({ event_id: `${n}`, said: `${language}: Größe ≥ ${n} 😀` }),
  );

/** All that a command prints for scripts. */
async function json(language: Language, ...args: readonly string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await COMMANDS[language](...args, '--json');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as Record<string, unknown>;
}

const VIEWS = [['show'], ['show', '--check'], ['show', '--events', '--contents']] as const;

test.skipIf(!hasPython)(
  '[R-1720] collector-spool and clinical-events print the same for every spool of the corpus',
  async () => {
    const roots = await Promise.all(
      NAMES.map(async (name) => {
        const said = caseOf(name);
        const root = await laidOut(name, said);
        if (said.truncate)
          fs.truncateSync(path.join(root, said.truncate.file), (said.truncate.from + said.truncate.to) >> 1);
        return root;
      }),
    );
    const lines = roots.flatMap((root) =>
      VIEWS.map(([command, ...options]) => [command, root, '--json', ...options]),
    );
    const python = await ended(
      'python3',
      ['-c', MANY],
      lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
    );
    const printed = python.stdout.trimEnd().split('\n');
    expect(printed).toHaveLength(lines.length);
    let next = 0;
    const compare = async () => {
      for (let at = next++; at < lines.length; at = next++) {
        const { code, stdout } = await COMMANDS.node(...(lines[at] as readonly string[]));
        expect([
          NAMES[Math.floor(at / VIEWS.length)],
          ...(JSON.parse(printed[at] as string) as unknown[]),
        ]).toEqual([...[NAMES[Math.floor(at / VIEWS.length)], code, stdout]]);
      }
    };
    await Promise.all([compare(), compare()]);
  },
  480_000,
);

/** The result of a drain, with paths below the spool and without reasons, which differ by language. */
function drained(root: string, code: number | null, stdout: string): unknown {
  const said = (stdout === '' ? {} : JSON.parse(stdout.replaceAll(root, ''))) as { not_taken?: object[] };
  return { code, ...said, not_taken: said.not_taken?.map((part) => ({ ...part, why: 'so' })) };
}

test.skipIf(!hasPython)(
  '[R-1720] both commands drain every spool of the corpus alike',
  async () => {
    const keyFile = path.join(path.dirname(temporaryDirectory()), 'key');
    fs.writeFileSync(keyFile, 'key\n');
    // Some bodies of the corpus are no JSON.
    const server = http.createServer((request, response) => {
      request.resume().on('end', () => response.writeHead(201).end('{"status":"accepted"}'));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const layOut = (name: string) => laidOut(name, caseOf(name));
    // Without those that are watched for three minutes first, and those with a key, which Python lacks.
    const names = NAMES.filter((name) => !caseOf(name).expect.watched && caseOf(name).key === undefined);
    const roots = await Promise.all(names.map(layOut));
    const line = (root: string) => ['drain', root, '--json', '--url', url, '--api-key-file', keyFile];
    const python = await ended(
      'python3',
      ['-c', MANY],
      roots.map((root) => `${JSON.stringify(line(root))}\n`).join(''),
    );
    const printed = python.stdout.trimEnd().split('\n');
    expect(printed).toHaveLength(names.length);
    let next = 0;
    const compare = async () => {
      for (let at = next++; at < names.length; at = next++) {
        const root = await layOut(names[at] as string);
        const { code, stdout } = await COMMANDS.node(...line(root));
        const [exit, text] = JSON.parse(printed[at] as string) as [number, string];
        expect([names[at], drained(roots[at] as string, exit, text)]).toEqual([
          names[at],
          drained(root, code, stdout),
        ]);
      }
    };
    await Promise.all([compare(), compare()]);
  },
  480_000,
);

test.skipIf(!hasPython).each(['node', 'python'] as const)(
  '[R-1720] events of %s are sent by the other client, and those it quarantines are requeued',
  async (language) => {
    const other = OTHER[language];
    const directory = temporaryDirectory();
    const bodies = bodiesOf(language);
    await WRITERS[language](directory, bodies);
    expect(await json(other, 'show', directory)).toEqual(await json(language, 'show', directory));
    const fake = await fakeCollector((event, response) =>
      Number(event.event.event_id) % 3 === 0
        ? answer(response, 400, { code: 'validation_failed', message: 'ü', details: [{ pointer: '/said' }] })
        : false,
    );
    const sent = await COMMANDS[other]('drain', directory, '--url', fake.url, '--json');
    expect(sent.stderr).toBe('');
    expect(sent.code).toBe(7);
    expect(JSON.parse(sent.stdout)).toEqual({
      ...{ found: 12, sent: 8, erased: 0, waiting: 0, refused: 4, in_quarantine: 4, held_by_others: 0 },
      ...{ not_taken: [], cut: 0, damaged: { bytes: 0, missing_events: 0, files: [] }, cause: null },
    });
    const texts = () => fake.accepted.map(({ text }) => text).sort();
    expect(texts()).toEqual(bodies.filter((_, n) => n % 3 !== 0).sort());
    expect(
      fake.accepted.every(({ path: at, apiKey, event }) => {
        return apiKey === 'key' && at === `/event/${KINDS[Number(event.event_id) % 5]}`;
      }),
    ).toBe(true);
    expect(await json(other, 'show', directory)).toEqual(await json(language, 'show', directory));
    expect(await json(language, 'requeue', directory)).toEqual({ requeued: 4, unreadable: [] });
    fake.behave = () => false;
    const rest = await COMMANDS[other]('drain', directory, '--url', fake.url);
    expect(rest).toEqual({ code: 0, stdout: '4 events sent, 0 still waiting, 0 refused.\n', stderr: '' });
    expect(texts()).toEqual([...bodies].sort());
    expect(await json(language, 'show', directory)).toMatchObject({ waiting: 0, parts: [] });
  },
  240_000,
);

test.skipIf(!hasPython)(
  'neither command takes events of a running process of the other',
  async () => {
    const directory = temporaryDirectory();
    const spool = await openSpool({ directory, durability: 'os' });
    onTestFinished(() => spool.close());
    await spool.append('outcome', Buffer.from('{}'));
    const holder = spawn('python3', ['-c', HOLD, directory], {
      env: { ...process.env, PYTHONPATH: SOURCES },
    });
    onTestFinished(() => void holder.stdin.end());
    await new Promise<void>((resolve) => holder.stdout.once('data', () => resolve()));
    const fake = await fakeCollector();
    for (const language of ['node', 'python'] as const) {
      const { parts } = await json(language, 'show', directory);
      const pids = (parts as { holder: { pid: number; this_host: boolean } }[]).map(
        ({ holder: { pid } }) => pid,
      );
      expect(pids.sort()).toEqual([process.pid, holder.pid].sort());
      expect(await json(language, 'drain', directory, '--url', fake.url)).toMatchObject({
        ...{ found: 0, sent: 0, waiting: 0, held_by_others: 2 },
      });
    }
    expect(fake.accepted).toEqual([]);
  },
  240_000,
);

test.skipIf(!hasPython)(
  'both commands end with the same message and code on wrong arguments',
  async () => {
    const directory = temporaryDirectory();
    fs.mkdirSync(directory);
    fs.writeFileSync(path.join(directory, 'letter.txt'), '');
    const wrong = [
      ...[
        [],
        ['list', '/x'],
        ['show'],
        ['show', '/x', '/y'],
        ['show', '/x', '--url', 'x'],
        ['requeue', '/x', '--check'],
      ],
      ...[
        ['show', '/x', '--events', '--check'],
        ['show', '/x', '--contents'],
        ['show', '/nowhere'],
        ['show', directory],
      ],
      ...[
        ['drain', '/x', '--timeout', 'x'],
        ['drain', '/x', '--timeout', '0'],
        ['drain', directory, '--json'],
      ],
      ['drain', '/x', '--api-key-file', '/nowhere'],
    ];
    for (const args of wrong) {
      const [node, python] = await Promise.all([COMMANDS.node(...args), COMMANDS.python(...args)]);
      expect(python.code, args.join(' ')).toBe(node.code);
      if (!args.includes('/nowhere')) {
        expect(python.stderr.replace(/^clinical-events: /, '')).toBe(
          node.stderr.replace(/^collector-spool: /, ''),
        );
      }
      expect(python.stdout).toBe('');
    }
    const [node, python] = await Promise.all([COMMANDS.node('--help'), COMMANDS.python('-h')]);
    expect(python.code).toBe(0);
    const codes = (text: string) => [...text.matchAll(/^ {2}(\d+) /gm)].map(([, code]) => code);
    expect(codes(python.stdout)).toEqual(codes(node.stdout));
  },
  240_000,
);

test.skipIf(!hasPython)(
  'a drain that cannot succeed prints the same in both languages, and keeps the events',
  async () => {
    const fake = await fakeCollector();
    const answers: Readonly<Record<string, readonly [number, string]>> = {
      unauthorized: [401, 'the collector rejected the API key (401 unauthorized); events are kept'],
      not_found: [404, 'the server at this address is not a collector (404 not_found); events are kept'],
      kind_not_permitted: [
        403,
        'the key may not send outcome (403 kind_not_permitted); these events are kept',
      ],
    };
    for (const [code, [status, cause]] of Object.entries(answers)) {
      fake.behave = (_, response) => answer(response, status, { code, message: 'no' });
      const directory = temporaryDirectory();
      const spool = await openSpool({ directory, durability: 'os' });
      await spool.append('outcome', Buffer.from('{"event_id":"1"}'));
      await spool.close();
      for (const language of ['node', 'python'] as const) {
        const {
          code: exit,
          stdout,
          stderr,
        } = await COMMANDS[language]('drain', directory, '--url', fake.url);
        expect({ exit, stdout }).toEqual({ exit: 7, stdout: '0 events sent, 1 still waiting, 0 refused.\n' });
        expect(stderr).toContain(`nothing more is sent: ${cause}`);
      }
    }
    expect(fake.accepted).toEqual([]);
  },
  240_000,
);

/** Captures a run with the client, with words of a given size, and ends as by a kill. */
const CAPTURE = `
import os, sys
from clinical_events import Client
log = Client(spool=sys.argv[1])
for size in (1, 20_000, 900_000):
    with log.start_run(model={"model_id": "m", "model_version": "1"}, target={"target_id": "p"}, inputs={"n": size}) as run:
        assert run.output(summary="w\u00f6rter", fields={"words": "x" * size}).wait(120)
os._exit(0)
`;

test.skipIf(!hasPython)(
  'events of a Python process that ended at once are stored once a drain sends them',
  async () => {
    const directory = temporaryDirectory();
    const collector = await realCollector();
    const captured = await ended('python3', ['-c', CAPTURE, directory]);
    expect(captured.code, captured.stderr).toBe(0);
    const keyFile = path.join(path.dirname(temporaryDirectory()), 'key');
    fs.writeFileSync(keyFile, 'cek_aaaaaaaaaaaa_' + 'a'.repeat(43));
    const drain = () =>
      COMMANDS.python('drain', directory, '--url', collector.url, '--api-key-file', keyFile, '--json');
    const refused = await drain();
    expect(refused.code).toBe(7);
    expect(JSON.parse(refused.stdout)).toMatchObject({
      sent: 0,
      waiting: 6,
      cause: expect.stringContaining('401') as string,
    });
    fs.writeFileSync(keyFile, collector.apiKey);
    const sent = await drain();
    expect(sent.stderr).toBe('');
    expect(JSON.parse(sent.stdout)).toMatchObject({ found: 6, sent: 6, waiting: 0, refused: 0 });
    const bodies = [...(await collector.stored()).values()];
    expect(bodies.map((body) => /wörter|\\u00f6rter/.test(body)).sort()).toEqual([
      ...[false, false, false, true, true, true],
    ]);
    expect(Math.max(...bodies.map((body) => body.length))).toBeGreaterThan(900_000);
  },
  240_000,
);
