import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import {
  Catalogue,
  CatalogueBusy,
  CatalogueDamaged,
  CatalogueFault,
  type RunSummary,
} from '../../src/catalogue/catalogue.js';
import type { EventLog } from '../../src/store/contract/events.js';
import { Statements } from '../../src/catalogue/statements.js';
import { Tables } from '../../src/catalogue/tables.js';
import { stored, type SentEvent } from '../records/odd-log.js';
import { id } from '../records/run-events.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';
import {
  callsIn,
  catalogueIn,
  contentsOf,
  emptyDirectory,
  expectedOf,
  LEDGER,
  twinLog,
  withLog,
} from './made-catalogue.js';

let scratch: string;

beforeEach(() => {
  scratch = temporaryDirectory();
  onTestFinished(() => fs.rmSync(scratch, { recursive: true, force: true }));
});

/** The same log each time, with a run of two calls in it. */
const EVENTS: readonly SentEvent[] = [
  ...(fc.sample(twinLog(120), { numRuns: 40, seed: 14 }).sort((a, b) => b.length - a.length)[0] ?? []),
  ...[1001, 1002].map((n): SentEvent => ({
    ...{ kind: 'inference-start', n, organisation: 'default', run: 700, parent: undefined, second: n - 1000 },
    day: 0,
  })),
];
const STANDARD: SentEvent = {
  ...{ kind: 'outcome', n: 0, organisation: 'default', run: null, parent: undefined, second: 1, day: 0 },
};

async function directoryOf(events: readonly SentEvent[]): Promise<string> {
  const directory = fs.mkdtempSync(path.join(scratch, 'data-'));
  await fillDirectory(directory, [events.map(stored)], 64 << 10);
  return directory;
}

function opened(directory: string, more: Partial<Parameters<typeof Catalogue.open>[0]> = {}): Catalogue {
  const catalogue = catalogueIn(directory, more);
  onTestFinished(() => catalogue.close());
  return catalogue;
}

async function madeIn(dataDir: string): Promise<string> {
  const directory = emptyDirectory(scratch, 'made');
  const catalogue = catalogueIn(directory);
  await withLog(dataDir, (log) => catalogue.update(log));
  catalogue.close();
  return directory;
}

const fileIn = (directory: string) => path.join(directory, 'catalogue.sqlite');

/** Reads everything, and again after an update if the catalogue is found damaged. */
async function contentsAfterAll(catalogue: Catalogue, log: EventLog) {
  await catalogue.update(log);
  try {
    return contentsOf(catalogue);
  } catch (error) {
    expect(error).toBeInstanceOf(CatalogueDamaged);
    await catalogue.update(log);
    return contentsOf(catalogue);
  }
}

test('[R-1020] a catalogue that is damaged, cut or zeroed in any place is rebuilt, and never returns a wrong answer', async () => {
  const dataDir = await directoryOf(EVENTS);
  const made = await madeIn(dataDir);
  const expected = await expectedOf(dataDir, EVENTS.length);
  const bytes = fs.readFileSync(fileIn(made));
  const page = 8192;
  const damaged = [
    Buffer.from('not a database, but longer than a header of one '.repeat(4)),
    Buffer.alloc(bytes.length),
    Buffer.alloc(0),
    bytes.subarray(0, page),
    bytes.subarray(0, 3 * page + 7),
    ...Array.from({ length: bytes.length / page }, (_, number) =>
      Buffer.from(bytes).fill(0, number * page, (number + 1) * page),
    ),
  ];
  await withLog(dataDir, async (log) => {
    for (const content of damaged) {
      fs.writeFileSync(fileIn(made), content);
      const catalogue = catalogueIn(made);
      expect(await contentsAfterAll(catalogue, log)).toEqual(expected);
      catalogue.close();
    }
  });
});

test('[R-1020] a catalogue of another ledger, of another version, or of a log with another history is rebuilt', async () => {
  const dataDir = await directoryOf(EVENTS);
  const made = await madeIn(dataDir);
  const other = await directoryOf(EVENTS.toReversed().slice(3));
  await withLog(other, async (log) => {
    const catalogue = opened(made);
    await catalogue.update(log);
    expect(contentsOf(catalogue)).toEqual(await expectedOf(other, EVENTS.length));
  });
  const versioned = new DatabaseSync(fileIn(made));
  versioned.exec('PRAGMA user_version = 999');
  versioned.close();
  expect(opened(made).count()).toBe(0);
  await withLog(dataDir, (log) => opened(made).update(log));
  expect(opened(made).count()).toBe((await expectedOf(dataDir, EVENTS.length)).size);
  expect(opened(made, { ledgerId: 'cd'.repeat(16) }).count()).toBe(0);
});

