import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { splitNotes } from '@clinical-events/protocol/verify';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Publisher, type PublisherOptions } from '../../src/tree/publisher.js';
import { parseSinks } from '../../src/tree/sink.js';
import { readSinkStates, type SinkState } from '../../src/tree/state-files.js';
import { FakeWitness } from './fake-witness.js';
import { newKey, SampleLog, scratchDirectory, scratchHelper } from './sample-log.js';

const log = new SampleLog();

function publisherTo(sinks: string, options: Partial<PublisherOptions> = {}, of = log) {
  const dataDir = options.dataDir ?? scratchDirectory();
  const told = {
    onTrouble: vi.fn<(sink: string, message: string) => void>(),
    onForked: vi.fn<(sink: string, message: string) => void>(),
    onLost: vi.fn<(sink: string, message: string) => void>(),
    onRecovered: vi.fn(),
    onUnwritten: vi.fn<(message: string) => void>(),
  };
  const publisher = new Publisher({
    ...{ sinks: parseSinks(sinks), tree: of.tree, entries: of.entries, logKeys: of.logKeys, dataDir },
    ...{ retryPolicy: { firstMs: 5, mostMs: 20 }, helper: scratchHelper(), ...told, ...options },
  });
  onTestFinished(() => publisher.close(0));
  const publish = (...sizes: readonly number[]) => {
    for (const size of sizes) {
      of.signed = size;
      publisher.publish(of.note(size));
    }
  };
  return { publisher, publish, dataDir, ...told };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(10);
}

function stateOf(dataDir: string, sink = ''): SinkState | undefined {
  return readSinkStates(dataDir).find((state) => state.sink.startsWith(sink));
}

/** Has a sink hold these checkpoints. */
async function fill(sinks: string, ...sizes: readonly number[]): Promise<void> {
  const { publisher, publish } = publisherTo(sinks);
  publish(...sizes);
  await publisher.close(600_000);
}

/** An executable of this Node, with the rest of the script. */
function program(script: string): string {
  const file = path.join(scratchDirectory(), 'sink.mjs');
  fs.writeFileSync(file, `#!${process.execPath}\nimport fs from 'node:fs';\n${script}`, { mode: 0o700 });
  return `command:${file}`;
}

