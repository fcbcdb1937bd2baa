/** `collector doctor`: looks a data directory through and says what it found. Changes nothing. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Command } from 'commander';
import { KeyRing } from '../../access/key-ring.js';
import type { Config } from '../../config.js';
import { counted } from '../../quantity.js';
import { exists, nodeFiles } from '../../files.js';
import { describeStore, driverOf, isShared } from '../../store/open.js';
import { exposureOf, isLocked, lockFault } from '../../store/directory-lock.js';
import { indexState, type IndexState } from '../../store/open-to-audit.js';
import { KeyDatabase, keyDatabasePath, openKeys } from '../../store/open-keys.js';
import { openStore, type OpenSharedStore, withSharedView } from '../../store/open-to-read.js';
import { KeyStoreDamaged, KeyStoreError } from '../../store/contract/keys.js';
import { StoreDamaged } from '../../store/contract/events.js';
import { checkCatalogue, type CatalogueCheck, type DifferingRecord } from '../../catalogue/check.js';
import { CatalogueFault, catalogueDirectory } from '../../catalogue/catalogue.js';
import { systemCode } from '../../system-code.js';
import { readMirrorNote } from '../../tree/state-files.js';
import { encryptionFindings } from '../encryption-findings.js';
import { CommandFailure, EXIT, onStop } from '../exit-codes.js';
import { keysLost } from '../listening.js';
import { findingsTable, printableJson, ProgressBar } from '../terminal.js';
import { about, proofFindings, sharedProofFindings, type Finding } from './proof-findings.js';
import { checkDataDirectory, holds, holdsLog } from '../regular-files.js';
import { typed } from '../typed.js';
import { verifyLog, type Verification } from './verification.js';
import { addConfigOptions, configOf } from '../command-line.js';

const EXAMPLES = `
Reads every event and checks all that collector verify checks, by the checkpoints and keys in the directory; looks at
what lies behind the last one, at the id index, the keys, the access log, the disk and the rights on the directory. Rebuilds the catalogue in the
directory for temporary files and compares it with the one that is there. It writes nothing to the data directory, runs
beside a collector, and reads a read-only snapshot as well.

Examples:
  $ collector doctor
  $ collector doctor --signing-keys command:/opt/kms-sign     # as the collector was started
  $ collector doctor --data-dir /var/lib/collector --json | jq '.findings[] | select(.severity != "ok")'

Exit codes: 0 nothing is damaged (there may be warnings), 3 stored data is damaged, 7 the catalogue is not as the log
has it and nothing else is damaged, 6 there is no such directory, or it holds neither a ledger nor keys, 1 something could
not be read, so that nothing can be said.`;

const LOW_DISK_BYTES = 1 << 30;
/** Fewer than this are read before anybody wonders. */
const BAR_FROM_MEBIBYTES = 64;
const BAR_FROM_EVENTS = 200_000;
/** Records that are named to people; --json has all. */
const MOST_NAMED = 10;
const NOT_COMPARED = 'it was not compared with the log';

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
  if (isShared(config)) return examineShared(config, json);
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
  const mirrorOf = readMirrorNote(dataDir)?.store;
  const wanted = !json && process.stderr.isTTY;
  const findings: CatalogueFinding[] = [
    directoryFinding(dataDir),
    lockFinding(dataDir, running),
    diskFinding(dataDir),
  ];
  let index: IndexState | undefined;
  let log: Verification | undefined;
  const read = async () => {
    // Before the events: a running collector's index would otherwise speak of some that came after those read here.
    index = indexState(dataDir);
    return (log = await readLog(dataDir, wanted));
  };
  const hasEvents = async () => {
    if (!hasLedger) return false;
    const { events, findings: found } = await read();
    return events > 0 || found.faults > 0;
  };
  if (mirrorOf !== undefined)
    findings.push(about('ok', 'mirror', `of ${mirrorOf}: takes no event, signs nothing`));
  else findings.push(await keysFinding(dataDir, hasEvents));
  if (hasLedger) log ??= await read();
  if (log === undefined) findings.push(about('ok', 'events', 'none yet: no collector has run here'));
  else {
    findings.push(...logFindings(log), indexFinding(index, log.bytes, running), ...tornFindings(dataDir));
    findings.push(await catalogueFinding(dataDir, wanted), ...encryptionFindings(dataDir));
    findings.push(...proofFindings(config, log, running, mirrorOf !== undefined));
  }
  return tell(findings, json, { data_dir: dataDir }, dataDir);
}

