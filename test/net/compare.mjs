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
import { difference } from './comparing.mjs';
import * as scenario from './scenario.mjs';
import { Side } from './side.mjs';

const ROOT = path.join(import.meta.dirname, '../..');
/** The server of the tests. */
const POSTGRES = '../../packages/postgres/test/running/postgres-server.ts';
const { values: options } = parseArgs({
  options: {
    base: { type: 'string', default: 'HEAD' },
    built: { type: 'string' },
    only: { type: 'string', default: 'plain,encrypted,damaged,postgres,sealed' },
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

/** What npm would install, without the packages of this repository. */
function installed(checkout) {
  const { packages } = JSON.parse(fs.readFileSync(path.join(checkout, 'package-lock.json'), 'utf8'));
  const outside = Object.entries(packages).filter(
    ([name, { link }]) => /(^|\/)node_modules\//.test(name) && link !== true,
  );
  return JSON.stringify(outside.map(([name, { version, integrity }]) => [name, version, integrity]).sort());
}

/** The base commit, built. Its packages are its own; what npm installed is shared where it is the same. */
function buildBase() {
  const checkout = path.join(work, 'checkout');
  must(ROOT, 'git', 'worktree', 'add', '--detach', '--quiet', checkout, options.base);
  if (installed(checkout) === installed(ROOT)) {
    const { workspaces } = JSON.parse(fs.readFileSync(path.join(checkout, 'package.json'), 'utf8'));
    const own = workspaces.flatMap((pattern) => fs.globSync(pattern, { cwd: checkout }));
    for (const directory of ['', ...own]) linkModules(directory, checkout);
    for (const directory of own) linkPackage(path.join(checkout, directory), checkout);
  } else {
    say('npm ci, because other versions are installed there');
    must(checkout, 'npm', 'ci', '--no-audit', '--no-fund', '--loglevel=error');
  }
  must(checkout, process.execPath, 'scripts/build.mjs');
  return checkout;
}

/** Links what npm installed for this tree, but for the packages of this repository. */
function linkModules(directory, checkout) {
  const from = path.join(ROOT, directory, 'node_modules');
  const to = path.join(checkout, directory, 'node_modules');
  fs.mkdirSync(to);
  for (const name of fs.existsSync(from) ? fs.readdirSync(from) : []) {
    if (name !== '@clinical-events') fs.symlinkSync(path.join(from, name), path.join(to, name));
  }
}

function linkPackage(directory, checkout) {
  const { name } = JSON.parse(fs.readFileSync(path.join(directory, 'package.json'), 'utf8'));
  const link = path.join(checkout, 'node_modules', name);
  fs.mkdirSync(path.dirname(link), { recursive: true });
  fs.symlinkSync(directory, link);
}

const servers = [];
/** A server with a database for each side and purpose. @returns their addresses. */
async function databases(sides, purposes) {
  const { PostgresServer } = await import(POSTGRES);
  const server = await PostgresServer.start();
  servers.push(server);
  for (const { name } of sides)
    for (const purpose of purposes) await server.query(`CREATE DATABASE ${name}_${purpose}`);
  return (side, purpose) => server.url(`${side.name}_${purpose}`);
}

async function run(sides) {
  const demo = [
    'demo.ndjson',
    '--runs',
    options.runs,
    '--days',
    '60',
    '--until',
    '2026-01-24',
    '--seed',
    '35',
  ];
  for (const side of sides) {
    await side.run('demo', 'writeDemo', demo);
    side.keep('demo', { file: 'demo.ndjson' }, 'bytes');
  }
  const lines = fs.readFileSync(sides[0].path('demo.ndjson'), 'utf8').trimEnd().split('\n');
  const script = new scenario.Script(lines);
  say(`${lines.length} events of the demonstration, and ${Object.values(script.odd).flat().length} odd ones`);
  const both = async (name, act) => {
    if (!only.includes(name)) return;
    const ends = await Promise.allSettled(sides.map(act));
    // What was answered before is compared all the same.
    for (const [at, { reason }] of ends.entries()) {
      if (reason !== undefined) sides[at].exits.push({ name, code: 'broken off', log: reason.stack });
    }
    say(`${name} is done`);
  };
  await both('plain', (side) => scenario.plain(side, script));
  await both('encrypted', (side) => scenario.encrypted(side, script));
  await both('damaged', (side) => scenario.damaged(side, script));
  if (!only.some((name) => name === 'postgres' || name === 'sealed')) return;
  const logs = await databases(sides, ['log', 'sealed']);
  await both('postgres', (side) => scenario.postgres(side, script, { url: logs(side, 'log') }));
  if (!only.includes('sealed')) return;
  const keys = await databases(sides, ['keys']);
  const sealed = { name: 'sealed', events: 4000 };
  await both('sealed', (side) =>
    scenario.postgres(side, script, { ...sealed, url: logs(side, 'sealed'), keys: keys(side, 'keys') }),
  );
}

/** @returns a row for each comparison: its name and what differs. */
function compare([base, tree]) {
  const formatsChanged = options['formats-changed'];
  const codes = ({ exits }) => new Map(exits.map(({ name, code, log }) => [name, { code, log }]));
  const [a, b] = [codes(base), codes(tree)];
  const rows = [...new Set([...a.keys(), ...b.keys()])].map((name) => {
    const [was, is] = [a.get(name), b.get(name)];
    if (is?.code === 'broken off') return { name, differs: is.log };
    const differs =
      was?.code !== is?.code && `exit code ${was?.code}, now ${is?.code}: ${is?.log.slice(0, 200)}`;
    return { name: `${name}, exit code`, differs: differs || undefined };
  });
  for (const name of new Set([...base.answers.keys(), ...tree.answers.keys()])) {
    const [was, is] = [base, tree].map(({ answers, directory }) => {
      const answer = answers.get(name);
      return answer && { ...answer, directory };
    });
    rows.push({ name, differs: difference(was, is, { how: (was ?? is).how, formatsChanged }) });
  }
  return rows;
}

/** @returns the exit code. */
function print(rows) {
  const intended = JSON.parse(fs.readFileSync(path.join(import.meta.dirname, 'intended.json'), 'utf8'));
  const used = new Set();
  let unintended = 0;
  for (const { name, differs } of rows) {
    if (differs === undefined) {
      if (options.verbose) console.log(`equal      ${name}`);
      continue;
    }
    const entry = intended.find(
      (one) => new RegExp(one.name).test(name) && new RegExp(one.difference).test(differs),
    );
    if (entry === undefined) unintended++;
    used.add(entry);
    console.log(
      `${entry === undefined ? 'DIFFERING' : 'intended '}  ${name}\n             ${differs.replaceAll('\n', ' ')}`,
    );
    if (entry !== undefined) console.log(`             because ${entry.reason}`);
  }
  for (const entry of intended) if (!used.has(entry)) console.log(`unused     intended.json: ${entry.name}`);
  if (options.verbose) {
    for (const { name, code } of sides[1].exits) if (code !== 0) console.log(`ended with ${code}: ${name}`);
    const slow = sides[1].exits.toSorted((a, b) => (b.took ?? 0) - (a.took ?? 0)).slice(0, 20);
    for (const { name, took } of slow) console.log(`${(took / 1000).toFixed(1).padStart(9)} s  ${name}`);
  }
  const equal = rows.filter(({ differs }) => differs === undefined).length;
  console.log(
    `${rows.length} comparisons: ${equal} equal, ${rows.length - equal - unintended} as intended, ${unintended} differing`,
  );
  return unintended === 0 ? 0 : 1;
}

let sides = [];
async function end() {
  for (const side of sides) side.kill();
  for (const server of servers) await server.remove();
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