/** A program that keeps notes in memory. `answer` is an expression: what it prints for a `note`, after it was added to `held`. */
function keeping(answer = "'kept\\n'"): string {
  return program(`
    const held = [];
    const say = (text) => fs.writeSync(1, text);
    const sayHeld = () => { const last = held.at(-1) ?? ''; say('held ' + Buffer.byteLength(last) + '\\n' + last); };
    sayHeld();
    let input = '';
    process.stdin.setEncoding('utf8').on('data', (chunk) => {
      input += chunk;
      const note = input.slice(input.indexOf('\\n') + 1);
      if (Buffer.byteLength(note) < Number(input.split('\\n')[0])) return;
      input = '';
      held.push(note);
      const said = ${answer};
      say(said);
      if (said.startsWith('again') || said.startsWith('fork')) sayHeld();
    });`);
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A process that ended remains in the table until its parent has read its status.
    return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

describe('a publisher', () => {
  test('[R-906] gives each checkpoint to every sink, and leaves no process running', async () => {
    const witness = await new FakeWitness().trust(log.signer.key.vkey).listen();
    const [worm, file] = [scratchDirectory(), path.join(scratchDirectory(), 'checkpoints')];
    const kept = path.join(scratchDirectory(), 'kept');
    const own = keeping(`(fs.appendFileSync(${JSON.stringify(kept)}, note + '\\n'), 'kept\\n')`);
    const helper = scratchHelper();
    const sinks = `dir:${worm},file:${file},${own},${witness.prefix}#${witness.key.vkey}`;
    const { publisher, publish, dataDir, onTrouble } = publisherTo(sinks, { helper });
    publish(10, 20, 30);
    await until(() => readSinkStates(dataDir).filter(({ size }) => size === 30).length === 4);
    const pids = [helper.pids.helper ?? 0, ...helper.pids.programs.values()];
    expect(pids).toHaveLength(4);
    await publisher.close(600_000);
    expect(fs.readdirSync(worm)).toHaveLength(3);
    for (const each of [file, kept])
      expect(splitNotes(fs.readFileSync(each, 'utf8'))).toEqual([10, 20, 30].map((size) => log.note(size)));
    expect(witness.seen.get('log.example/ward-7')?.size).toBe(30);
    expect(onTrouble.mock.calls).toEqual([]);
    expect(readSinkStates(dataDir).map(({ state }) => state)).toEqual(['ok', 'ok', 'ok', 'ok']);
    await until(() => !pids.some(isRunning));
  });

  test('reports when trouble begins and ends, and shows both in the states', async () => {
    const worm = path.join(scratchDirectory(), 'worm');
    const { publish, dataDir, onTrouble, onRecovered } = publisherTo(`dir:${worm}`);
    publish(10);
    await until(() => stateOf(dataDir)?.state === 'failing');
    expect(onTrouble.mock.calls).toEqual([[`dir:${worm}`, expect.stringContaining('ENOENT')]]);
    expect(stateOf(dataDir)).toMatchObject({ failing_since: expect.any(String) as string });
    publish(20);
    fs.mkdirSync(worm);
    await until(() => stateOf(dataDir)?.size === 20);
    expect(onRecovered.mock.calls).toEqual([[`dir:${worm}`]]);
    expect(fs.readdirSync(worm)).toHaveLength(2);
    expect(stateOf(dataDir)).not.toHaveProperty('failing_since');
  });

  test('[R-906] reports that a sink holds less than it had accepted, and continues', async () => {
    const file = path.join(scratchDirectory(), 'checkpoints');
    const { publish, dataDir, onLost } = publisherTo(`file:${file}`);
    publish(10);
    await until(() => stateOf(dataDir)?.size === 10);
    fs.truncateSync(file, 0);
    publish(20);
    await until(() => stateOf(dataDir)?.size === 20);
    expect(onLost).toHaveBeenCalledTimes(1);
    expect(stateOf(dataDir)).toMatchObject({ state: 'ok', lost_at: expect.any(String) as string });
    fs.rmSync(file);
    const later = publisherTo(`file:${file}`, { dataDir });
    later.publish(30);
    await until(() => stateOf(dataDir)?.size === 30);
    expect(later.onLost).toHaveBeenCalledTimes(1);
  });

  test('writes the states when one changes, and within about a second when only the checkpoint does', async () => {
    const [one, two] = [scratchDirectory(), scratchDirectory()];
    let now = Date.UTC(2026, 0, 1);
    const { publisher, publish, dataDir } = publisherTo(`dir:${one}`, { now: () => now });
    publish(10);
    await until(() => stateOf(dataDir)?.size === 10);
    now += 1000;
    // The clock is stopped.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    publish(20);
    await until(() => publisher.sinks[0]?.state?.size === 20);
    // Not at once: many checkpoints must not become many files.
    expect(stateOf(dataDir)).toMatchObject({ size: 10, at: '2026-01-01T00:00:00.000Z' });
    vi.advanceTimersByTime(1000);
    vi.useRealTimers();
    expect(stateOf(dataDir)).toMatchObject({ size: 20, at: '2026-01-01T00:00:01.000Z' });
    await publisher.close(600_000);
    // A sink that is not named any more is not shown; one that is continues from its state.
    publisherTo(`dir:${one},dir:${two}`, { dataDir });
    expect(readSinkStates(dataDir).map(({ sink, size }) => [sink, size])).toEqual([[`dir:${one}`, 20]]);
    publisherTo('', { dataDir });
    expect(readSinkStates(dataDir)).toEqual([]);
  });

  test('without sinks writes nothing and starts nothing', async () => {
    const helper = scratchHelper();
    const { publisher, publish, dataDir } = publisherTo('', { helper });
    publish(10);
    await publisher.close(600_000);
    expect(fs.readdirSync(dataDir)).toEqual([]);
    expect(helper.pids.helper).toBeUndefined();
  });

  test('continues when its states cannot be read or written, and reports it once', async () => {
    const worm = scratchDirectory();
    const dataDir = path.join(scratchDirectory(), 'file');
    fs.writeFileSync(dataDir, '');
    const { publisher, publish, onTrouble, onUnwritten } = publisherTo(`dir:${worm}`, { dataDir });
    publish(10, 20);
    await publisher.close(600_000);
    expect(fs.readdirSync(worm)).toHaveLength(2);
    expect(onTrouble.mock.calls).toEqual([]);
    expect(onUnwritten.mock.calls).toEqual([[expect.stringContaining('ENOTDIR')]]);
    const rubbish = scratchDirectory();
    fs.mkdirSync(path.join(rubbish, 'checkpoints'));
    fs.writeFileSync(path.join(rubbish, 'checkpoints', 'sinks.json'), '{');
    publisherTo(`dir:${worm}`, { dataDir: rubbish });
    expect(readSinkStates(rubbish)).toEqual([]);
  });
});

describe('the content of a sink', () => {
  const forms = ['directory', 'file'] as const;
  const place = (form: (typeof forms)[number]) =>
    form === 'directory' ? `dir:${scratchDirectory()}` : `file:${path.join(scratchDirectory(), 'f')}`;

  test.each(forms)(
    '[R-906] in a %s is compared at a start: with a cut log, and with one of another history',
    async (form) => {
      const sink = place(form);
      await fill(sink, 200);
      const cut = publisherTo(sink);
      cut.publish(150);
      await until(() => stateOf(cut.dataDir)?.state === 'forked');
      expect(cut.onForked.mock.calls).toEqual([
        [sink, expect.stringContaining('200 entries, and this ledger has 150')],
      ]);
      expect(cut.onTrouble.mock.calls).toEqual([]);
      const forked = log.forkedAt(100);
      const other = publisherTo(sink, {}, forked);
      other.publish(150, 250);
      await until(() => other.onForked.mock.calls.length > 0);
      await other.publisher.close(600_000);
      expect(stateOf(other.dataDir)).toMatchObject({ state: 'forked', dropped: 2 });
      // No newer checkpoint hides its content.
      await fill(sink, 210);
    },
  );

  test('[R-906] is not a fork when another collector has stored a newer checkpoint of the same log', async () => {
    const sink = `dir:${scratchDirectory()}`;
    await fill(sink, 200);
    const behind = publisherTo(sink);
    log.signed = 200;
    behind.publisher.publish(log.note(150));
    await until(() => stateOf(behind.dataDir)?.size === 150);
    expect([behind.onForked, behind.onTrouble].map(({ mock }) => mock.calls)).toEqual([[], []]);
  });

  test.each(forms)(
    '[R-906] in a %s is refused when it is of another log, or not signed by a key of this log',
    async (form) => {
      for (const [other, message] of [
        [
          new SampleLog(newKey('log.example/other'), undefined, 'log.example/other'),
          'of the log log.example/other',
        ],
        [new SampleLog(newKey()), 'with the name of this log that no key of it signed'],
      ] as const) {
        const sink = place(form);
        const before = publisherTo(sink, {}, other);
        before.publish(10);
        await before.publisher.close(600_000);
        const { publish, dataDir, onForked } = publisherTo(sink);
        publish(20);
        await until(() => stateOf(dataDir)?.state === 'failing');
        expect(stateOf(dataDir)?.message).toContain(message);
        expect(onForked).not.toHaveBeenCalled();
      }
    },
  );

  test('is not compared when the tree lacks hashes; the sink is then failing', async () => {
    const sink = `dir:${scratchDirectory()}`;
    await fill(sink, 200);
    const tree = { ...log.tree, hashes: () => Promise.resolve(Buffer.alloc(0)) };
    const { publish, dataDir, onForked } = publisherTo(sink, { tree });
    publish(210);
    await until(() => stateOf(dataDir)?.state === 'failing');
    expect(stateOf(dataDir)?.message).toMatch(/^the tree lacks some of the .*; see collector verify$/);
    expect(onForked).not.toHaveBeenCalled();
  });
});

/** The one that the guide shows. */
const [, GUIDE = ''] =
  /```python\n(.*?)```/s.exec(
    fs.readFileSync(path.resolve(import.meta.dirname, '../../../../docs/guide/prove.md'), 'utf8'),
  ) ?? [];
const [PYTHON] = ['/usr/bin/python3', '/usr/local/bin/python3'].filter((file) => fs.existsSync(file));

test.skipIf(PYTHON === undefined)(
  '[R-906] the program of the guide keeps the newest checkpoint',
  async () => {
    const directory = scratchDirectory();
    const file = path.join(directory, 'newest.checkpoint');
    const sink = path.join(directory, 'keep.py');
    const script = GUIDE.replace(/^#!.*/, `#!${PYTHON}`).replace('/mnt/audit/newest.checkpoint', file);
    expect(script).toContain(file);
    fs.writeFileSync(sink, script, { mode: 0o700 });
    await fill(`command:${sink}`, 10, 20);
    expect(fs.readFileSync(file, 'utf8')).toBe(log.note(20));
    const { publish, dataDir, onForked } = publisherTo(`command:${sink}`, {}, log.forkedAt(5));
    publish(30);
    await until(() => onForked.mock.calls.length > 0);
    fs.rmSync(directory, { recursive: true });
    fs.mkdirSync(directory);
    expect(stateOf(dataDir)?.state).toBe('forked');
  },
);

describe('a sink program', () => {
  test('[R-906] of a directory on a full disk keeps its files, and continues when there is room', async () => {
    const worm = scratchDirectory();
    const [room, limited] = [path.join(worm, '..', `${path.basename(worm)}-room`), scratchDirectory()];
    onTestFinished(() => fs.rmSync(room, { force: true }));
    const file = path.join(limited, 'sink.sh');
    const own = path.resolve(import.meta.dirname, '../../dist/tree/sink-program.js');
    // A file may have no byte until there is room: its name is taken all the same.
    fs.writeFileSync(
      file,
      `#!/bin/sh\ntest -e ${room} || ulimit -f 0\nexec ${process.execPath} ${own} directory ${worm}\n`,
      { mode: 0o700 },
    );
    const helper = scratchHelper();
    const { publish, dataDir, publisher } = publisherTo(`command:${file}`, { helper });
    publish(10);
    await until(() => publisher.sinks[0]?.state?.message?.includes('EFBIG') === true);
    fs.writeFileSync(room, '');
    process.kill(helper.pids.programs.get(0) ?? 0, 'SIGKILL');
    publish(20);
    await until(() => stateOf(dataDir)?.size === 20);
    const kept = fs.readdirSync(worm).map((name) => fs.readFileSync(path.join(worm, name), 'utf8'));
    expect(kept.filter((note) => note !== '')).toEqual([log.note(10), log.note(20)]);
  });

  test('[R-906] has an empty environment, the root as its directory, and a discarded standard error', async () => {
    const report = path.join(scratchDirectory(), 'report');
    const sink = keeping(
      `(fs.writeFileSync(${JSON.stringify(report)}, JSON.stringify([process.env, process.cwd()])), console.error('SECRET'), 'kept\\n')`,
    );
    const { publish, dataDir } = publisherTo(sink);
    publish(10);
    await until(() => stateOf(dataDir)?.size === 10);
    expect(JSON.parse(fs.readFileSync(report, 'utf8'))).toEqual([{}, '/']);
  });

  test('[R-906] that answers `again` gets the note again, and its content is compared', async () => {
    const { publish, dataDir, onTrouble, onForked } = publisherTo(
      keeping("held.length < 3 ? 'again no\\u001b room\\n' : 'kept\\n'"),
    );
    publish(10);
    await until(() => stateOf(dataDir)?.state === 'ok');
    expect(onTrouble.mock.calls.map(([, message]) => message)).toEqual(['no? room']);
    expect(onForked).not.toHaveBeenCalled();
  });

  test('[R-906] that reports a fork is believed only if the note that it returns proves one', async () => {
    const { publish, dataDir, onForked } = publisherTo(keeping("'fork because\\n'"));
    publish(10);
    await until(() => stateOf(dataDir)?.state === 'failing');
    expect(onForked).not.toHaveBeenCalled();
    const worm = scratchDirectory();
    const other = publisherTo(`dir:${worm}`);
    other.publish(10);
    await until(() => stateOf(other.dataDir)?.size === 10);
    fs.writeFileSync(path.join(worm, '0000000000000020.checkpoint'), log.forkedAt(5).note(20));
    other.publish(20);
    await until(() => stateOf(other.dataDir)?.state === 'forked');
  });

  test.each([
    ['is missing', () => 'command:/nonexistent/sink', /^cannot be started \(ENOENT\)$/],
    ['exits immediately', () => program('process.exit(3)'), /^ended with exit code 3$/],
    [
      'closes its output',
      () => program('fs.closeSync(1); setInterval(() => {}, 1000)'),
      /^has closed its output$/,
    ],
    [
      'prints an invalid line',
      () => program("fs.writeSync(1, 'SECRET\\n'); setInterval(() => {}, 1000)"),
      /^breaks the protocol/,
    ],
    [
      'floods its output',
      () => program("for (;;) fs.writeSync(1, 'SECRET'.repeat(10000))"),
      /^breaks the protocol/,
    ],
    [
      'floods it with lines',
      () => program("for (;;) fs.writeSync(1, '\\n'.repeat(10000))"),
      /^breaks the protocol/,
    ],
    [
      'holds too much',
      () => program("fs.writeSync(1, 'held 65537\\n'); setInterval(() => {}, 1000)"),
      /^breaks the protocol/,
    ],
    ['answers with an invalid line', () => keeping("'SECRET\\n'"), /^breaks the protocol/],
    ['refuses without a reason', () => keeping("'again\\n'"), /^breaks the protocol/],
    [
      'holds an invalid note',
      () => program("fs.writeSync(1, 'held 6\\nSECRET'); setInterval(() => {}, 1000)"),
      /^holds a note that is not a checkpoint/,
    ],
  ])(
    '[R-906] that %s is reported as failing and killed, and its output is not repeated',
    async (_, sink, message) => {
      const helper = scratchHelper();
      const { publish, dataDir, publisher } = publisherTo(sink(), { helper });
      publish(10);
      await until(() => stateOf(dataDir)?.state === 'failing');
      expect(stateOf(dataDir)?.message).toMatch(message);
      expect(stateOf(dataDir)?.message).not.toContain('SECRET');
      const pids = [...helper.pids.programs.values()];
      await publisher.close(0);
      await until(() => !pids.some(isRunning));
    },
  );

  test('[R-906] that answers one note twice: the second answer does not count for the next note', async () => {
    const { publish, dataDir } = publisherTo(keeping("'kept\\nkept\\n'"));
    publish(10);
    await until(() => stateOf(dataDir)?.size === 10);
    publish(20);
    await until(() => stateOf(dataDir)?.state === 'failing');
    expect(stateOf(dataDir)?.size).toBe(10);
  });

  test.each([
    ['at its start', () => program('setInterval(() => {}, 1000)')],
    ['with a note', () => keeping("''")],
    ['on a pipe without a writer', undefined],
  ])(
    '[R-906] that hangs %s is killed after its time limit, and started again once it has ended',
    async (_, hanging) => {
      const fifo = path.join(scratchDirectory(), 'fifo');
      spawnSync('mkfifo', [fifo]);
      const helper = scratchHelper(300);
      const worm = scratchDirectory();
      const { publish, publisher } = publisherTo(`${hanging?.() ?? `file:${fifo}`},dir:${worm}`, { helper });
      publish(10);
      const first = await vi.waitUntil(() => helper.pids.programs.get(0), { timeout: 30_000 });
      publish(20);
      await until(() => publisher.sinks[0]?.state?.message?.startsWith('does not answer within') === true);
      await until(() => helper.pids.programs.get(0) !== first);
      expect(isRunning(first)).toBe(false);
      publish(30);
      await until(() => fs.readdirSync(worm).length === 3);
      expect(publisher.sinks[0]).toMatchObject({ waiting: 3, state: { state: 'failing' } });
    },
  );

  test('[R-906] is waited for only as long as a stop allows, and the checkpoints that it lacks are counted', async () => {
    const { publish, publisher, dataDir } = publisherTo(keeping("held.length > 1 ? '' : 'kept\\n'"));
    publish(10);
    await until(() => stateOf(dataDir)?.size === 10);
    publish(20, 30);
    await publisher.close(150);
    expect(stateOf(dataDir)).toMatchObject({
      ...{ state: 'failing', size: 10, dropped: 2 },
      message: 'had not taken the newest checkpoint when the collector ended',
    });
    publish(40);
    await publisher.close(0);
  });

  test('[R-906] ignores the signals that stop a service, so that it gets the last checkpoints', async () => {
    const helper = scratchHelper();
    const { publish, dataDir } = publisherTo(`dir:${scratchDirectory()}`, { helper });
    publish(10);
    await until(() => stateOf(dataDir)?.size === 10);
    const pids = [helper.pids.helper ?? 0, helper.pids.programs.get(0) ?? 0];
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
      for (const pid of pids) process.kill(pid, signal);
    publish(20);
    await until(() => stateOf(dataDir)?.size === 20);
    expect([helper.pids.helper, helper.pids.programs.get(0)]).toEqual(pids);
  });

  test('[R-906] and the helper are started again after a kill, and no checkpoint is lost', async () => {
    const helper = scratchHelper();
    const worm = scratchDirectory();
    const { publish, dataDir, onLost } = publisherTo(`dir:${worm}`, { helper });
    let size = 0;
    for (const victim of ['helper', 'program', 'both', 'helper', 'program'] as const) {
      publish(++size);
      await until(() => stateOf(dataDir)?.size === size);
      const { helper: parent, programs } = helper.pids;
      const child = programs.get(0) ?? 0;
      // While the next one is under way.
      publish(++size);
      if (victim !== 'program') process.kill(parent ?? 0, 'SIGKILL');
      if (victim !== 'helper') process.kill(child, 'SIGKILL');
      await until(() => stateOf(dataDir)?.size === size);
      expect(isRunning(child)).toBe(false);
    }
    const kept = fs.readdirSync(worm).map((name) => fs.readFileSync(path.join(worm, name), 'utf8'));
    for (let i = 1; i <= size; i++) expect(kept).toContain(log.note(i));
    expect(onLost).not.toHaveBeenCalled();
  });
});
