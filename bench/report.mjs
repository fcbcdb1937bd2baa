/**
 * Writes bench/RESULTS.md from what `npm run bench -- --json <file>` has left:
 *
 *   node bench/report.mjs bench/results/*.json > RESULTS.md     to standard output
 *   node bench/report.mjs --out bench/RESULTS.md <files>        keeps the notes that stand in the file already
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { FIGURES, isReached, shownBy, targetOf } from './lib/figures.mjs';
import { decimals, gibibytes, mebibytes, spread, whole, withSpread } from './lib/numbers.mjs';
import { PEERS } from './lib/peers.mjs';
import { startsTable } from './lib/starts.mjs';
import { table } from './lib/table.mjs';
import { catalogueTable } from './scenarios/catalogue.mjs';
import { captureTable, drainTable, importLine } from './scenarios/client.mjs';
import { memoryTable, slowClientsLine } from './scenarios/memory.mjs';
import { metricsTable } from './scenarios/metrics.mjs';
import { boundLine, overloadTable, overloadUsageTable } from './scenarios/overload.mjs';
import { otlpBesideTable, otlpMemoryTable, otlpRatios, otlpTable } from './scenarios/otlp.mjs';
import { madeTable, questionsTable } from './scenarios/questions.mjs';
import { treeTable } from './scenarios/tree.mjs';
import { pinnedLine, treeStartsTable, verifyTable } from './scenarios/verify.mjs';

const NOTES = '## Notes';
const COMMANDS = {
  rate: 'npm run bench -- --json bench/results/rate-1.json',
  stored: 'npm run bench -- --scenario stored --data-dir <directory> --json bench/results/stored-1.json',
  memory: 'npm run bench -- --scenario memory --json bench/results/memory-1.json',
  tree: 'npm run bench -- --scenario tree --json bench/results/tree-1.json',
  catalogue: 'npm run bench -- --scenario catalogue --json bench/results/catalogue-1.json',
  metrics: 'npm run bench -- --scenario metrics --rounds 6 --seconds 4 --json bench/results/metrics-1.json',
  overload: 'npm run bench -- --scenario overload --rounds 1 --json bench/results/overload-1.json',
  verify: 'npm run bench -- --scenario verify --json bench/results/verify-1.json',
  records: 'npm run bench -- --scenario records --events 1000000 --json bench/results/records-1.json',
  questions: 'npm run bench -- --scenario questions --json bench/results/questions-1.json',
  otlp: 'npm run bench -- --scenario otlp --json bench/results/otlp-1.json',
  client: 'npm run bench -- --scenario client --rounds 1 --json bench/results/client-1.json',
};

const { values: options, positionals: files } = parseArgs({
  options: { out: { type: 'string' } },
  allowPositionals: true,
});
const results = files
  .map((file) => JSON.parse(readFileSync(file, 'utf8')))
  .sort((a, b) => a.startedAt.localeCompare(b.startedAt));
const of = (scenario) => results.filter((result) => result.scenario === scenario);

function notMeasured(scenario) {
  return `_Not measured yet. To fill in: \`${COMMANDS[scenario]}\`._`;
}

/** The same property of all results: once when they agree, else every value there is. */
function common(pick) {
  const all = [...new Set(results.map(pick).filter((value) => value !== undefined))];
  return all.length === 0 ? '_to fill in_' : all.join('; ');
}

function surroundings() {
  const memory = ({ machine }) => `${gibibytes(machine.memoryBytes)} GiB`;
  const flush = spread(results.map(({ machine }) => machine.flush.p50Ms));
  const version = (name) => common(({ versions }) => versions[name]);
  return table([
    ['Machine and versions', ''],
    ['CPU', common(({ machine }) => `${machine.cores} × ${machine.cpu}`)],
    ['Memory', common(memory)],
    ['System', common(({ machine }) => `${machine.system}, Linux ${machine.kernel}`)],
    ['File system', common(({ machine }) => machine.fileSystem)],
    ['4 KiB and `fdatasync`', results.length > 0 ? `${withSpread(flush)} ms` : '_to fill in_'],
    ['Collector (commit)', version('collector')],
    ['Node', version('node')],
    ['Fastify, pg, PostgreSQL', `${version('fastify')}, ${version('pg')}, ${version('postgres')}`],
    ['Express, SQLite', `${version('express')}, ${version('sqlite')}`],
    ['wrk', version('wrk')],
    ['Measured', common(({ startedAt }) => startedAt.slice(0, 10))],
  ]);
}

function valuesOf(name) {
  return results.map((result) => result.figures[name]).filter((values) => values?.length > 0);
}

