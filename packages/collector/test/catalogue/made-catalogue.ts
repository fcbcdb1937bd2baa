/** Catalogues of made-up logs, and their expected content, from records that are made in the simple way. */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { Catalogue, type CatalogueRun, type Tally } from '../../src/catalogue/catalogue.js';
import { summaryOf } from '../../src/catalogue/run-summary.js';
import { assembleRun } from '../../src/records/assemble.js';
import { modelVersionOf, stringOf } from '../../src/records/exports/record-columns.js';
import { runEventOf, type RunEvent } from '../../src/records/run-event.js';
import { nodeFiles } from '../../src/files.js';
import { LogReader } from '../../src/store/embedded/log-reader.js';
import type { EventLog } from '../../src/store/contract/events.js';
import { groupsOf, oddLog, recordsOf, type SentEvent } from '../records/odd-log.js';

export const LEDGER = 'ab'.repeat(16);

/** Logs of two organisations whose events have the same ids. */
export function twinLog(most: number): fc.Arbitrary<SentEvent[]> {
  return oddLog(most, 'max').map((events) => {
    const counts = new Map<string, number>();
    return events.map((event) => {
      const n = (counts.get(event.organisation) ?? 0) + 1;
      counts.set(event.organisation, n);
      return { ...event, n };
    });
  });
}

export async function withLog<Result>(
  dataDir: string,
  use: (log: EventLog) => Promise<Result>,
): Promise<Result> {
  const log = new LogReader(dataDir, nodeFiles);
  try {
    return await use(log);
  } finally {
    await log.close();
  }
}

/** The values of a row and of its queries, apart from its number. */
function said(catalogue: Catalogue, run: CatalogueRun) {
  return {
    ...run,
    row: undefined,
    ratings: [...run.ratings],
    children: catalogue.children(run),
    cycle: catalogue.cycle(run),
    events: run.events().map(({ sequence, kind, receivedAt, sentAt }) => ({
      sequence,
      kind,
      receivedAt,
      sentAt,
    })),
  };
}

export type Said = ReturnType<typeof said>;

/** All values in a catalogue, by organisation, kind of record and id. */
export function contentsOf(catalogue: Catalogue): Map<string, Said> {
  const runs = [...catalogue.runs({ order: 'log' })];
  return new Map(
    runs.map((run) => [
      `${run.organisation} ${run.isRun ? 'run' : 'event'}:${run.recordId}`,
      said(catalogue, run),
    ]),
  );
}

interface CallRow {
  readonly run_id: string;
  readonly organisation: string;
  readonly model: string | null;
  readonly version: string | null;
  readonly user: string | null;
  readonly target: string | null;
  readonly call: string | null;
}

const CALLS = 'SELECT * FROM calls ORDER BY run_id, organisation, number';

/** The rows of the view of calls. */
export function callsIn(directory: string): CallRow[] {
  using database = new DatabaseSync(path.join(directory, 'catalogue.sqlite'), { readOnly: true });
  return database
    .prepare(CALLS)
    .all()
    .map((row) => ({ ...(row as unknown as CallRow), run: undefined }));
}

/** The expected rows, from the records. */
export async function expectedCallsOf(dataDir: string): Promise<object[]> {
  const log = await eventsIn(dataDir);
  return [...Map.groupBy(log, ({ event }) => event.organisation)]
    .flatMap(([organisation, events]) =>
      [...recordsOf(events).values()].flatMap(({ metadata: { run_id, calls } }) =>
        calls.map(({ model, user, target, ended }, i) => {
          return {
            ...{ run: undefined, run_id, organisation, number: i + 1, model: model?.model_id ?? null },
            version: stringOf(modelVersionOf(model, ended)) ?? null,
            ...{ user: user?.caller_id ?? null, target: target?.target_id ?? null },
            ...{
              call: ended?.ending ?? null,
              status: ended?.status ?? null,
              attempts: ended?.attempts ?? null,
            },
            ...{ input_tokens: ended?.input_tokens ?? null, output_tokens: ended?.output_tokens ?? null },
          };
        }),
      ),
    )
    .sort((a, b) => compare(a.run_id ?? '', b.run_id ?? '') || compare(a.organisation, b.organisation));
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The expected tally: the sum of all records. */
export function tallied(contents: ReadonlyMap<string, Said>): Omit<Tally, 'since' | 'events'> {
  const said = [...contents.values()];
  const began = said.filter(({ isRun, missing }) => isRun && !missing.includes('inference-start'));
  const of = (wanted: Said['level']) => began.filter(({ level }) => level === wanted).length;
  return {
    ...{ full: of('full'), minimum: of('minimum'), incomplete: of('incomplete'), erased: of('erased') },
    withoutOutcome: began.filter(({ outcome }) => outcome === 'none').length,
    orphanEvents: said.reduce((sum, { orphanEvents }) => sum + orphanEvents, 0),
  };
}

function eventsIn(dataDir: string): Promise<RunEvent[]> {
  return withLog(dataDir, async (reader) => {
    const events: RunEvent[] = [];
    for await (const batch of reader.scan({})) for (const event of batch) events.push(runEventOf(event));
    return events;
  });
}

/** Its expected rows for the log up to a sequence. */
export async function expectedOf(dataDir: string, through: number): Promise<Map<string, Said>> {
  const log = await eventsIn(dataDir);
  const expected: [string, Said][] = [];
  const taken = log.filter(({ event }) => event.sequence <= through);
  for (const [organisation, events] of Map.groupBy(taken, ({ event }) => event.organisation)) {
    for (const [key, made] of groupsOf(events)) {
      const run = assembleRun(made.events, made.links);
      const entries = run.metadata.events.map(({ event, body }) => ({
        ...{ sequence: event.sequence, kind: event.kind, receivedAt: event.receivedAt },
        sentAt: body && Date.parse(body.timestamp),
      }));
      const { children, cycle } = made.links;
      expected.push([
        `${organisation} ${key}`,
        {
          ...summaryOf(run),
          row: undefined,
          ...{ children: [...children], cycle, events: entries.sort((a, b) => a.sequence - b.sequence) },
        } as Said,
      ]);
    }
  }
  return new Map(expected);
}

export function catalogueIn(
  directory: string,
  more: Partial<Parameters<typeof Catalogue.open>[0]> = {},
): Catalogue {
  return Catalogue.open({ directory, ledgerId: LEDGER, ...more });
}

export function emptyDirectory(scratch: string, name: string): string {
  return path.join(fs.mkdtempSync(path.join(scratch, `${name}-`)), 'catalogue');
}
