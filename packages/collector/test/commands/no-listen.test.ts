/** A collector that takes no events, and commands that find no collector. */
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  createKey,
  outcomeEvent,
  postEvent,
  run,
  start,
  storedEvents,
  type Running,
} from '../running/collector-process.js';
import { contents } from '../running/directory-contents.js';
import { erased, planned } from '../running/erasing.js';
import { scratch } from '../running/scratch.js';

let root: string;
let dataDir: string;

beforeEach(() => {
  root = scratch();
  dataDir = path.join(root, 'data');
});

const on = (...args: readonly string[]) => run([...args, '--data-dir', dataDir]);

/** @returns the id of an event that is stored, once no collector runs any more. */
async function filled(): Promise<string> {
  const key = await createKey(dataDir);
  const collector = await start(dataDir);
  const event = outcomeEvent();
  expect((await postEvent(collector, key, event)).status).toBe(201);
  const { code, stderr } = await on('hold', 'add', 'CASE-1', '--organisation', 'icu');
  expect(code, stderr).toBe(0);
  await collector.stop();
  return event.event_id;
}

async function asked({ output }: Running, target: string) {
  const [, port] = /"port":(\d+),.*"msg":"management listening"/.exec(output.stderr) ?? [];
  const answer = await fetch(`http://127.0.0.1:${port}${target}`);
  return { status: answer.status, text: await answer.text() };
}

describe('[R-1550] collector serve --no-listen', () => {
  test('opens no port for events, does everything else, and ends in order', async () => {
    const id = await filled();
    const taken = net.createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void taken.close());
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address() as net.AddressInfo;
    const sink = path.join(root, 'sink');
    fs.mkdirSync(sink);
    // As a collector that is killed leaves it.
    const listening = path.join(dataDir, 'checkpoints', 'listening.json');
    fs.writeFileSync(listening, JSON.stringify({ host: '127.0.0.1', port, tls: false }));
    const collector = await start(dataDir, [
      ...['--no-listen', '--port', String(port), '--checkpoint-sink', `dir:${sink}`],
    ]);
    expect(fs.existsSync(listening)).toBe(false);
    expect((await asked(collector, '/livez')).status).toBe(200);
    const { status, text } = await asked(collector, '/readyz');
    expect([status, JSON.parse(text)]).toMatchObject([
      503,
      { details: { reasons: [{ check: 'listener', cause: 'not_listening' }] } },
    ]);
    expect((await asked(collector, '/metrics')).text).toMatch(/^collector_ready 0$/m);

    const { code, stderr } = await erased(['--data-dir', dataDir], ['--event', id], '--reason', 'test-data');
    expect(code, stderr).toBe(0);
    expect((await on('encryption-keys', 'rotate')).stdout).toBe('epoch 2 has begun\n');
    expect(await collector.stop()).toBe(0);
    expect((await storedEvents(dataDir)).map(({ body }) => body)).toEqual([null]);
    const latest = fs.readFileSync(path.join(dataDir, 'checkpoints', 'latest'), 'utf8');
    const signed = fs.readdirSync(sink).map((name) => fs.readFileSync(path.join(sink, name), 'utf8'));
    expect(signed).toContain(latest);
    expect(JSON.parse((await on('verify', '--json')).stdout)).toMatchObject({
      ...{ intact: true, findings: [], erased_events: { 'test-data': 1 } },
    });
  });

  test('makes no key, and is refused with --trial', async () => {
    const collector = await start(dataDir, ['--no-listen']);
    expect(await collector.stop()).toBe(0);
    expect(collector.output.stdout).toBe('');
    expect((await on('keys', 'list')).stdout).not.toContain('default');
    const { code, stderr } = await run(['serve', '--trial', '--no-listen']);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/--trial: .*--no-listen\n$/)]);
  });
});

describe('[R-1550] where no collector runs', () => {
  test('a command that acts on stored events changes nothing, and says what to start', async () => {
    const id = await filled();
    const policy = path.join(root, 'policy.json');
    fs.writeFileSync(policy, JSON.stringify({ version: 1, name: 'p', default: { keep: 'P10Y' } }));
    const { code: made, file } = await planned(['--data-dir', dataDir], ['--event', id]);
    expect(made).toBe(0);
    const before = contents(dataDir);
    for (const command of [
      ['erase', 'apply', file, '--reason', 'test-data', '--case', '1', '--by', 'x'],
      ['retention', 'policy', 'set', policy],
      ['retention', 'run'],
      ['hold', 'add', 'CASE-2', '--organisation', 'icu'],
      ['hold', 'release', 'CASE-1'],
      ['encryption-keys', 'rotate'],
    ]) {
      const { code, stdout, stderr } = await on(...command);
      expect([code, stdout], command.join(' ')).toEqual([2, '']);
      expect(stderr.replace(/\s+/g, ' '), command.join(' ')).toMatch(
        /^collector: no collector is running on \S+; nothing was done: start collector serve .* --no-listen /,
      );
    }
    expect(contents(dataDir)).toEqual(before);
    expect((await on('hold', 'list')).stdout).toContain('CASE-1');
  });
});
