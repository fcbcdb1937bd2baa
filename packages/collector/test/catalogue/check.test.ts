import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import fc from 'fast-check';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { Catalogue } from '../../src/catalogue/catalogue.js';
import { checkCatalogue, type CatalogueCheck } from '../../src/catalogue/check.js';
import { nodeFiles } from '../../src/files.js';
import { ownEntry } from '../../src/ledger/own-entry.js';
import { actionFields } from '../../src/privacy/actions.js';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import { compactedAt, compactLog, erasuresIn } from '../../src/store/embedded/compaction.js';
import { EmbeddedStore } from '../../src/store/embedded/embedded-store.js';
import { LogReader } from '../../src/store/embedded/log-reader.js';
import { uuidText } from '../../src/store/text.js';
import { id } from '../records/run-events.js';
import { stored } from '../records/odd-log.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { encryptionIn, fillDirectory } from '../store/embedded/filled-directory.js';
import { runs } from '../../../../test/property-runs.js';
import { twinLog } from './made-catalogue.js';

/** The same log each time. */
const EVENTS =
  fc.sample(twinLog(120), { numRuns: 40, seed: 14 }).sort((a, b) => b.length - a.length)[0] ?? [];
const FIRST_PART = EVENTS.slice(0, 60);

let dataDir: string;
let directory: string;

