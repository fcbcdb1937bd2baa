import fs from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RunlessRecords } from '../../src/catalogue/runless-records.js';
import { ID_BYTES } from '../../src/store/contract/events.js';
import { isNoId, uuidText } from '../../src/store/text.js';
import { groupsOf, stored } from '../records/odd-log.js';
import { runEventOf } from '../../src/records/run-event.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { fillDirectory, storedEvents } from '../store/embedded/filled-directory.js';
import { runs } from '../../../../test/property-runs.js';
import { twinLog, withLog } from './made-catalogue.js';

test('[R-1520] two passes over envelopes give each event without a run to the record that has it, in each organisation by itself', async () => {
  await fc.assert(
    fc.asyncProperty(twinLog(40), async (events) => {
      const dataDir = temporaryDirectory();
      try {
        await fillDirectory(dataDir, [events.map(stored)], 8 << 10);
        const found: string[] = [];
        await withLog(dataDir, async (log) => {
          const runless: { organisation: string; id: string; sequence: number }[] = [];
          const records = new RunlessRecords();
          for await (const batch of log.pass()) {
            for (const entry of batch) {
              records.note(entry);
              const { organisation, sequence, source, eventIdAt, runIdAt } = entry;
              if (!isNoId(source, runIdAt)) continue;
              const id = source.toString('latin1', eventIdAt, eventIdAt + ID_BYTES);
              runless.push({ organisation, id, sequence });
            }
          }
          for await (const batch of log.pass()) for (const entry of batch) records.see(entry);
          for (const { organisation, id, sequence } of runless) {
            const { isRun, id: record } = records.recordOf(organisation, id);
            const name = uuidText(Buffer.from(record, 'latin1'));
            found.push(`${sequence} ${organisation} ${isRun ? 'run' : 'event'}:${name}`);
          }
        });
        const expected: string[] = [];
        const all = Array.from(storedEvents(dataDir), runEventOf);
        for (const [organisation, own] of Map.groupBy(all, ({ event }) => event.organisation))
          for (const [key, { events: members }] of groupsOf(own))
            for (const { event } of members)
              if (event.runId === undefined) expected.push(`${event.sequence} ${organisation} ${key}`);
        expect(found.sort()).toEqual(expected.sort());
      } finally {
        fs.rmSync(dataDir, { recursive: true, force: true });
      }
    }),
    { numRuns: runs(100) },
  );
});