test('[R-1020] a catalogue that is removed answers its reader as before, and the next update makes another', async () => {
  const dataDir = await directoryOf(EVENTS);
  const made = await madeIn(dataDir);
  const expected = await expectedOf(dataDir, EVENTS.length);
  const catalogue = opened(made);
  const runs = catalogue.runs();
  runs.next();
  fs.rmSync(made, { recursive: true });
  expect([...runs].length + 1).toBe(expected.size);
  await withLog(dataDir, (log) => catalogue.update(log));
  expect(contentsOf(catalogue)).toEqual(expected);
  expect(contentsOf(opened(made))).toEqual(expected);
});

test('[R-1020] a full disk leaves an older complete catalogue and a message that says what to do', async () => {
  const events = [0, 1000, 2000, 3000].flatMap((more) =>
    EVENTS.map((event) => ({ ...event, n: event.n + more })),
  );
  const dataDir = await directoryOf(events);
  const directory = emptyDirectory(scratch, 'full');
  await withLog(dataDir, async (log) => {
    const first = catalogueIn(directory);
    await first.update(log, { through: 10 });
    first.close();
    const pages = fs.statSync(fileIn(directory)).size / 8192;
    const small = catalogueIn(directory, { mostPages: pages });
    await expect(small.update(log)).rejects.toThrow(/no room for the catalogue in .*: make room$/);
    expect(contentsOf(small)).toEqual(await expectedOf(dataDir, 10));
    small.close();
    const catalogue = opened(directory);
    await catalogue.update(log);
    expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, events.length));
  });
});

test.skipIf(process.platform !== 'linux')(
  '[R-1020] where nothing can be written the message names the user who may',
  () => {
    expect(() => catalogueIn('/proc/sys/catalogue')).toThrow(CatalogueFault);
    expect(() => catalogueIn('/proc/sys/catalogue')).toThrow(/cannot be written: run as its owner$/);
  },
);

test('[R-1020] files and directory of the catalogue are readable only by their owner', async () => {
  const made = await madeIn(await directoryOf(EVENTS));
  const catalogue = opened(made);
  catalogue.count();
  expect(fs.statSync(made).mode & 0o777).toBe(0o700);
  for (const name of fs.readdirSync(made))
    expect(fs.statSync(path.join(made, name)).mode & 0o777).toBe(0o600);
});

function updating(dataDir: string, directory: string, entries: number, mode: string): ChildProcess {
  const script = fileURLToPath(new URL('updating-process.mjs', import.meta.url));
  const child = spawn(process.execPath, [script, dataDir, directory, LEDGER, String(entries), mode], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

test('[R-1020] two processes that update take turns, and the rows are the same as from one', async () => {
  const dataDir = await directoryOf(EVENTS);
  const directory = emptyDirectory(scratch, 'two');
  const ended = [3, 5].map((entries) => once(updating(dataDir, directory, entries, 'follow'), 'exit'));
  expect(await Promise.all(ended)).toEqual([
    [0, null],
    [0, null],
  ]);
  expect(contentsOf(opened(directory))).toEqual(await expectedOf(dataDir, EVENTS.length));
});

test('[R-1020] threads that sum give the same rows as an update without them', async () => {
  const dataDir = await directoryOf(EVENTS);
  const directory = emptyDirectory(scratch, 'threads');
  const child = updating(dataDir, directory, 3, 'threads');
  const said: Buffer[] = [];
  child.stdout?.on('data', (chunk: Buffer) => said.push(chunk));
  expect(await once(child, 'close')).toEqual([0, null]);
  expect(Buffer.concat(said).toString()).toBe(`started\n${EVENTS.length}\n`);
  expect(contentsOf(opened(directory))).toEqual(await expectedOf(dataDir, EVENTS.length));
});

test('[R-1020] an update leaves no read transaction open: another may add more, and then the first again', async () => {
  const chained = chain(12, { kind: 'inference-start' }).reverse();
  const dataDir = await directoryOf(chained);
  const directory = emptyDirectory(scratch, 'turns');
  const [one, other] = [opened(directory, { waitMs: 0 }), opened(directory, { waitMs: 0 })];
  await withLog(dataDir, async (log) => {
    for (let through = 1; through <= chained.length; through++) {
      await (through % 2 === 0 ? one : other).update(log, { through });
    }
  });
  expect(contentsOf(one)).toEqual(await expectedOf(dataDir, chained.length));
});

test('[R-1020] an update that waits for another process reports it, ends as busy, and continues once that is killed', async () => {
  const dataDir = await directoryOf(EVENTS);
  const directory = emptyDirectory(scratch, 'held');
  const holder = updating(dataDir, directory, 5, 'hold');
  await once(holder.stdout ?? holder, 'data');
  let waited = 0;
  const onWait = () => {
    waited++;
  };
  const catalogue = opened(directory, { waitMs: 300, onWait });
  await withLog(dataDir, async (log) => {
    const update = catalogue.update(log);
    await expect(update).rejects.toThrow(CatalogueBusy);
    expect(waited).toBeGreaterThan(0);
    holder.kill('SIGKILL');
    await once(holder, 'exit');
    await catalogue.update(log);
  });
  expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, EVENTS.length));
});