/** Of a log in a database: how that does, and every event. */
async function examineShared(config: Config, json: boolean): Promise<number> {
  const findings: Finding[] = [...(await (await driverOf(config.store)).examine(config.store))];
  await withSharedView(config, async ({ dataDir, shared }) => {
    const log = await readLog(dataDir, !json && process.stderr.isTTY, shared);
    findings.push(
      await sharedKeysFinding(config, log.events),
      ...logFindings(log),
      ...sharedProofFindings(dataDir, log),
    );
  });
  return tell(findings, json, { store: describeStore(config) });
}

async function sharedKeysFinding(config: Config, events: number): Promise<Finding> {
  const keys = await openKeys(config);
  try {
    const { length } = await keys.list();
    if (length === 0 && events > 0)
      return about('warning', 'keys', `${keysLost(config)}; no collector starts`);
    return about('ok', 'keys', `${counted(length, 'key')} can be read`);
  } catch (error) {
    if (!(error instanceof KeyStoreError)) throw error;
    return about('warning', 'keys', error.message);
  } finally {
    await keys.close();
  }
}

function tell(findings: readonly CatalogueFinding[], json: boolean, where: object, dataDir?: string): number {
  const damaged = findings.some((finding) => finding.severity === 'damage');
  const isRight = findings.every(({ records }) => records === undefined);
  if (json) {
    const text = JSON.stringify({ ...where, damaged, findings }, undefined, 2);
    process.stdout.write(`${printableJson(text)}\n`);
  } else {
    const all = findings.flatMap((finding) => [...withRecords(finding)]);
    const told = all.map((each) => ({ ...each, message: typed(each.message, dataDir) }));
    process.stdout.write(findingsTable(told, process.stdout));
  }
  if (damaged) return EXIT.damaged;
  return isRight ? EXIT.ok : EXIT.partly;
}

async function readLog(dataDir: string, wanted: boolean, shared?: OpenSharedStore): Promise<Verification> {
  const bar = new ProgressBar({ wanted, unit: 'entries', per: 1, from: BAR_FROM_EVENTS });
  try {
    const log = { dataDir, shared, files: nodeFiles };
    return await verifyLog({ ...log, against: [], keys: [], onProgress: bar.show });
  } finally {
    bar.clear();
  }
}

const ABOUT_EVENTS: ReadonlySet<string> = new Set([
  ...['altered', 'missing', 'forked', 'unreadable'],
  ...['unexplained', 'not_retired', 'unlawful'],
]);

/** What of the log is not as it was written and signed, and how it ends. */
function* logFindings({ findings, events, torn, unopened }: Verification): Generator<Finding> {
  const subject = 'events';
  const faults = findings.listed.filter(({ kind, file }) => ABOUT_EVENTS.has(kind) && file !== 'access.log');
  for (const { message } of faults) yield about('damage', subject, message);
  if (faults.length > 0) {
    if (findings.unlisted > 0)
      yield about('damage', subject, `${findings.unlisted} more findings: see collector verify`);
    return;
  }
  if (unopened === 0) yield about('ok', subject, `${counted(events, 'event')}, each checked`);
  else {
    const message = `${counted(events, 'event')}, each checked, but for ${counted(unopened, 'payload')} that could not be opened: there are no keys`;
    yield about('warning', subject, message);
  }
  yield torn === undefined
    ? about('ok', 'tail', 'ends behind a whole event')
    : about('warning', 'tail', torn);
}

