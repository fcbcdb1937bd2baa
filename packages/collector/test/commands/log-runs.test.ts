/** Runs as the log has them, against a model: nested in circles, in organisations with equal ids, with events without a run. */
import { describe, expect, test } from 'vitest';
import { Random, runs, SEED } from '../../../../test/property-runs.js';
import { Holds } from '../../src/commands/lifecycle/holds.js';
import { LogRun, LogRuns, type RecordKey } from '../../src/commands/lifecycle/log-runs.js';
import { idOf } from '../../src/commands/lifecycle/log-pass.js';
import { scratch } from '../running/scratch.js';
import { candidate } from '../store/candidate.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';

interface Sent {
  readonly organisation: string;
  readonly id: string;
  readonly isStart: boolean;
  readonly runId?: string;
  readonly parent?: string;
}

const uuid = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
const [EVENTS, RUNS] = [24, 7];

/** Every event id once in an organisation, in any order; some parents do not exist. */
function sentBy(random: Random): Sent[] {
  const sent: Sent[] = [];
  for (const organisation of ['icu', 'ward'])
    for (let i = 0; i < EVENTS; i++) {
      if (random.chance(4)) continue;
      const isStart = random.chance(3);
      const runId = isStart || random.chance(3) ? uuid(1000 + random.below(RUNS)) : undefined;
      const parent = random.chance(3) ? undefined : uuid(random.below(EVENTS + 4));
      sent.push({
        ...{ organisation, id: uuid(i), isStart },
        ...(runId !== undefined && { runId }),
        ...(parent !== undefined && { parent }),
      });
    }
  return sent
    .map((each) => ({ each, at: random.below(1000) }))
    .sort((a, b) => a.at - b.at)
    .map(({ each }) => each);
}

/** The record of an event, by what was sent; undefined for one that was not. */
function recordIn(sent: readonly Sent[], organisation: string, id: string): string | undefined {
  const passed: string[] = [];
  for (let at: string | undefined = id; ;) {
    if (at !== undefined && passed.includes(at)) return passed.slice(passed.indexOf(at)).toSorted()[0];
    const event = sent.find((each) => each.organisation === organisation && each.id === at);
    if (event === undefined) return passed.at(-1);
    if (event.runId !== undefined) return event.runId;
    passed.push(event.id);
    at = event.parent;
  }
}

/** What each record is nested in, and what is nested in it. */
function graphOf(sent: readonly Sent[], organisation: string): (readonly [inner: string, outer: string])[] {
  return sent.flatMap(({ organisation: its, isStart, runId = '', parent = '' }) => {
    const outer = isStart && its === organisation ? recordIn(sent, organisation, parent) : undefined;
    return outer === undefined || outer === runId ? [] : [[runId, outer] as const];
  });
}

function closure(from: readonly string[], next: (of: string) => readonly string[]): string[] {
  const all = new Set(from);
  for (const each of all) for (const other of next(each)) all.add(other);
  return [...all].sort();
}

const keyOf = (sent: readonly Sent[], organisation: string, id: string): RecordKey => ({
  ...{ organisation, id: idOf(id) },
  isRun: sent.some((each) => each.organisation === organisation && each.runId === id),
});
const idsOf = (found: readonly LogRun[]) => found.map(({ recordId }) => recordId).sort();

describe('[R-1570] runs in the log', () => {
  test.each(Array.from({ length: runs(400, 15) }, (_, i) => SEED + i))(
    'are collected with all that is nested in them and all that they are nested in (seed %i)',
    async (seed) => {
      const random = new Random(seed);
      const sent = sentBy(random);
      const dataDir = scratch();
      const made = sent.map(({ organisation, id, isStart, runId, parent }) =>
        candidate({
          ...{ organisation, eventId: id, kind: isStart ? 'inference-start' : 'outcome' },
          ...(runId !== undefined && { runId }),
          body: { event_id: id, ...(parent !== undefined && { parent_event_id: parent }) },
        }),
      );
      if (made.length === 0) return;
      await fillDirectory(dataDir, [made]);
      const reader = await LogRuns.open(dataDir, new AbortController().signal);
      try {
        for (const organisation of ['icu', 'ward']) {
          const own = sent.filter((each) => each.organisation === organisation);
          for (const { id } of own) {
            const found = await reader.recordOf(organisation, idOf(id));
            expect(found).toEqual(keyOf(sent, organisation, recordIn(sent, organisation, id) ?? ''));
          }
          const records = [...new Set(own.map(({ id }) => recordIn(sent, organisation, id) ?? ''))];
          const seeds = records.filter(() => random.chance(3));
          const graph = graphOf(sent, organisation);
          const nested = closure(seeds, (of) =>
            graph.flatMap(([inner, outer]) => (outer === of ? [inner] : [])),
          );
          const keys = seeds.map((id) => keyOf(sent, organisation, id));
          const all = await reader.collect(keys, { nested: true, outer: true });
          expect(idsOf(all)).toEqual(nested);
          const alone = await reader.collect(keys, { nested: false, outer: true });
          expect(idsOf(alone)).toEqual(seeds.toSorted());
          for (const run of [...all, ...alone]) {
            const events = own.filter(({ id }) => recordIn(sent, organisation, id) === run.recordId);
            expect(run.events.map(({ id }) => id).sort()).toEqual(events.map(({ id }) => idOf(id)).sort());
            const outer = closure([run.recordId], (of) =>
              graph.flatMap((each) => (each[0] === of ? [each[1]] : [])),
            );
            expect(idsOf(run.chain)).toEqual(outer);
          }
        }
      } finally {
        await reader.close();
      }
    },
  );
});

test('[R-1342] a hold on a run covers what has the id of the run as its parent, also if that event never came', () => {
  const [held, other] = [uuid(1), uuid(2)];
  const record = {
    format: 'clinical-events/hold/v1',
    action: uuid(3),
    name: 'CASE-7',
    begun: '',
    salt: '',
  } as const;
  const holds = new Holds([{ ...record, runs: [held], organisations: [], subjects: [] }]);
  const start = { sequence: 1, state: 'read', parent: idOf(held) } as const;
  const event = { sequence: 1, at: 0, size: 0, kind: 'outcome', organisation: 'icu', receivedAt: 0 } as const;
  const [nested, loose, inner] = [true, false, true].map((isRun) => new LogRun('icu', idOf(other), isRun));
  nested?.starts.push(start);
  loose?.events.push({ ...event, id: idOf(other), runId: undefined, parent: idOf(held) });
  if (nested !== undefined) inner?.parents.add(nested);
  for (const run of [nested, loose, inner]) expect(run && holds.on(run, 1)).toEqual(['CASE-7']);
  expect(holds.on(new LogRun('icu', idOf(other), true), 1)).toEqual([]);
});
