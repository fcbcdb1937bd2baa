// Updates a catalogue in a process of its own, as the built collector does.
//   node updating-process.mjs DATA CATALOGUE LEDGER ENTRIES MODE
// follow: updates until the log's end, some entries at a time, and prints the last sequence. hold: stays in the middle.
// threads: updates once, with threads that sum.
import { Catalogue } from '../../dist/catalogue/catalogue.js';
import { SummingThreads } from '../../dist/commands/summing-threads.js';
import { openStore } from '../../dist/store/open-to-read.js';

const [dataDir, directory, ledgerId, entries, mode] = process.argv.slice(2);
const catalogue = Catalogue.open({ directory, ledgerId, mostEntries: Number(entries) });
const { events: log } = openStore(dataDir);

if (mode === 'hold') {
  await catalogue.update(log, {
    onProgress: () => {
      process.stdout.write('holding\n');
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    },
  });
}
if (mode === 'threads') {
  await catalogue.update(log, {
    startThreads: () => {
      process.stdout.write('started\n');
      return new SummingThreads(dataDir);
    },
  });
}
// Each update is one batch, so that two such processes take turns.
for (;;) {
  const { cursor, complete } = await catalogue.update(log, { budgetMs: 0 });
  process.stdout.write(`${cursor.sequence - 1}\n`);
  if (complete) break;
}
catalogue.close();