/** @param bytes of events in the log. */
function indexFinding(index: IndexState | undefined, bytes: number, running: boolean): Finding {
  const subject = 'id index';
  if (index === undefined)
    return about('warning', subject, 'missing; the next start rebuilds it from the events');
  const behind = bytes - index.coveredTo;
  if (behind < 0) {
    const message =
      `it covers ${index.coveredTo} bytes of events, and the log has ${bytes}: events that were durable are missing ` +
      'from its end (unless the index is of another copy of this ledger: then delete index/)';
    return about('damage', subject, message);
  }
  if (index.damaged) return about('warning', subject, 'damaged in part; the next start rebuilds that part');
  if (behind > 0 && running)
    return about('ok', subject, `in step: the newest ${behind} bytes are in the collector's memory`);
  const rest = behind > 0 ? `; the next start adds the events of the last ${behind} bytes` : '';
  return about('ok', subject, `covers ${index.coveredTo} of ${bytes} bytes${rest}`);
}

/**
 * It is derived, so nothing about it is damage of what is stored. What it is compared with is made in the directory for
 * temporary files, for the owner alone, and is gone on return, also after a signal.
 */
async function catalogueFinding(dataDir: string, wanted: boolean): Promise<CatalogueFinding> {
  const bar = new ProgressBar({ wanted, unit: 'MiB', per: 1 << 20, from: BAR_FROM_MEBIBYTES });
  const removeHandlers = onStop(() => process.exit(EXIT.interrupted));
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-catalogue-'));
  const remove = () => fs.rmSync(scratch, { recursive: true, force: true });
  process.once('exit', remove);
  const log = openStore(dataDir).events;
  const onProgress = (_: number, share: number) => bar.show(share * log.extent, log.extent);
  try {
    const directory = catalogueDirectory(dataDir);
    return findingOf(await checkCatalogue(log, { directory, scratch, onProgress }));
  } catch (error) {
    if (error instanceof StoreDamaged) return about('ok', 'catalogue', `${NOT_COMPARED}, which is damaged`);
    if (!(error instanceof CatalogueFault)) throw error;
    return about('warning', 'catalogue', `${NOT_COMPARED}: ${error.message}`);
  } finally {
    bar.clear();
    await log.close();
    removeHandlers();
    process.off('exit', remove);
    remove();
  }
}

interface CatalogueFinding extends Finding {
  /** Where the catalogue is not as the log has it; for scripts, so the names are a promise. */
  readonly records?: readonly {
    readonly organisation: string | null;
    readonly record_id: string;
    /** Null of a record without a run. */
    readonly run_id: string | null;
    readonly found: DifferingRecord['found'];
  }[];
  readonly records_not_listed?: number;
}

function findingOf(check: CatalogueCheck): CatalogueFinding {
  const subject = 'catalogue';
  const rebuild = 'the next command that needs it, or the collector, rebuilds it';
  const remove = 'derived; delete catalogue/, also while a collector runs';
  const wrong = (what: string, named: readonly DifferingRecord[] = [], differing = 0): CatalogueFinding => ({
    ...about('warning', subject, `${what}: ${remove}`),
    records: named.map(({ organisation, recordId, isRun, found }) => ({
      ...{ organisation, record_id: recordId, run_id: isRun ? recordId : null, found },
    })),
    records_not_listed: differing - named.length,
  });
  switch (check.state) {
    case 'none':
      return about('ok', subject, `none yet; ${rebuild}`);
    case 'old':
      return about('ok', subject, `of another version; ${rebuild}`);
    case 'closed':
      return about(
        'warning',
        subject,
        `${NOT_COMPARED}: its names are encrypted, and there is no key of them here`,
      );
    case 'changed':
      return about('ok', subject, `a command wrote it meanwhile; ${NOT_COMPARED}`);
    case 'damaged':
      return wrong('damaged');
    case 'foreign':
      return wrong('of another log, or of what this one does not hold');
    case 'compared': {
      const { through, differing, named, isCounted } = check;
      const records = counted(check.records, 'record');
      if (differing > 0) {
        const verb = differing === 1 ? 'is' : 'are';
        return wrong(`${differing} of ${records} ${verb} not as the log has them`, named, differing);
      }
      if (!isCounted) return wrong('its totals are not those of the log');
      return about('ok', subject, `${records} up to entry ${through}, each as the log has it`);
    }
  }
}

