/** `collector doctor`: looks a data directory through and says what it found. Changes nothing. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { styleText } from 'node:util';
import { ENTRY_KINDS } from '@clinical-events/protocol';
import { Command } from 'commander';
import { KeyRing } from '../../access/key-ring.js';
import type { Config } from '../../config.js';
import { counted } from '../../quantity.js';
import { exists, nodeFiles } from '../../files.js';
import {
  exposureOf,
  type Finding,
  inspectLedger,
  isLocked,
  KeyDatabase,
  keyDatabasePath,
  lockFault,
  openStore,
} from '../../store/open.js';
import { KeyStoreDamaged, StoreDamaged } from '../../store/contract.js';
import { checkCatalogue, type CatalogueCheck } from '../../catalogue/check.js';
import { CatalogueFault, catalogueDirectory } from '../../catalogue/catalogue.js';
import { systemCode } from '../../system-code.js';
import { AccessLogCheck } from './access-log-check.js';
import { addConfigOptions, configOf } from '../config-options.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import { keysLost } from '../serve/listening.js';
import { legible, printableJson, alignedTable, ProgressBar } from '../terminal.js';
import { claimedSize } from './log-checkpoints.js';
import { proofFindings } from './proof-findings.js';
import { checkDataDirectory } from '../regular-files.js';
import { typed } from '../typed.js';
import { holds, holdsLog } from './verify.js';

const EXAMPLES = `
Reads every event and checks its checksum, its hash and its place in the order; looks at what lies behind the last
one, at the id index, the keys, the access log, the disk and the rights on the directory. Rebuilds the catalogue in the
directory for temporary files and compares it with the one that is there. It writes nothing to the data directory, runs
beside a collector, and reads a read-only snapshot as well.

Examples:
  $ collector doctor
  $ collector doctor --signing-command /opt/kms-sign     # as the collector was started
  $ collector doctor --data-dir /var/lib/collector --json | jq '.findings[] | select(.severity != "ok")'

Exit codes: 0 nothing is damaged (there may be warnings), 3 stored data is damaged, 6 there is no such
directory, or it holds neither a ledger nor keys, 1 something could not be read, so that nothing can be said.`;

const STOPPING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const LOW_DISK_BYTES = 1 << 30;
const MARKS = { ok: 'ok', warning: 'WARNING', damage: 'DAMAGED' } as const;
const COLOURS = { ok: 'green', WARNING: 'yellow', DAMAGED: 'red' } as const;
/** Fewer than this are read before anybody wonders. */
const BAR_FROM_MEBIBYTES = 64;

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
  if (!exists(dataDir)) throw new CommandFailure(`there is no directory ${dataDir}`, EXIT.notFound);
  const hasLedger = holdsLedger(dataDir);
  if (!hasLedger && !exists(keyDatabasePath(dataDir))) {
    throw new CommandFailure(
      `${dataDir} is not a data directory: it holds neither a ledger nor keys`,
      EXIT.notFound,
    );
  }
  checkDataDirectory(dataDir);
  const running = isLocked(dataDir);
  const findings: Finding[] = [
    directoryFinding(dataDir),
    lockFinding(dataDir, running),
    diskFinding(dataDir),
  ];
  findings.push(await keysFinding(dataDir, async () => hasLedger && (await holdsEvents(dataDir))));
  if (hasLedger) {
    const wanted = !json && process.stderr.isTTY;
    const bar = new ProgressBar({ wanted, unit: 'MiB', per: 1 << 20, from: BAR_FROM_MEBIBYTES });
    try {
      for await (const finding of ledgerFindings(config, running, bar)) findings.push(finding);
    } finally {
      bar.clear();
    }
  } else {
    findings.push({ severity: 'ok', subject: 'events', message: 'none yet: no collector has run here' });
  }
  const damaged = findings.some((finding) => finding.severity === 'damage');
  if (json)
    process.stdout.write(
      `${printableJson(JSON.stringify({ data_dir: dataDir, damaged, findings }, undefined, 2))}\n`,
    );
  else {
    const rows = findings.map(({ severity, subject, message }) => [
      ...[MARKS[severity], legible(subject), legible(typed(message, dataDir))],
    ]);
    const table = alignedTable([['', 'CHECKED', 'FOUND'], ...rows], process.stdout);
    process.stdout.write(table.replace(/^(?:ok|WARNING|DAMAGED)(?= )/gm, coloured));
  }
  return damaged ? EXIT.damaged : EXIT.ok;
}

async function* ledgerFindings(config: Config, running: boolean, bar: ProgressBar): AsyncGenerator<Finding> {
  const { dataDir } = config;
  const claimed = await claimedSize(openStore(dataDir).tree);
  const accessLog = new AccessLogCheck(dataDir);
  const entries = yield* inspectLedger(dataDir, nodeFiles, bar.show, running, ({ kind, sequence, body }) => {
    if (kind === ENTRY_KINDS.accessLogHead) accessLog.head(sequence, body);
  });
  yield* tornFindings(dataDir);
  yield await catalogueFinding(dataDir, bar);
  yield* proofFindings(config, entries, await accessLog.finish(), claimed, running);
}

/**
 * It is derived, so nothing about it is damage of what is stored. What it is compared with is made in the directory for
 * temporary files, for the owner alone, and is gone on return, also after a signal.
 */