/** One column a run: its median, and the range over its rounds. */
function figures() {
  const runs = Math.max(3, ...Object.keys(FIGURES).map((name) => valuesOf(name).length));
  const rows = Object.entries(FIGURES).map(([name, figure]) => {
    const show = shownBy(figure);
    const measured = valuesOf(name);
    const missing = measured.length === 0 ? '_to fill in_' : 'not run';
    const cells = Array.from({ length: runs }, (_, i) =>
      measured[i] === undefined ? missing : withSpread(spread(measured[i]), show),
    );
    const all = measured.flat();
    const summary =
      all.length === 0
        ? ['_to fill in_', '_to fill in_']
        : [withSpread(spread(all), show), isReached(figure, all) ? 'yes' : '**no**'];
    return [figure.title, targetOf(figure), ...cells, ...summary];
  });
  const columns = Array.from({ length: runs }, (_, i) => `Run ${i + 1}`);
  return table([['Figure', 'Target', ...columns, 'All rounds', 'Reached'], ...rows]);
}

function rates() {
  const runs = of('rate');
  if (runs.length === 0) return notMeasured('rate');
  const rounds = runs.flatMap((run) => run.rounds);
  const rows = Object.entries(PEERS).flatMap(([name, { title }]) => {
    const measured = rounds.map((round) => round[name]).filter((peer) => peer !== undefined);
    if (measured.length === 0) return [];
    const over = (pick, show) => withSpread(spread(measured.map(pick)), show);
    return [
      [
        title,
        over(({ rate }) => rate, whole),
        over(
          ({ latencyMs }) => latencyMs.p50,
          (ms) => decimals(ms, 1),
        ),
        over(
          ({ latencyMs }) => latencyMs.p99,
          (ms) => decimals(ms, 1),
        ),
        over(({ memory }) => memory.peak, mebibytes),
        over((peer) => (peer.cpuSeconds / peer.measured) * 1e6, whole),
        over(({ generatorCpu }) => generatorCpu),
        whole(measured.reduce((sum, { failures }) => sum + failures, 0)),
      ],
    ];
  });
  const heading = ['Peer', '201/s', 'p50 ms', 'p99 ms', 'peak RSS MiB', 'CPU µs/event', 'wrk CPU', 'not 201'];
  const { options: load } = runs[0];
  const how =
    `Each run: ${load.rounds} rounds, every peer in turn in each, ${load.warmup} s to warm up and ` +
    `${load.seconds} s measured, ${load.connections} keep-alive connections. Shown are medians, and in brackets ` +
    'the lowest and the highest round.';
  return `${how}\n\n${table([heading, ...rows])}`;
}

function storedRates() {
  const runs = of('stored');
  if (runs.length === 0) return notMeasured('stored');
  const rows = runs.flatMap(({ rounds }, run) =>
    rounds.flatMap((round, i) =>
      ['empty', 'filled'].map((which) => [
        `${run + 1}.${i + 1}`,
        which,
        whole(round[which].events),
        whole(round[which].rate),
        decimals(round[which].latencyMs.p50, 1),
        decimals(round[which].latencyMs.p99, 1),
        mebibytes(round[which].memoryAtStart.rss),
        mebibytes(round[which].memory.peak),
      ]),
    ),
  );
  const heading = ['Round', 'Ledger', 'events before', '201/s', 'p50 ms', 'p99 ms', 'RSS at start MiB'];
  const { filled } = runs[0];
  const size = `${whole(filled.events)} events take ${gibibytes(filled.diskBytes)} GiB on the disk.`;
  return `${size}\n\n${table([[...heading, 'peak MiB'], ...rows])}`;
}

function starts() {
  const runs = [...of('stored'), ...of('start')];
  if (runs.length === 0) return notMeasured('stored');
  const some = (cold) => runs.filter((run) => (run.options.cold ?? false) === cold);
  const part = (title, list) =>
    list.length === 0 ? [] : [`${title}\n\n${startsTable(list.flatMap((run) => run.starts))}`];
  const warm = part('The files in the page cache, as they are when a service starts again:', some(false));
  const cold = part('The files not in the page cache (`--cold`), as after a reboot:', some(true));
  return [...warm, ...cold].join('\n\n');
}

function memory() {
  const runs = of('memory');
  if (runs.length === 0) return notMeasured('memory');
  return runs.map(({ phases }) => `${memoryTable(phases)}\n\n${slowClientsLine(phases)}`).join('\n\n');
}

/** Pairs of what a round is called and what was measured in it. */
function titledRounds(runs) {
  return runs.flatMap(({ rounds }, run) => rounds.map((round, i) => [`${run + 1}.${i + 1}`, round]));
}

function treeCost() {
  const runs = of('tree');
  if (runs.length === 0) return notMeasured('tree');
  const { options: load } = runs[0];
  const how =
    `The collector with its tree and without it, in turn, each on an empty ledger: ${load.warmup} s to warm up and ` +
    `${load.seconds} s measured, ${load.connections} keep-alive connections.`;
  return `${how}\n\n${treeTable(titledRounds(runs))}`;
}