const FOUND = {
  missing: 'is in the log and not in the catalogue',
  unknown: 'is in the catalogue and not in the log',
  differs: 'is not as the log has it',
} as const;

/** @returns the finding, and behind it the first of its records, each in a line. */
function* withRecords(finding: CatalogueFinding): Generator<Finding> {
  const { severity, subject, records = [], records_not_listed: unlisted = 0 } = finding;
  yield finding;
  for (const { organisation, record_id: id, run_id: run, found } of records.slice(0, MOST_NAMED)) {
    const what = run === null ? `record ${id} (no run)` : `run ${id}`;
    const of = organisation === null ? 'an organisation that cannot be read' : `organisation ${organisation}`;
    yield about(severity, subject, `${what} of ${of} ${FOUND[found]}`);
  }
  const left = records.length - MOST_NAMED + unlisted;
  if (left > 0) yield about(severity, subject, `${left} more: --json`);
}

/** Segments, or a checkpoint or an index, which say that there were some: that all are gone is no sign of health. */
function holdsLedger(dataDir: string): boolean {
  return holdsLog(dataDir) || holds(path.join(dataDir, 'index'), /\.run$/);
}

function directoryFinding(dataDir: string): Finding {
  const exposure = exposureOf(dataDir);
  if (exposure !== undefined) return about('warning', 'directory', exposure);
  return about('ok', 'directory', `${dataDir}, for its owner alone`);
}

function lockFinding(dataDir: string, running: boolean): Finding {
  const fault = lockFault(dataDir);
  if (fault !== undefined) return about('damage', 'lock', fault);
  const message = running ? 'a collector is running on it' : 'no collector is running on it';
  return about('ok', 'lock', message);
}

function diskFinding(dataDir: string): Finding {
  if (isReadOnly(dataDir)) {
    return about('ok', 'disk', 'read-only, as a snapshot is: no event can be stored');
  }
  const { bavail, bsize } = fs.statfsSync(dataDir);
  const free = bavail * bsize;
  const message = `${(free / 2 ** 30).toFixed(1)} GiB free`;
  if (free >= LOW_DISK_BYTES) return about('ok', 'disk', message);
  return about('warning', 'disk', `${message}; when none is left, events are refused`);
}

function isReadOnly(dataDir: string): boolean {
  try {
    fs.accessSync(dataDir, fs.constants.W_OK);
    return false;
  } catch (error) {
    return systemCode(error) === 'EROFS';
  }
}

/** @param hasEvents whether events were stored, or may have been, which someone had keys for; asked once at most. */
async function keysFinding(dataDir: string, hasEvents: () => Promise<boolean>): Promise<Finding> {
  const subject = 'keys';
  const lost: Finding = about('warning', subject, `${keysLost({ dataDir, store: '' })}; no collector starts`);
  if (!exists(keyDatabasePath(dataDir))) {
    if (await hasEvents()) return lost;
    return about(
      'warning',
      subject,
      'there are none: no one can send an event, and the next start makes a new key with all permissions',
    );
  }
  try {
    const database = KeyDatabase.openReadOnly(dataDir);
    try {
      await KeyRing.open(database);
      const { length } = await database.list();
      if (length === 0 && (await hasEvents())) return lost;
      return about('ok', subject, `${counted(length, 'key')} can be read`);
    } finally {
      await database.close();
    }
  } catch (error) {
    // Any other reason, such as a newer collector's file, says nothing about what is stored.
    if (!(error instanceof KeyStoreDamaged)) throw error;
    return about('damage', subject, error.message);
  }
}

function* tornFindings(dataDir: string): Generator<Finding> {
  const directory = path.join(dataDir, 'ledger', 'torn');
  const kept = exists(directory) ? fs.readdirSync(directory).length : 0;
  if (kept === 0) return;
  const message = `${kept} kept in ledger/torn: bytes of unacknowledged batches, cut off by earlier starts`;
  yield about('warning', 'torn tails', message);
}