test('[R-1020] [R-1836] runs are found by the values in their rows, newest and oldest first, and by the first digits of an id', async () => {
  const dataDir = await directoryOf(EVENTS);
  const directory = await madeIn(dataDir);
  const catalogue = opened(directory);
  const all = [...catalogue.runs()];
  const calls = callsIn(directory);
  const callsOf = (run: (typeof all)[number]) =>
    calls.filter(({ run_id, organisation }) => run_id === run.recordId && organisation === run.organisation);
  const idsOf = (runs: Iterable<(typeof all)[number]>) => Array.from(runs, ({ row }) => row);
  const filters = {
    organisation: ['default', 'ward-7'],
    outcome: ['none', 'validated'],
    level: ['full', 'minimum', 'incomplete'] satisfies RunSummary['level'][],
    hasConflict: [true, false],
    failed: [true, false],
    feedback: ['rating', 'thumbs'],
    target: ['patient-30977', 'patient-2', 'nobody'],
    user: ['clinician-8841'],
    models: [
      [{ model: 'sepsis-risk' }],
      [{ model: 'sepsis-risk', version: '4.2.0' }],
      [{ model: 'triage' }],
      [{ model: 'triage', version: 'triage-2' }],
      [
        { model: 'sepsis-risk', version: '' },
        { model: 'sepsis-risk', version: '4.2.0' },
        { model: 'no such' },
      ],
    ],
    isRun: [true, false],
    afterSequence: [EVENTS.length / 2],
  } as const;
  const holds: Record<keyof typeof filters, (run: (typeof all)[number], value: never) => boolean> = {
    organisation: (run, value) => run.organisation === value,
    outcome: (run, value) => run.outcome === value,
    level: (run, value) => run.level === value,
    hasConflict: (run, value) => run.conflicts.length > 0 === value,
    failed: (run, value) =>
      [run.call?.ending, ...callsOf(run).map(({ call }) => call)].includes('failed') === value,
    feedback: (run, value) => run.feedback[value] > 0,
    target: (run, value) =>
      [run, ...callsOf(run).map(({ target }) => ({ targetId: target }))].some(
        ({ targetId }) => targetId === value,
      ),
    user: (run, value) => [run.userId, ...callsOf(run).map(({ user }) => user)].includes(value),
    models: (run, asked: readonly { model: string; version?: string }[]) =>
      asked.some((one) =>
        [{ model: run.modelId, version: run.modelVersion }, ...callsOf(run)].some(
          ({ model, version }) =>
            model === one.model && (one.version === undefined || (version ?? '') === one.version),
        ),
      ),
    isRun: (run, value) => run.isRun === value,
    afterSequence: (run, value) => run.lastSequence > value,
  };
  for (const clock of ['received', 'sender'] as const) {
    const times = all.map(({ began }) => began[clock]).sort((a, b) => a - b);
    const since = times[Math.floor(times.length / 3)] ?? 0;
    const until = times[Math.floor((2 * times.length) / 3)] ?? 0;
    const newest = all.toSorted((a, b) => b.began[clock] - a.began[clock] || b.row - a.row);
    const within = newest.filter(({ began }) => began[clock] >= since && began[clock] < until);
    expect(idsOf(catalogue.runs({ clock, since, until }))).toEqual(idsOf(within));
    expect(idsOf(catalogue.runs({ clock, limit: 3 }))).toEqual(idsOf(newest.slice(0, 3)));
    expect(idsOf(catalogue.runs({ clock, order: 'oldest' }))).toEqual(idsOf(newest.toReversed()));
    const waiting = newest.filter(({ began, outcome }) => outcome === 'none' && began[clock] < until);
    expect(idsOf(catalogue.runs({ clock, noOutcomeSince: until }))).toEqual(idsOf(waiting));
    for (const name of Object.keys(filters) as (keyof typeof filters)[]) {
      for (const value of filters[name]) {
        const matching = newest.filter((run) => holds[name](run, value as never));
        expect(idsOf(catalogue.runs({ clock, [name]: value }))).toEqual(idsOf(matching));
        expect(catalogue.count({ clock, [name]: value })).toBe(matching.length);
      }
    }
  }
  // Some are found by a call that is not their first.
  const others = [...catalogue.runs({ models: [{ model: 'triage' }] })].filter(
    ({ modelId }) => modelId !== 'triage',
  );
  expect(others.length).toBeGreaterThan(0);
  const [one] = all.filter(({ isRun }) => isRun);
  expect(idsOf(catalogue.run(undefined, one?.recordId ?? ''))).toContain(one?.row);
  expect(catalogue.run(undefined, 'abcdef', 5)).toHaveLength(5);
  expect(catalogue.run(undefined, 'fffffff')).toEqual([]);
  expect(catalogue.run('nobody', 'abcdef')).toEqual([]);
});

