/** `npm run soak`: load, and what a collector meets in years, within minutes. See bench/README.md, "soak". */
import { mkdirSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

const HELP = `npm run soak -- [options]

Loads a collector over HTTPS for some minutes. Meanwhile it is killed and started again, its disk gets full, its
certificate is changed and a key is revoked. No acknowledged event may be lost, and the console must be right.

  --minutes <n>   how long (default 10)
  --load <n>      percent of the best rate, which is measured first (default 70)
  --scratch <dir> on the disk to use; 10 GB for 10 minutes (default: the system's temporary directory)
  --out <dir>     directory for pictures of the console, if Chromium is installed (default: none)
  --json <file>   the result as JSON too; - for standard output instead of the report

As root the data directory is on a small file system of its own, which can really be full.

Exit codes: 0 all was as it has to be, 1 it was not, 2 cannot begin, 130 interrupted.
`;

function fail(message) {
  process.stderr.write(`soak: ${message}\n`);
  process.exit(2);
}

if (Number(process.versions.node.split('.')[0]) < 24) fail('needs Node 24: start it by "npm run soak"');
if (process.platform !== 'linux') fail('reads /proc, and so runs on Linux only');

const { requireBuilt, runCommand } = await import('./lib/command.mjs');
const { requireRoom } = await import('./lib/disk.mjs');
const { Unusable } = await import('./lib/unusable.mjs');
const { bytesOf, RATE_AT_MOST } = await import('./soak/setting.mjs');
const { soak } = await import('./soak/soak.mjs');
const { releaseDisk } = await import('./soak/small-disk.mjs');
const { soakReport } = await import('./soak/soak-report.mjs');
const { machine } = await import('./lib/surroundings.mjs');

const CONNECTIONS = 96;

function readOptions() {
  const text = (value) => ({ type: 'string', default: value });
  const { values } = parseArgs({
    options: {
      minutes: text('10'),
      load: text('70'),
      scratch: text(os.tmpdir()),
      out: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    process.exit(0);
  }
  const number = (name, most) => {
    const given = values[name];
    if (!/^\d+$/.test(given) || Number(given) < 1 || Number(given) > most)
      throw new Unusable(`--${name} is a whole number from 1 to ${most}`);
    return Number(given);
  };
  return {
    minutes: number('minutes', 1440),
    load: number('load', 100) / 100,
    scratch: path.resolve(values.scratch),
    out: values.out === undefined ? undefined : path.resolve(values.out),
    json: values.json,
  };
}

async function main() {
  const { json, ...options } = readOptions();
  requireBuilt();
  mkdirSync(options.scratch, { recursive: true });
  requireRoom(options.scratch, bytesOf(RATE_AT_MOST * options.load * options.minutes * 60));
  const head = { startedAt: new Date().toISOString(), load: options.load, machine: machine(options.scratch) };
  const result = await soak({
    ...options,
    connections: CONNECTIONS,
    timesCount: true,
    say: (text) => process.stderr.write(`soak: ${new Date().toISOString().slice(11, 19)} ${text}\n`),
  });
  const all = { ...head, ...result };
  const written = `${JSON.stringify(all, undefined, 1)}\n`;
  if (json === '-') process.stdout.write(written);
  else process.stdout.write(`${soakReport(all)}\n`);
  if (json !== undefined && json !== '-') writeFileSync(json, written);
  return result.failures === 0 ? 0 : 1;
}

await runCommand('soak', main, releaseDisk);
