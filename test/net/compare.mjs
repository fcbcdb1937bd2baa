// `npm run net -- --base REF`: whether this tree does what the base commit does. CONTRIBUTING.md says when to use it.
//
//   --base REF          the commit to compare with (default: HEAD)
//   --built DIRECTORY   a built checkout in place of --base
//   --only NAMES        of the situations, separated by commas (default: all)
//   --formats-changed   proofs, tiles and checkpoints are not compared byte for byte
//   --runs N            of the demonstration (default: 5900, which have 30,000 events)
//   --keep              leaves the directory of both sides
//   --verbose           lists what is equal too
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { differences, excerpts } from './comparing.mjs';
import * as scenario from './scenario.mjs';
import { Side } from './side.mjs';

const ROOT = path.join(import.meta.dirname, '../..');
/** The server of the tests. */
const POSTGRES = '../../packages/postgres/test/running/postgres-server.ts';
const ALL = 'plain,encrypted,damaged,postgres,sealed';
/** The exit code of a situation that could not be brought to its end. */
const BROKEN = 'broken off';
const { values: options } = parseArgs({
  options: {
    base: { type: 'string', default: 'HEAD' },
    built: { type: 'string' },
    only: { type: 'string', default: ALL },
    'formats-changed': { type: 'boolean', default: false },
    runs: { type: 'string', default: '5900' },
    keep: { type: 'boolean', default: false },
    verbose: { type: 'boolean', default: false },
  },
});
const only = options.only.split(',');
const work = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'collector-net-')));
const began = performance.now();
const say = (text) =>
  process.stderr.write(`net: ${((performance.now() - began) / 1000).toFixed(0)} s: ${text}\n`);

function must(cwd, command, ...args) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${status}: ${stderr}${stdout}`);
  return stdout;
}

/** The base commit, built. */
function buildBase() {
  const checkout = path.join(work, 'checkout');
  must(ROOT, 'git', 'worktree', 'add', '--detach', '--quiet', checkout, options.base);
  must(checkout, 'npm', 'ci', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error');
  must(checkout, process.execPath, 'scripts/build.mjs');
  return checkout;
}

/** Of logs, and of keys: a log's keys are not on the server of the log. */
const servers = { log: undefined, keys: undefined };
/** @returns the address of an empty database. */
async function database(of, name) {
  servers[of] ??= import(POSTGRES).then(({ PostgresServer }) => PostgresServer.start());
  const server = await servers[of];
  await server.query(`CREATE DATABASE ${name}`);
  return server.url(name);
}

async function run(sides) {
  for (const side of sides) {
    const period = '--days 60 --until 2026-01-24';
    await side.run('demo', `demo --out demo.ndjson --runs ${options.runs} ${period} --seed 35`);
    side.keep('demo', { file: 'demo.ndjson' }, 'bytes');
  }
  const lines = fs.readFileSync(sides[0].path('demo.ndjson'), 'utf8').trimEnd().split('\n');
  const script = new scenario.Script(lines);
  say(`${lines.length} events of the demonstration, and ${Object.values(script.odd).flat().length} odd ones`);
  const both = async (name, act) => {
    if (!only.includes(name)) return;
    const ends = await Promise.allSettled(sides.map((side) => act(side, script)));
    // Answers from before a failure are compared too.
    for (const [at, { reason }] of ends.entries()) {
      if (reason !== undefined) sides[at].exits.push({ name, code: BROKEN, log: reason.message });
    }
    say(`${name} is done`);
  };
  await both('plain', scenario.plain);
  await both('encrypted', scenario.encrypted);
  await both('damaged', scenario.damaged);
  await both('postgres', async (side) => {
    await scenario.postgres(side, script, { url: await database('log', `${side.name}_log`) });
  });
  await both('sealed', async (side) => {
    const url = await database('log', `${side.name}_sealed`);
    const keys = await database('keys', `${side.name}_keys`);
    await scenario.postgres(side, script, { name: 'sealed', events: 4000, url, keys });
  });
}

/** @returns a row for each comparison: its name and the lines that differ. */
function compare([base, tree]) {
  const rows = [];
  const ends = [base, tree].map(({ exits }) => new Map(exits.map((end) => [end.name, end])));
  for (const name of new Set(ends.flatMap((end) => [...end.keys()]))) {
    const [was, is] = ends.map((end) => end.get(name));
    const differs =
      was?.code === is?.code && was?.code !== BROKEN
        ? []
        : [`- ${was?.code}`, `+ ${is?.code}: ${is?.log.slice(-200)}`];
    rows.push({ name: `${name}, exit code`, differs });
  }
  for (const name of new Set([...base.answers.keys(), ...tree.answers.keys()])) {
    const [was, is] = [base, tree].map(({ answers, directory }) => {
      const answer = answers.get(name);
      return answer && { ...answer, directory };
    });
    const formatsChanged = options['formats-changed'];
    rows.push({ name, differs: differences(was, is, { how: (was ?? is).how, formatsChanged }) });
  }
  return rows;
}

/** @returns the exit code. */
function print(rows) {
  const intended = JSON.parse(fs.readFileSync(path.join(import.meta.dirname, 'intended.json'), 'utf8'));
  const counts = {};
  const used = new Set();
  for (const { name, differs } of rows) {
    const entries = intended.filter((one) => new RegExp(one.name).test(name));
    const entryOf = (line) => entries.find(({ difference }) => new RegExp(difference).test(line));
    const unexplained = differs.filter((line) => entryOf(line) === undefined);
    for (const line of differs) used.add(entryOf(line));
    const result = differs.length === 0 ? 'equal' : unexplained.length === 0 ? 'intended' : 'DIFFERING';
    const count = (counts[name.split(/[:,]/)[0]] ??= { equal: 0, intended: 0, DIFFERING: 0 });
    count[result]++;
    if (result !== 'equal' || options.verbose) console.log(`${result.padEnd(9)}  ${name}`);
    for (const line of excerpts(unexplained)) console.log(`             ${line}`);
  }
  for (const entry of intended) {
    if (used.has(entry)) console.log(`intended   because ${entry.reason}`);
    else if (options.only === ALL) console.log(`unused     intended.json: ${JSON.stringify(entry)}`);
  }
  if (options.verbose) {
    for (const { name, code } of sides[1].exits) if (code !== 0) console.log(`ended with ${code}: ${name}`);
  }
  console.table(counts);
  return Object.values(counts).some(({ DIFFERING }) => DIFFERING > 0) ? 1 : 0;
}

let sides = [];
async function end() {
  for (const side of sides) side.kill();
  for (const server of Object.values(servers)) await (await server)?.remove();
  if (options.keep) return say(`kept: ${work}`);
  spawnSync('git', ['worktree', 'remove', '--force', path.join(work, 'checkout')], { cwd: ROOT });
  fs.rmSync(work, { recursive: true, force: true });
}
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => void end().then(() => process.exit(130)));
try {
  must(ROOT, process.execPath, 'scripts/build.mjs');
  const checkout = options.built ?? buildBase();
  say('both sides are built');
  sides = [
    new Side('base', checkout, path.join(work, 'base')),
    new Side('tree', ROOT, path.join(work, 'tree')),
  ];
  await run(sides);
  process.exitCode = print(compare(sides));
} finally {
  await end();
  say('done');
}