beforeEach(() => {
  dataDir = temporaryDirectory();
  directory = path.join(dataDir, 'catalogue');
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

const fill = (events: typeof EVENTS, encrypted = false) =>
  fillDirectory(dataDir, [events.map(stored)], 16 << 10, encrypted ? encryptionIn(dataDir) : undefined);

async function withLog<Result>(use: (log: LogReader) => Promise<Result>): Promise<Result> {
  const log = new LogReader(dataDir, nodeFiles);
  try {
    return await use(log);
  } finally {
    await log.close();
  }
}

function update(through?: number): Promise<void> {
  return withLog(async (log) => {
    const catalogue = Catalogue.open({
      ...{ directory, ledgerId: log.ledgerId, names: log.names, mostEntries: 7 },
    });
    await catalogue.update(log, through === undefined ? {} : { through });
    catalogue.close();
  });
}

async function checked(): Promise<CatalogueCheck> {
  const scratch = fs.mkdtempSync(path.join(dataDir, 'scratch-'));
  const check = await withLog((log) => checkCatalogue(log, { directory, scratch }));
  fs.rmSync(scratch, { recursive: true });
  return check;
}

const RIGHT = { state: 'compared', differing: 0, named: [], isCounted: true };

function edit<Result>(use: (database: DatabaseSync) => Result): Result {
  using database = new DatabaseSync(path.join(directory, 'catalogue.sqlite'));
  return use(database);
}

interface Found {
  readonly id: number;
  readonly record: string;
}

/** Runs of more than one event that match a condition. */
function found(condition = '1'): Found[] {
  const sql = `SELECT id, record FROM run WHERE is_run = 1 AND events > 1 AND ${condition} ORDER BY id`;
  return edit((database) =>
    database
      .prepare(sql)
      .all()
      .map(({ id, record }) => ({ id: Number(id), record: uuidText(record as Uint8Array) })),
  );
}

describe('[R-703] a difference between the catalogue and the log is found:', () => {
  beforeEach(async () => {
    await fill(EVENTS);
    await update();
  });

  /** What is done to the row of a run, and how it is found. */
  test.each([
    ['a missing row', 'DELETE FROM run WHERE id = :run', 'missing'],
    ['the model', 'UPDATE run SET model = (SELECT max(id) FROM name) WHERE id = :run', 'differs'],
    ['the version', 'UPDATE run SET version = NULL WHERE id = :run', 'differs'],
    ['the user', 'UPDATE run SET user = NULL WHERE id = :run', 'differs'],
    ['an unknown user', 'UPDATE run SET user = 4711 WHERE id = :run', 'differs'],
    ['the target', 'UPDATE run SET target = organisation WHERE id = :run', 'differs'],
    ['the application', 'UPDATE run SET application = 1 WHERE id = :run', 'differs'],
    [
      'the organisation',
      'UPDATE run SET organisation = (SELECT max(id) FROM name) WHERE id = :run',
      'differs',
    ],
    [
      'the time of its start',
      'UPDATE run SET began_received = began_received + 1 WHERE id = :run',
      'differs',
    ],
    [
      'a time beyond a double',
      'UPDATE run SET began_sender = 9223372036854775807 WHERE id = :run',
      'differs',
    ],
    [
      'the number of its events',
      'UPDATE run SET events = events + 1, summed = summed + 1 WHERE id = :run',
      'differs',
    ],
    ['its last event', 'UPDATE run SET last_sequence = last_sequence + 1 WHERE id = :run', 'differs'],
    ['its outcome', 'UPDATE run SET outcome = outcome + 1 WHERE id = :run', 'differs'],
    ['its contradictions', 'UPDATE run SET conflicts = conflicts + 1 WHERE id = :run', 'differs'],
    ['the run around it', 'UPDATE run SET parent = 4711 WHERE id = :run', 'differs'],
    ['the place of an event', 'UPDATE event SET at = at + 1 WHERE run = :run', 'differs'],
    ['the times of its events', 'UPDATE event SET sent = sent + 1 WHERE run = :run', 'differs'],
    ['the kinds of its events', 'UPDATE event SET kind = kind + 1 WHERE run = :run', 'differs'],
    ['its events', 'DELETE FROM event WHERE run = :run', 'differs'],
  ])('%s', async (_, sql, how) => {
    const run =
      found(
        'version IS NOT NULL AND user IS NOT NULL AND target IS NOT NULL AND parent IS NULL AND id NOT IN (SELECT parent FROM run WHERE parent)',
      )[0] ?? expect.unreachable();
    edit((database) => database.prepare(sql).run({ run: run.id }));
    expect(await checked()).toMatchObject({
      ...{ state: 'compared', differing: 1 },
      named: [{ recordId: run.record, isRun: true, found: how }],
    });
  });

  test.each([
    ['the model of a call', 'UPDATE call SET model = NULL WHERE run = :run AND number = 2'],
    ['the tokens of a call', 'UPDATE call SET input_tokens = 4711 WHERE run = :run AND number = 1'],
    ['a missing call', 'DELETE FROM call WHERE run = :run AND number = 1'],
    ['calls of a run that does not exist', 'UPDATE call SET run = -run WHERE run = :run'],
  ])('%s [R-1836]', async (_, sql) => {
    const run = found('id IN (SELECT run FROM call WHERE number = 2 AND model IS NOT NULL)')[0];
    if (run === undefined) expect.unreachable();
    edit((database) => database.prepare(sql).run({ run: run.id }));
    expect(await checked()).toMatchObject({
      differing: 1,
      named: [{ recordId: run.record, found: 'differs' }],
    });
  });

  test('a row of a run that does not exist', async () => {
    edit((database) => {
      database.exec(`CREATE TABLE copied AS SELECT * FROM run WHERE id = ${found()[0]?.id}`);
      database.exec(`UPDATE copied SET id = 4711, record = x'${id(7000).replaceAll('-', '')}'`);
      database.exec('INSERT INTO run SELECT * FROM copied; DROP TABLE copied');
    });
    expect(await checked()).toMatchObject({
      ...{
        differing: 1,
        named: [{ recordId: id(7000), organisation: expect.any(String) as string, found: 'unknown' }],
      },
    });
  });

  test('an event that was moved to another run, or removed from its run', async () => {
    const [from, to] = found();
    if (from === undefined || to === undefined) expect.unreachable();
    edit((database) =>
      database.exec(`UPDATE event SET run = ${to.id}
        WHERE run = ${from.id} AND sequence = (SELECT max(sequence) FROM event WHERE run = ${from.id})`),
    );
    const { named } = (await checked()) as Extract<CatalogueCheck, { named: unknown }>;
    expect(named.map(({ recordId }) => recordId).sort()).toEqual([from.record, to.record].sort());
  });

  test('an event without a run that was given to another record', async () => {
    edit((database) =>
      database.exec(
        'UPDATE runless SET run = (SELECT max(id) FROM run WHERE id <> runless.run) WHERE event = (SELECT min(event) FROM runless)',
      ),
    );
    expect(await checked()).toMatchObject({ state: 'compared', differing: 2 });
  });

  test('the totals: the tally, the events, the newest of them', async () => {
    expect(await checked()).toMatchObject(RIGHT);
    for (const sql of [
      'UPDATE tally SET orphan_events = orphan_events + 1 WHERE hour = (SELECT max(hour) FROM tally)',
      "UPDATE meta SET value = value + 1 WHERE name = 'events'",
      "DELETE FROM meta WHERE name = 'newest_event'",
    ]) {
      edit((database) => database.exec(sql));
      expect([sql, await checked()]).toMatchObject([sql, { differing: 0, isCounted: false }]);
      fs.rmSync(directory, { recursive: true });
      await update();
    }
  });

  test('other tables than those of a catalogue', async () => {
    for (const sql of [
      'CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM run; END',
      'DROP INDEX run_parent',
      'DROP INDEX name_text',
      'DROP TABLE event',
      'DROP VIEW runs',
      'DROP TABLE meta',
    ]) {
      edit((database) => database.exec(sql));
      expect([sql, await checked()]).toEqual([sql, { state: 'damaged' }]);
      fs.rmSync(directory, { recursive: true });
      await update();
    }
    // An unfinished update has none.
    edit((database) => database.exec('DROP INDEX run_target'));
    expect(await checked()).toMatchObject(RIGHT);
  });

  test('a catalogue of another log, another history, or more than the log has; a missing one is no difference', async () => {
    edit((database) => database.exec("UPDATE meta SET value = 'cd' WHERE name = 'ledger'"));
    expect(await checked()).toEqual({ state: 'foreign' });
    fs.rmSync(directory, { recursive: true });
    expect(await checked()).toEqual({ state: 'none' });
    await update();
    edit((database) => database.exec("UPDATE meta SET value = value + 1 WHERE name = 'newest_at'"));
    expect(await checked()).toEqual({ state: 'foreign' });
    edit((database) => {
      database.exec("UPDATE meta SET value = value - 1 WHERE name = 'newest_at'");
      database.exec("UPDATE meta SET value = value + 9 WHERE name = 'sequence'");
    });
    expect(await checked()).toEqual({ state: 'foreign' });
    edit((database) => database.exec("UPDATE meta SET value = 'many' WHERE name = 'sequence'"));
    expect(await checked()).toEqual({ state: 'damaged' });
    edit((database) => database.exec('PRAGMA user_version = 1'));
    expect(await checked()).toEqual({ state: 'old' });
  });
});

test('[R-703] events that the log got later are no difference, wherever an update ended', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: EVENTS.length }), { maxLength: 4 }), async (cuts) => {
      fs.rmSync(directory, { recursive: true, force: true });
      for (const through of [1, ...cuts.sort((a, b) => a - b)]) {
        await update(through);
        expect(await checked()).toMatchObject({ ...RIGHT, through });
      }
    }),
    { numRuns: (await fill(EVENTS), runs(50)) },
  );
});

