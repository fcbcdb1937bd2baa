/** Rate, memory and start-up time with ten million stored events, beside an empty log. */
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { createKey, startCollector, stopCollector } from '../lib/collector.mjs';
import { bytesOnDisk } from '../lib/disk.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { filledLedger } from '../lib/filled.mjs';
import { measure } from '../lib/measure.mjs';
import { decimals, gibibytes, mebibytes, whole } from '../lib/numbers.mjs';
import { usageOf } from '../lib/procfs.mjs';
import { measureStarts, startFigures, startsTable } from '../lib/starts.mjs';
import { table } from '../lib/table.mjs';

async function measureLedger({ directory, key, options, seeds }) {
  const more = ['--encryption', options.encrypted ? 'on' : 'off'];
  const collector = await startCollector(directory, key, { more });
  const atStart = usageOf(collector.pid);
  const result = await measure(collector, { key, options, seeds });
  await stopCollector(collector);
  const { events } = collector.opened;
  return {
    ...result,
    events,
    memoryAtStart: { rss: atStart.rss, peak: atStart.peak },
    start: collector.start,
  };
}

function roundTable(round) {
  const rows = Object.entries(round).map(([which, { events, rate, latencyMs, memory, ...rest }]) => [
    which,
    whole(events),
    whole(rate),
    decimals(latencyMs.p50, 1),
    decimals(latencyMs.p99, 1),
    mebibytes(rest.memoryAtStart.rss),
    mebibytes(memory.rss),
    mebibytes(memory.peak),
    whole(rest.failures),
  ]);
  const heading = ['Ledger', 'events before', '201/s', 'p50 ms', 'p99 ms', 'RSS at start MiB', 'RSS MiB'];
  return table([[...heading, 'peak MiB', 'not 201'], ...rows]);
}

export async function stored({ options, seeds, say, print }) {
  const ledger = await filledLedger({ options, say });
  const { filled } = ledger;
  const rate = filled.appended > 0 ? `, filled with ${whole(filled.appended / filled.seconds)} a second` : '';
  print(`\n${whole(filled.events)} events take ${gibibytes(filled.diskBytes)} GiB${rate}.`);

  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    const round = {};
    for (const which of i % 2 === 0 ? ['empty', 'filled'] : ['filled', 'empty']) {
      say(`round ${i + 1} of ${options.rounds}: the ${which} ledger`);
      if (which === 'filled') round.filled = await measureLedger({ ...ledger, options, seeds });
      else {
        const directory = temporaryDirectory(options.scratch, 'empty');
        const { key } = await createKey(directory);
        round.empty = await measureLedger({ directory, key, options, seeds });
        removeDirectory(directory);
      }
    }
    rounds.push(round);
    print(`\nRound ${i + 1}\n\n${roundTable(round)}`);
  }
  const starts = await measureStarts({ ...ledger, options, seeds, say });
  print(`\n${startsTable(starts)}`);
  const diskBytesAfter = bytesOnDisk(ledger.directory);
  removeDirectory(ledger.directory);

  const figures = {
    'stored/rate': rounds.map((round) => round.filled.rate / round.empty.rate),
    'stored/rss': rounds.map((round) => round.filled.memory.peak / (1 << 20)),
    ...startFigures(starts),
  };
  print(`\n${figuresTable(figures)}`);
  const failures = rounds.reduce((sum, round) => sum + round.filled.failures + round.empty.failures, 0);
  return { filled: { ...filled, diskBytesAfter }, rounds, starts, figures, failures };
}