function catalogueCost() {
  const runs = of('catalogue');
  return runs.length === 0 ? notMeasured('catalogue') : catalogueTable(titledRounds(runs));
}

function questions() {
  const runs = of('questions');
  if (runs.length === 0) return notMeasured('questions');
  const making = 'The catalogues that they are answered from, each rebuilt by one command:';
  return `${questionsTable(titledRounds(runs))}\n\n${making}\n\n${madeTable(runs.flatMap(({ made }) => made))}`;
}

function metricsCost() {
  const runs = of('metrics');
  if (runs.length === 0) return notMeasured('metrics');
  const { options: load } = runs[0];
  const how =
    'The collector with its metrics, scraped as Prometheus does or every second, and with nothing that counts, in ' +
    `turn, each on an empty ledger: ${load.warmup} s to warm up and ${load.seconds} s measured, ` +
    `${load.connections} keep-alive connections.`;
  return `${how}\n\n${metricsTable(titledRounds(runs))}`;
}

function overloaded() {
  const runs = of('overload');
  if (runs.length === 0) return notMeasured('overload');
  const { options: load } = runs[0];
  const how =
    `The greedy sender has ${whole(load.sockets)} connections; each phase lasts ${load.seconds} s, and the generator is ` +
    `an open loop. ${boundLine(runs.every(({ bound }) => bound))}`;
  const rounds = titledRounds(runs);
  return `${how}\n\n${overloadUsageTable(rounds)}\n\n${overloadTable(rounds)}`;
}

async function records() {
  const runs = of('records');
  if (runs.length === 0) return notMeasured('records');
  // Only now: it needs the packages of the bench, which anyone who reports on something else may not have.
  const { recordsTable } = await import('./scenarios/records.mjs');
  return recordsTable(titledRounds(runs));
}

function verifying() {
  const runs = of('verify');
  if (runs.length === 0) return notMeasured('verify');
  const pinned = pinnedLine(runs.every((measured) => measured.pinned));
  const again =
    'A start on the larger ledger, with the files of its tree as they were left and with them removed:';
  const startRows = treeStartsTable(runs.map((measured) => measured.starts));
  return [verifyTable(titledRounds(runs)), pinned, again, startRows].join('\n\n');
}

function otlp() {
  const runs = of('otlp');
  if (runs.length === 0) return notMeasured('otlp');
  const ratios = otlpRatios(runs.flatMap(({ rounds }) => rounds)).map((line) => `- ${line}`);
  const more = runs.flatMap(({ memory: watched, beside }) => [
    otlpMemoryTable(watched),
    otlpBesideTable(beside),
  ]);
  return [otlpTable(titledRounds(runs)), ratios.join('\n'), ...more].join('\n\n');
}

function client() {
  const runs = of('client');
  if (runs.length === 0) return notMeasured('client');
  const rounds = titledRounds(runs);
  const { options: load } = runs[0];
  const how =
    'Events of 1,200 bytes. A call of capture at 5,000 events/s in `os` mode, with no collector there and while one ' +
    'takes them; 20,000 events/s offered in `fsync` mode; and a backlog that is captured at full speed with no ' +
    'collector there:';
  const drain =
    `The backlog is then sent by a new process to a collector. Its rate is that of wrk (${load.connections} ` +
    `connections, ${load.seconds} s) before and behind it, on average:`;
  return [how, captureTable(rounds), drain, drainTable(rounds), importLine(rounds)].join('\n\n');
}

function notes() {
  const text = options.out !== undefined && existsSync(options.out) ? readFileSync(options.out, 'utf8') : '';
  const at = text.indexOf(`${NOTES}\n`);
  return at < 0 ? `${NOTES}\n\n_To fill in: what stands out, and why._\n` : text.slice(at);
}

const report = `# Results

Written by \`node bench/report.mjs\` from the measurements' JSON; only the notes at the end are written by hand. What
each number means stands in [README.md](README.md).

${surroundings()}

## Figures to reach

Rates and their ratios are judged by the median of all rounds, memory and times by the worst.

${figures()}

## Beside the peers

${rates()}

## On a filled ledger

${storedRates()}

## Start-up

${starts()}

## The tree

${treeCost()}

## The catalogue

${catalogueCost()}

## Metrics

${metricsCost()}

## Overload

${overloaded()}

## verify

${verifying()}

## Records

${await records()}

## Questions

${questions()}

## OTLP

${otlp()}

## The client

${client()}

## Memory

${memory()}

## To repeat this

On a machine with nothing else to do, three times each:

\`\`\`
${Object.values(COMMANDS).join('\n')}
\`\`\`

Then \`node bench/report.mjs --out bench/RESULTS.md bench/results/*.json\`.

${notes()}`;

if (options.out === undefined) process.stdout.write(report);
else writeFileSync(options.out, report);