test('the record of any event is found, and for one that is not included nothing is returned', async () => {
  const dataDir = await directoryOf(EVENTS);
  const catalogue = opened(emptyDirectory(scratch, 'events'));
  await withLog(dataDir, async (log) => {
    await catalogue.update(log, { through: EVENTS.length - 5 });
    const rowOf = new Map<number, number>();
    for (const run of catalogue.runs()) for (const { sequence } of run.events()) rowOf.set(sequence, run.row);
    for (const [i, { n, organisation }] of EVENTS.entries()) {
      const record = await catalogue.recordOfEvent(log, organisation, id(n));
      expect(record?.row).toBe(rowOf.get(i + 1));
    }
  });
});

test('[R-1020] an abandoned update of most of a log leaves out some indexes, and no query is answered without its own; any later update makes them', async () => {
  const dataDir = await directoryOf(EVENTS);
  const target = 'patient-30977';
  const expected = opened(await madeIn(dataDir)).count({ target });
  const catalogue = opened(emptyDirectory(scratch, 'left'), { mostEntries: 5 });
  await withLog(dataDir, async (log) => {
    const left = new Error('left');
    const onProgress = () => {
      throw left;
    };
    await expect(catalogue.update(log, { onProgress })).rejects.toBe(left);
    expect(() => catalogue.count({ target })).toThrow(CatalogueFault);
    expect(() => [...catalogue.runs({ afterSequence: 1 })]).toThrow(/being updated.* not complete/);
    expect(() => catalogue.count({ order: 'log' })).toThrow(CatalogueFault);
    while (!(await catalogue.update(log, { budgetMs: 0, isLazy: true })).complete);
    expect(expected).toBeGreaterThan(0);
    expect(catalogue.count({ target })).toBe(expected);
    expect([...catalogue.runs({ afterSequence: EVENTS.length - 1 })]).toHaveLength(1);
  });
});

test('each transaction of an update leaves rows that agree with their events', async () => {
  const dataDir = await directoryOf(EVENTS);
  const catalogue = opened(emptyDirectory(scratch, 'unsettled'), { mostEntries: 5 });
  await withLog(dataDir, async (log) => {
    let complete = false;
    while (!complete) {
      ({ complete } = await catalogue.update(log, { budgetMs: 0 }));
      expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, catalogue.cursor.sequence - 1));
    }
    expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, EVENTS.length));
  });
});

test('[R-1020] a circle that an earlier start breaks is in no row, also of a run that has grown meanwhile', async () => {
  const start = { ...STANDARD, kind: 'inference-start', second: 3 } as const;
  const events: SentEvent[] = [
    { ...start, n: 1, run: 501, parent: 2 },
    { ...start, n: 2, run: 502, parent: 1 },
    { ...start, n: 3, run: 501, second: 1 },
    { ...STANDARD, n: 4, run: 502 },
  ];
  const dataDir = await directoryOf(events);
  const catalogue = opened(emptyDirectory(scratch, 'circle'));
  await withLog(dataDir, async (log) => {
    await catalogue.update(log, { through: 2 });
    expect(catalogue.count({ hasConflict: true })).toBe(2);
    await catalogue.update(log);
  });
  expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, events.length));
});