async function catalogueFinding(dataDir: string, bar: ProgressBar): Promise<Finding> {
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-catalogue-'));
  const remove = () => fs.rmSync(scratch, { recursive: true, force: true });
  const stop = () => process.exit(EXIT.failure);
  process.once('exit', remove);
  for (const signal of STOPPING) process.once(signal, stop);
  const log = openStore(dataDir).events;
  const onProgress = (_: number, share: number) => bar.show(share * log.extent, log.extent);
  try {
    const directory = catalogueDirectory(dataDir);
    return findingOf(await checkCatalogue(log, { directory, scratch, onProgress }), directory);
  } catch (error) {
    const cannot = 'it was not compared with the log';
    if (error instanceof StoreDamaged) return aboutCatalogue('ok', `${cannot}, which is damaged`);
    if (!(error instanceof CatalogueFault)) throw error;
    return aboutCatalogue('ok', `${cannot}: ${error.message}`);
  } finally {
    await log.close();
    for (const signal of STOPPING) process.off(signal, stop);
    process.off('exit', remove);
    remove();
  }
}

function findingOf(check: CatalogueCheck, directory: string): Finding {
  const rebuild = 'the next command that needs it, or the collector, rebuilds it';
  switch (check.state) {
    case 'none':
      return aboutCatalogue('ok', `none yet; ${rebuild}`);
    case 'stale':
      return aboutCatalogue('ok', `of another version or another log; ${rebuild}`);
    case 'damaged':
      return aboutCatalogue(
        'warning',
        `damaged; delete ${directory}, also while a collector runs: it is rebuilt`,
      );
    case 'changed':
      return aboutCatalogue('ok', 'a command wrote it meanwhile, so it was not compared with the log');
    case 'compared': {
      const { through, records, differing } = check;
      if (differing === 0)
        return aboutCatalogue(
          'ok',
          `${counted(records, 'record')} up to entry ${through}, each as the log has it`,
        );
      const what = `${differing} of ${counted(records, 'record')} are not as the log has them`;
      return aboutCatalogue(
        'warning',
        `${what}; delete ${directory}, also while a collector runs: it is rebuilt`,
      );
    }
  }
}

function aboutCatalogue(severity: Finding['severity'], message: string): Finding {
  return { severity, subject: 'catalogue', message };
}

/** Of a log that is damaged in front of its first event that cannot be said, and it is told as damaged. */
async function holdsEvents(dataDir: string): Promise<boolean> {
  const log = openStore(dataDir).events;
  try {
    for await (const batch of log.pass()) for (const { isOwn } of batch) if (!isOwn) return true;
    return false;
  } catch (error) {
    if (error instanceof StoreDamaged) return true;
    throw error;
  } finally {
    await log.close();
  }
}

/** On a terminal only, and not when NO_COLOR asks for none: styleText sees to both. */
function coloured(mark: string): string {
  return styleText(COLOURS[mark as keyof typeof COLOURS], mark, { stream: process.stdout });
}

/** Segments, or a checkpoint or an index, which say that there were some: that all are gone is no sign of health. */
function holdsLedger(dataDir: string): boolean {
  return holdsLog(dataDir) || holds(path.join(dataDir, 'index'), /\.run$/);
}

function directoryFinding(dataDir: string): Finding {
  const exposure = exposureOf(dataDir);
  if (exposure !== undefined) return { severity: 'warning', subject: 'directory', message: exposure };
  return { severity: 'ok', subject: 'directory', message: `${dataDir}, for its owner alone` };
}

function lockFinding(dataDir: string, running: boolean): Finding {
  const fault = lockFault(dataDir);
  if (fault !== undefined) return { severity: 'damage', subject: 'lock', message: fault };
  const message = running ? 'a collector is running on it' : 'no collector is running on it';
  return { severity: 'ok', subject: 'lock', message };
}

function diskFinding(dataDir: string): Finding {
  if (isReadOnly(dataDir)) {
    return {
      severity: 'ok',
      subject: 'disk',
      message: 'read-only, as a snapshot is: no event can be stored',
    };
  }
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

function isReadOnly(dataDir: string): boolean {
  try {
    fs.accessSync(dataDir, fs.constants.W_OK);
    return false;
  } catch (error) {
    return systemCode(error) === 'EROFS';
  }
}

/** @param hasEvents asked whether events were stored, which somebody had keys for, when there are no keys. */
async function keysFinding(dataDir: string, hasEvents: () => Promise<boolean>): Promise<Finding> {
  const subject = 'keys';
  const lost: Finding = {
    severity: 'warning',
    subject,
    message: `${keysLost(dataDir)}; no collector starts`,
  };
  if (!exists(keyDatabasePath(dataDir))) {
    if (await hasEvents()) return lost;
    return {
      ...{ severity: 'warning', subject },
      message:
        'there are none: nobody can send an event, and the next start makes a new key with all permissions',
    };
  }
  try {
    const database = KeyDatabase.openReadOnly(dataDir);
    try {
      await KeyRing.open(database);
      const { length } = await database.list();
      if (length === 0 && (await hasEvents())) return lost;
      return { severity: 'ok', subject, message: `${counted(length, 'key')} can be read` };
    } finally {
      await database.close();
    }
  } catch (error) {
    // Any other reason, such as a newer collector's file, says nothing about what is stored.
    if (!(error instanceof KeyStoreDamaged)) throw error;
    return { severity: 'damage', subject, message: error.message };
  }
}

function tornFindings(dataDir: string): Finding[] {
  const directory = path.join(dataDir, 'ledger', 'torn');
  const kept = exists(directory) ? fs.readdirSync(directory) : [];
  if (kept.length === 0) return [];
  return [
    {
      severity: 'warning',
      subject: 'torn tails',
      message: `${kept.length} kept in ledger/torn: bytes of unacknowledged batches, cut off by earlier starts`,
    },
  ];
}
