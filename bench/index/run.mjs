// Measures the candidates for the dedup index (docs/internals/adr/0003-dedup-index.md).
//
//   npm i classic-level lmdb @harperfast/rocksdb-js   (in a folder of its own)
//   node bench/index/run.mjs --candidates <that folder> [--entries 10000000] [--seconds 210]
//                            [--rate <ids a second>] [--data <scratch folder>] [--only own,lmdb]
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { candidates } from './candidates.mjs';

const { values: options } = parseArgs({
  options: {
    candidates: { type: 'string', default: '.' },
    entries: { type: 'string', default: '10000000' },
    seconds: { type: 'string', default: '210' },
    rate: { type: 'string', default: '1e12' },
    data: { type: 'string', default: os.tmpdir() },
    only: { type: 'string', default: Object.keys(candidates).join() },
  },
});

const scratch = fs.mkdtempSync(path.join(options.data, 'index-bench-'));

function run(mode, name, directory, entries) {
  const argument = JSON.stringify({
    mode,
    name,
    directory,
    folder: options.candidates,
    entries,
    seconds: Number(options.seconds),
    rate: Number(options.rate),
  });
  const child = spawnSync(
    process.execPath,
    [fileURLToPath(new URL('process.mjs', import.meta.url)), argument],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
  );
  return child.status === 0 ? JSON.parse(child.stdout) : null;
}

for (const name of options.only.split(',')) {
  const directory = path.join(scratch, name.replace(':', '-'));
  const fill = run('fill', name, directory, Number(options.entries));
  const result = { candidate: name, configuration: candidates[name].configuration, fill };
  if (name !== 'none' && fill) {
    result.reopened = run('reopen', name, directory, fill.done);
    fs.rmSync(directory, { recursive: true, force: true });
    run('kill', name, directory, fill.done);
    result.afterKill = run('reopen', name, directory, Math.min(fill.done, 2_000_000));
  }
  fs.rmSync(directory, { recursive: true, force: true });
  console.log(JSON.stringify(result, null, 1));
}
fs.rmSync(scratch, { recursive: true });