test('[R-703] a catalogue that is written during a comparison is compared as of one moment', async () => {
  await fill(FIRST_PART);
  await update();
  const checks: CatalogueCheck[] = [];
  const done = { isWritten: false };
  const writing = withLog(async (log) => {
    const store = await EmbeddedStore.open({
      directory: dataDir,
      segmentBytes: 16 << 10,
      onTrouble: () => undefined,
    });
    const catalogue = Catalogue.open({ directory, ledgerId: log.ledgerId, mostEntries: 3 });
    for (const event of EVENTS.slice(FIRST_PART.length)) {
      await store.append([stored(event)]);
      await catalogue.update(log);
    }
    await store.close();
    done.isWritten = true;
    return catalogue;
  });
  while (!done.isWritten) checks.push(await checked());
  (await writing).close();
  expect(checks.length).toBeGreaterThan(1);
  for (const check of checks) expect(check).toMatchObject(RIGHT);
});

describe('of an encrypted log', () => {
  beforeEach(async () => {
    await fill(FIRST_PART, true);
    await update();
  });

  async function erase(erasedRuns: readonly Found[], organisation: string): Promise<void> {
    const sql = `SELECT sequence, at, size FROM event WHERE run IN (${erasedRuns.map(({ id: row }) => row).join()})`;
    const entries = edit((database) => database.prepare(sql).all()).map(({ sequence, at, size }) => ({
      ...{ sequence: Number(sequence), at: Number(at), size: Number(size) },
    }));
    const [tag = 0] = await withLog((log) => Promise.resolve(log.buckets(entries)));
    const sequences = SequenceSet.of(entries.map(({ sequence }) => sequence));
    const keys = [{ tag, organisation, sequences }];
    const erased = { action: randomUUID(), does: 'erase', reason: 'test-data', part: 1, parts: 1 } as const;
    const entry = ownEntry(ENTRY_KINDS.lifecycleAction, 'lifecycle000', actionFields({ ...erased, keys }));
    await fillDirectory(dataDir, [[entry]], 16 << 10, encryptionIn(dataDir));
  }

  test('[R-703] a name that was sealed with another key', async () => {
    expect(await checked()).toMatchObject(RIGHT);
    const elsewhere = path.join(dataDir, 'elsewhere');
    await fillDirectory(elsewhere, [FIRST_PART.map(stored)], 16 << 10, encryptionIn(elsewhere));
    const log = new LogReader(elsewhere, nodeFiles);
    const sealed = log.names?.seal('patient-30977') ?? expect.unreachable();
    await log.close();
    const run = found('target IS NOT NULL')[0] ?? expect.unreachable();
    edit((database) => {
      database.prepare('INSERT INTO name (id, text) VALUES (4242, ?)').run(sealed);
      database.prepare('UPDATE run SET target = 4242 WHERE id = ?').run(run.id);
    });
    expect(await checked()).toMatchObject({
      differing: 1,
      named: [{ recordId: run.record, found: 'differs' }],
    });
    edit((database) => database.prepare('UPDATE run SET organisation = 4711 WHERE id = ?').run(run.id));
    expect(await checked()).toMatchObject({ named: [{ recordId: run.record, organisation: null }] });
  });

  test('[R-703] without the keys nothing can be compared', async () => {
    fs.renameSync(path.join(dataDir, 'encryption-keys'), path.join(dataDir, 'away'));
    expect(await checked()).toEqual({ state: 'closed' });
  });

  test('[R-703] an erasure that is not applied yet is no difference, and hides none', async () => {
    const name = (organisation: string) => `organisation = ${numberOf(organisation)}`;
    const [kept, erased, ...others] = found(`target IS NOT NULL AND circle IS NULL AND ${name('default')}`);
    if (erased === undefined || kept === undefined) expect.unreachable();
    await erase([erased, ...others], 'default');
    expect(await checked()).toMatchObject(RIGHT);
    edit((database) => database.prepare('UPDATE run SET target = organisation WHERE id = ?').run(kept.id));
    expect(await checked()).toMatchObject({ differing: 1, named: [{ recordId: kept.record }] });
    const first =
      'DELETE FROM event WHERE run = :run AND sequence = (SELECT min(sequence) FROM event WHERE run = :run)';
    edit((database) => database.prepare(first).run({ run: erased.id }));
    expect(await checked()).toMatchObject({ differing: 2 });
    fs.rmSync(directory, { recursive: true });
    await update();
    expect(await checked()).toMatchObject(RIGHT);
    await erase(found(name('default')), 'default');
    await update();
    const erasures = await withLog((log) => Promise.resolve(erasuresIn(log.actions())));
    await compactLog(dataDir, erasures, { onTrouble: () => expect.unreachable() });
    expect(compactedAt(dataDir, erasures.at(-1) ?? expect.unreachable())).toBeDefined();
    expect(await checked()).toMatchObject(RIGHT);
  });

  /** Names are encrypted, so it is found by an event of it. */
  function numberOf(organisation: string): number {
    for (const run of found()) {
      const sql = 'SELECT sequence FROM event WHERE run = ?';
      const events = edit((database) => database.prepare(sql).all(run.id));
      if (!events.some(({ sequence }) => FIRST_PART[Number(sequence) - 1]?.organisation === organisation))
        continue;
      return edit((database) =>
        Number(database.prepare('SELECT organisation FROM run WHERE id = ?').get(run.id)?.['organisation']),
      );
    }
    return expect.unreachable();
  }
});
