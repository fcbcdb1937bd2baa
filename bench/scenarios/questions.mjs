/** Times of questions to a large and a small log, and the cost of their catalogues. */
import fs from 'node:fs';
import path from 'node:path';
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { demoLedger } from '../lib/demo-ledger.mjs';
import { figuresTable } from '../lib/figures.mjs';
import { decimals, mebibytes, median, whole } from '../lib/numbers.mjs';
import { table } from '../lib/table.mjs';
import { timedCommand } from '../lib/timed-command.mjs';

const SMALL_EVENTS = 100_000;
const NEWER_EVENTS = 100;

const linesOf = (stdout) => stdout.split('\n').filter((line) => line !== '');

/** Makes the catalogue. @returns its size and cost, and the commands that are measured, by name. */
async function ledgerWithCatalogue(directory, scratch) {
  const of = ['--data-dir', directory];
  const catalogue = path.join(directory, 'catalogue');
  fs.rmSync(catalogue, { recursive: true, force: true });
  const made = await timedCommand('runs', [...of, '--limit', '1000', '--json']);
  const runs = linesOf(made.stdout).map((line) => JSON.parse(line));
  const { record_id: run, target_id: target } = runs.find(({ target_id: id }) => id !== null);
  const stored = await timedCommand('events', [...of, '--run', run]);
  const { event_id: event } = JSON.parse(JSON.parse(linesOf(stored.stdout)[0]).body);
  const out = path.join(scratch, 'answer');
  const reported = await timedCommand('report', [...of, '--json', '--out', out]);
  const { log } = JSON.parse(reported.stdout);
  fs.rmSync(out);
  const bytes = fs.statSync(path.join(catalogue, 'catalogue.sqlite')).size;
  return {
    ...{ events: log.events, made: { ...made, stdout: undefined }, bytes },
    questions: {
      'records --run': ['records', [...of, '--run', run]],
      'events --event': ['events', [...of, '--event', event]],
      proof: ['proof', [...of, event]],
      'runs, the newest 20': ['runs', of],
      'runs --target': ['runs', [...of, '--target', target]],
      'records --after': ['records', [...of, '--after', `${log.events - NEWER_EVENTS}`, '--out', out]],
      report: ['report', [...of, '--out', out]],
    },
    out,
  };
}

async function asked({ questions, out }) {
  const used = {};
  for (const [name, [command, args]] of Object.entries(questions)) {
    const { seconds, cpuSeconds, peakBytes } = await timedCommand(command, args);
    used[name] = { seconds, cpuSeconds, peakBytes };
    fs.rmSync(out, { force: true });
  }
  return used;
}

/** One row for each question of a round. `rounds` are pairs of a title and a measurement. */
export function questionsTable(rounds) {
  const rows = rounds.flatMap(([title, { small, large }]) =>
    Object.entries(large).map(([name, { seconds, cpuSeconds, peakBytes }]) => [
      title,
      name,
      decimals(small[name].seconds),
      decimals(seconds),
      decimals(seconds / small[name].seconds),
      decimals(cpuSeconds),
      mebibytes(peakBytes),
    ]),
  );
  return table([
    ['Round', 'Question', 'small log, s', 'large log, s', 'ratio', 'CPU s', 'peak MiB'],
    ...rows,
  ]);
}

/** Time and memory for making the catalogues. */
export function madeTable(made) {
  const rows = made.map(({ events, bytes, made: { seconds, cpuSeconds, peakBytes } }) => [
    whole(events),
    decimals(seconds),
    decimals(cpuSeconds),
    whole(events / seconds),
    mebibytes(peakBytes),
    decimals(bytes / events, 1),
  ]);
  return table([['events', 's', 'CPU s', 'events/s', 'peak MiB', 'bytes/event'], ...rows]);
}

export async function questions({ options, say, print }) {
  const scratch = temporaryDirectory(options.scratch, 'answers');
  const directory = await demoLedger(options, options.events, say);
  const smallDirectory = await demoLedger(
    { ...options, dataDir: undefined },
    Math.min(SMALL_EVENTS, options.events / 2),
    say,
  );
  say('making the catalogues');
  const [small, large] = [
    await ledgerWithCatalogue(smallDirectory, scratch),
    await ledgerWithCatalogue(directory, scratch),
  ];
  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    say(`asking, round ${i + 1} of ${options.rounds}`);
    rounds.push({ small: await asked(small), large: await asked(large) });
  }
  for (const each of [scratch, smallDirectory]) removeDirectory(each);
  if (options.dataDir === undefined) removeDirectory(directory);
  const made = [small, large].map(({ events, bytes, made: used }) => ({ events, bytes, made: used }));
  print(`\n${madeTable(made)}\n\n${questionsTable(rounds.map((round, i) => [`${i + 1}`, round]))}`);
  const names = Object.keys(large.questions);
  const lookups = names.filter((name) => name !== 'report' && name !== 'records --after');
  const all = (name) => rounds.map((round) => round.large[name].seconds);
  const figures = {
    'questions/lookup': lookups.flatMap(all),
    'questions/after': all('records --after'),
    'questions/report': all('report'),
    'questions/ratio': names
      .filter((name) => name !== 'report')
      .map((name) => median(rounds.map(({ small, large }) => large[name].seconds / small[name].seconds))),
    'questions/making': [large.events / large.made.seconds],
    'questions/bytes': [large.bytes / large.events],
  };
  print(`\n${figuresTable(figures)}`);
  return { rounds, made, figures, failures: 0 };
}
