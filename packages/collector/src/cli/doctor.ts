/** `collector doctor`: looks a data directory through and says what it found. Changes nothing. */
import fs from 'node:fs';
import path from 'node:path';
import { SingleBar } from 'cli-progress';
import { Command } from 'commander';
import { KeyRing } from '../access/key-ring.js';
import type { Config } from '../config.js';
import { isLocked } from '../store/embedded/directory-lock.js';
import { nodeFiles } from '../store/embedded/files.js';
import { inspectLedger, type Finding } from '../store/embedded/inspection.js';
import { KeyDatabase, keyDatabasePath } from '../store/embedded/key-database.js';
import { addConfigOptions, configOf } from './config-options.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { alignedTable } from './table.js';

const EXAMPLES = `
Reads every event and checks its checksum, its hash and its place in the order; looks at what lies behind the last
one, at the id index, the keys, the disk and the rights on the directory. It can run beside a collector.

Examples:
  $ collector doctor
  $ collector doctor --data-dir /var/lib/collector --json | jq '.findings[] | select(.severity != "ok")'

Exit codes: 0 nothing is damaged (there may be warnings), 3 stored data is damaged, 6 there is no such directory.`;

const LOW_DISK_BYTES = 1 << 30;
const MARKS = { ok: 'ok', warning: 'WARNING', damage: 'DAMAGED' } as const;

export function command(): Command {
  const doctor = new Command('doctor')
    .description('Check a data directory and say what is wrong with it.')
    .option('--json', 'print the findings as one JSON object');
  return addConfigOptions(doctor, 'doctor')
    .addHelpText('after', EXAMPLES)
    .action(async (options: { json?: true }, self: Command) => {
      process.exitCode = await examine(configOf(self, 'doctor'), options.json === true);
    });
}

async function examine(config: Config, json: boolean): Promise<number> {
  const { dataDir } = config;
  if (!fs.existsSync(dataDir)) throw new CommandFailure(`there is no directory ${dataDir}`, EXIT.notFound);
  const bar = process.stderr.isTTY
    ? new SingleBar({ format: '{bar} {percentage}% of {total} MiB, {eta_formatted} left', hideCursor: true })
    : undefined;
  const findings: Finding[] = [directoryFinding(dataDir), lockFinding(dataDir), diskFinding(dataDir)];
  findings.push(await keysFinding(dataDir));
  if (fs.existsSync(path.join(dataDir, 'ledger'))) {
    const mebi = (bytes: number) => Math.round(bytes / (1 << 20));
    let begun = false;
    const progress = (bytes: number, of: number) => {
      if (!begun) bar?.start(mebi(of), 0);
      begun = true;
      bar?.update(mebi(bytes));
    };
    for (const finding of inspectLedger(dataDir, nodeFiles, progress)) findings.push(finding);
    bar?.stop();
    findings.push(...tornFindings(dataDir));
  } else {
    findings.push({ severity: 'ok', subject: 'events', message: 'none yet: no collector has run here' });
  }
  const damaged = findings.some((finding) => finding.severity === 'damage');
  if (json)
    process.stdout.write(`${JSON.stringify({ data_dir: dataDir, damaged, findings }, undefined, 2)}\n`);
  else {
    const rows = findings.map(({ severity, subject, message }) => [MARKS[severity], subject, message]);
    process.stdout.write(alignedTable([['', 'CHECKED', 'FOUND'], ...rows]));
  }
  return damaged ? EXIT.damaged : EXIT.ok;
}

function directoryFinding(dataDir: string): Finding {
  const others = fs.statSync(dataDir).mode & 0o077;
  if (others === 0)
    return { severity: 'ok', subject: 'directory', message: `${dataDir}, for its owner alone` };
  return {
    severity: 'warning',
    subject: 'directory',
    message: `${dataDir} can be entered by other users; it holds patient data: chmod 700`,
  };
}

function lockFinding(dataDir: string): Finding {
  const message = isLocked(dataDir) ? 'a collector is running on it' : 'no collector is running on it';
  return { severity: 'ok', subject: 'lock', message };
}

function diskFinding(dataDir: string): Finding {
  const { bavail, bsize } = fs.statfsSync(dataDir);
  const free = bavail * bsize;
  const message = `${(free / 2 ** 30).toFixed(1)} GiB free`;
  if (free >= LOW_DISK_BYTES) return { severity: 'ok', subject: 'disk', message };
  return {
    severity: 'warning',
    subject: 'disk',
    message: `${message}; when none is left, events are refused`,
  };
}

async function keysFinding(dataDir: string): Promise<Finding> {
  if (!fs.existsSync(keyDatabasePath(dataDir))) {
    return { severity: 'warning', subject: 'keys', message: 'there are none: nobody can send an event' };
  }
  try {
    const database = KeyDatabase.open(dataDir);
    try {
      await KeyRing.open(database);
      return { severity: 'ok', subject: 'keys', message: `${(await database.list()).length} can be read` };
    } finally {
      await database.close();
    }
  } catch (error) {
    return {
      severity: 'damage',
      subject: 'keys',
      message: error instanceof Error ? error.message : String(error),
    };
  }
}

function tornFindings(dataDir: string): Finding[] {
  const directory = path.join(dataDir, 'ledger', 'torn');
  const kept = fs.existsSync(directory) ? fs.readdirSync(directory) : [];
  if (kept.length === 0) return [];
  return [
    {
      severity: 'warning',
      subject: 'torn tails',
      message: `${kept.length} kept in ledger/torn: bytes of unacknowledged batches, cut off by earlier starts`,
    },
  ];
}