interface Work {
  statements: number;
  changes: number;
  read: number;
}

/** The cost of adding a log, with this many entries per update. */
async function workOf(events: readonly SentEvent[], each: number, isLazy: boolean): Promise<Work> {
  const dataDir = await directoryOf(events);
  const directory = emptyDirectory(scratch, 'work');
  const catalogue = catalogueIn(directory);
  const work = { statements: 0, changes: 0, read: 0 };
  const spies = (['run', 'first', 'all', 'rows'] as const).map((name) =>
    vi.spyOn(Statements.prototype, name),
  );
  const begin = vi.spyOn(Tables.prototype, 'begin');
  await withLog(dataDir, async (log) => {
    const read = log.read.bind(log);
    log.read = (places) => {
      work.read += places.length;
      return read(places);
    };
    for (let through = each; through < events.length; through += each) {
      await catalogue.update(log, { through, isLazy });
    }
    await catalogue.update(log);
  });
  work.statements = spies.reduce((sum, { mock }) => sum + mock.calls.length, 0);
  const tables = begin.mock.contexts[0] as Tables | undefined;
  for (const spy of [...spies, begin]) spy.mockRestore();
  work.changes = Number(tables?.database.prepare('SELECT total_changes() AS n').get()?.['n']);
  expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, events.length));
  catalogue.close();
  return work;
}

const shuffled = (events: readonly SentEvent[]) =>
  events
    .map((event, i) => ({ event, key: (i * 7919) % 10007 }))
    .sort((a, b) => a.key - b.key)
    .map(({ event }) => event);

const chain = (length: number, more: Partial<SentEvent>) =>
  Array.from({ length }, (_, i): SentEvent => ({
    ...STANDARD,
    n: i + 1,
    ...(i > 0 && { parent: i }),
    ...more,
  }));

test.each([
  ['a chain of parents', (n: number) => chain(n, {})],
  ['a chain of parents that comes last first', (n: number) => chain(n, {}).reverse()],
  ['a chain of parents in disorder', (n: number) => shuffled(chain(n, {}))],
  ['runs nested in each other', (n: number) => chain(n, { kind: 'inference-start' })],
  [
    'runs nested in each other that come last first',
    (n: number) => chain(n, { kind: 'inference-start' }).reverse(),
  ],
  ['runs nested in each other in disorder', (n: number) => shuffled(chain(n, { kind: 'inference-start' }))],
  [
    'orphans of one parent',
    (n: number) =>
      Array.from({ length: n }, (_, i): SentEvent => ({
        ...STANDARD,
        n: i + 1,
        parent: i + 1 === n ? null : n,
      })),
  ],
])('[R-1020] the work for %s grows about in proportion to its length', async (_, make) => {
  const small = await workOf(make(150), 40, false);
  const large = await workOf(make(600), 160, false);
  for (const what of ['statements', 'changes', 'read'] as const) {
    expect(large[what], what).toBeLessThan(6 * small[what] + 400);
  }
});

test('[R-1020] a followed run of many events is read about as often as it has doubled', async () => {
  const events = Array.from({ length: 3000 }, (_, i): SentEvent => ({ ...STANDARD, n: i + 1, run: 501 }));
  const { read } = await workOf(events, 60, true);
  // Below 1,024 events it is read with each update, then with each eighth.
  expect(read).toBeLessThan(9000 + 9 * 3000 + 3000);
});

test('[R-1020] the log is not read again for each parent that it does not have', async () => {
  const events = Array.from({ length: 200 }, (_, i): SentEvent => ({
    ...STANDARD,
    n: i + 1,
    parent: 1001 + i,
  }));
  const dataDir = await directoryOf(events);
  const catalogue = opened(emptyDirectory(scratch, 'orphans'), { mostEntries: 50 });
  await withLog(dataDir, async (log) => {
    const pass = vi.spyOn(log, 'pass');
    await catalogue.update(log);
    for (const { n } of events) {
      expect(await catalogue.recordOfEvent(log, 'default', id(1000 + n))).toBeUndefined();
    }
    expect(pass.mock.calls.length).toBeLessThan(10);
  });
  expect(contentsOf(catalogue)).toEqual(await expectedOf(dataDir, events.length));
});
