/** `collector doctor`: checks a data directory and prints findings. Changes nothing. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { KeyRing } from '../../access/key-ring.js';
import type { Config } from '../../config.js';
import { counted } from '../../quantity.js';
import { exists, nodeFiles } from '../../files.js';
import { describeStore, driverOf, isShared } from '../../store/open.js';
import { exposureOf, isLocked, lockFault } from '../../store/directory-lock.js';
import { indexState, type IndexState } from '../../store/open-state.js';
import { KeyDatabase, keyDatabasePath, openKeys } from '../../store/open-keys.js';
import { openStore, type OpenSharedStore, withSharedView } from '../../store/open-to-read.js';
import { KeyStoreDamaged, KeyStoreError } from '../../store/contract/keys.js';
import { StoreDamaged } from '../../store/contract/events.js';
import { asCheck, CHECKS, FINDINGS, type StoreFinding } from '../../store/findings.js';
import { checkCatalogue, type CatalogueCheck, type DifferingRecord } from '../../catalogue/check.js';
import { CatalogueFault, catalogueDirectory } from '../../catalogue/catalogue.js';
import { systemCode } from '../../system-code.js';
import { Unusable } from '../../unusable.js';
import { isAccessLogName } from '../../tree/access-chain.js';
import { readMirrorNote } from '../../tree/state-files.js';
import { encryptionFindings } from '../encryption-findings.js';
import { CommandFailure, EXIT, type ExitCode, onStop } from '../exit-codes.js';
import { keysLost } from '../listening.js';
import { readGroupOf } from '../read-group.js';
import { findingsTable, printableJson, ProgressBar } from '../terminal.js';
import { proofFindings, sharedProofFindings } from './proof-findings.js';
import { checkDataDirectory, holds, holdsLog } from '../regular-files.js';
import { typed } from '../typed.js';
import { verifyLog, type Verification } from './verification.js';
import { defineCommand } from '../define.js';

const EXAMPLES = `  $ collector doctor
  $ collector doctor --signing-keys command:/opt/kms-sign     # as given to the collector
  $ collector doctor --data-dir /var/lib/collector --json | jq '.findings[] | select(.severity != "ok")'

Reads every event and runs all checks of collector verify with the checkpoints and keys in the directory;
checks the end of the log, the id index, the keys, the access log, the disk and the permissions of the
directory. Rebuilds the catalogue in the directory for temporary files and compares it with the stored one. It
writes nothing to the data directory, and also works while a collector runs or on a read-only snapshot.

Exit codes: 0 nothing is damaged (warnings are possible), 3 stored data is damaged, 7 only the catalogue
differs from the log, 6 there is no such directory, or it holds neither a ledger nor keys, 1 something could
not be read, so there is no verdict.`;

const LOW_DISK_BYTES = 1 << 30;
/** Sizes from which a progress bar is shown. */
const BAR_FROM_MEBIBYTES = 64;
const BAR_FROM_EVENTS = 200_000;
/** Number of records named in text; --json names all. */
const MOST_NAMED = 10;

export const command = defineCommand<{ readonly json?: true }>({
  name: 'doctor',
  description: 'Check a data directory and report problems.',
  options: { '--json': 'print the findings as one JSON object' },
  configuration: 'doctor',
  examples: EXAMPLES,
  run: ({ options, config }) => examine(config(), options.json === true),
});

async function examine(config: Config, json: boolean): Promise<ExitCode> {
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
    // Read before the events: otherwise a running collector's index would cover events stored after those
    // read here.
    index = indexState(dataDir);
    return (log = await readLog(dataDir, wanted));
  };
  const hasEvents = async () => {
    if (!hasLedger) return false;
    const { events, findings: found } = await read();
    return events > 0 || found.faults > 0;
  };
  if (mirrorOf !== undefined) findings.push(CHECKS.mirror(mirrorOf));
  else findings.push(await keysFinding(dataDir, hasEvents));
  if (hasLedger) log ??= await read();
  if (log === undefined) findings.push(CHECKS.events_none());
  else {
    findings.push(...logFindings(log), indexFinding(index, log.bytes, running), ...tornFindings(dataDir));
    findings.push(await catalogueFinding(dataDir, wanted), ...encryptionFindings(dataDir));
    findings.push(...proofFindings(config, log, running, mirrorOf !== undefined));
  }
  return print(findings, json, { data_dir: dataDir }, dataDir);
}

/** Checks a log in a database: the database, and every event. */
async function examineShared(config: Config, json: boolean): Promise<ExitCode> {
  const findings: StoreFinding[] = [...(await (await driverOf(config.store)).examine(config.store))];
  await withSharedView(config, async ({ dataDir, shared }) => {
    const log = await readLog(dataDir, !json && process.stderr.isTTY, shared);
    findings.push(
      await sharedKeysFinding(config, log.events),
      ...logFindings(log),
      ...sharedProofFindings(dataDir, log),
    );
  });
  return print(findings, json, { store: describeStore(config) });
}

async function sharedKeysFinding(config: Config, events: number): Promise<StoreFinding> {
  const keys = await openKeys(config);
  try {
    const { length } = await keys.list();
    return length === 0 && events > 0 ? CHECKS.keys_lost(keysLost(config)) : CHECKS.keys_readable(length);
  } catch (error) {
    if (!(error instanceof KeyStoreError)) throw error;
    return CHECKS.keys_unreadable(error.message);
  } finally {
    await keys.close();
  }
}

function print(
  findings: readonly CatalogueFinding[],
  json: boolean,
  where: object,
  dataDir?: string,
): ExitCode {
  const damaged = findings.some((finding) => finding.severity === 'damage');
  const isRight = findings.every(({ records }) => records === undefined);
  if (json) {
    const text = JSON.stringify({ ...where, damaged, findings }, undefined, 2);
    process.stdout.write(`${printableJson(text)}\n`);
  } else {
    const all = findings.flatMap((finding) => [...withRecords(finding)]);
    const printed = all.map((each) => ({ ...each, message: typed(each.message, dataDir) }));
    process.stdout.write(findingsTable(printed, process.stdout));
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

/** Faults of the log, and the state of its end. */
function* logFindings({ findings, events, torn, unopened }: Verification): Generator<StoreFinding> {
  const faults = findings.listed.filter(
    ({ kind, file = '' }) => kind !== 'note' && FINDINGS[kind].subject === 'events' && !isAccessLogName(file),
  );
  yield* faults.map(asCheck);
  if (faults.length > 0) {
    if (findings.unlisted > 0) yield CHECKS.events_unlisted(findings.unlisted);
    return;
  }
  yield unopened === 0 ? CHECKS.events_checked(events) : CHECKS.events_unopened(events, unopened);
  yield torn === undefined ? CHECKS.tail_whole() : CHECKS.tail_torn(torn);
}

/** @param bytes of events in the log. */
function indexFinding(index: IndexState | undefined, bytes: number, running: boolean): StoreFinding {
  if (index === undefined) return CHECKS.index_missing();
  const { coveredTo, damaged } = index;
  if (coveredTo > bytes) return CHECKS.index_beyond(coveredTo, bytes);
  if (damaged) return CHECKS.index_damaged();
  if (coveredTo < bytes && running) return CHECKS.index_in_memory(bytes - coveredTo);
  return CHECKS.index_covers(coveredTo, bytes);
}

/**
 * Compares the stored catalogue with a new one. The catalogue is derived, so a difference does not mean that
 * stored data is damaged. The new one is made in a private temporary directory that is removed on return and
 * after a signal.
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
    if (error instanceof StoreDamaged) return CHECKS.catalogue_of_damage();
    if (!(error instanceof CatalogueFault)) throw error;
    return CHECKS.catalogue_unread(error.message);
  } finally {
    bar.clear();
    await log.close();
    removeHandlers();
    process.off('exit', remove);
    remove();
  }
}

interface CatalogueFinding extends StoreFinding {
  /** Where the catalogue differs from the log. Programs rely on the names. */
  readonly records?: readonly {
    readonly organisation: string | null;
    readonly record_id: string;
    /** Null for a record without a run. */
    readonly run_id: string | null;
    readonly found: DifferingRecord['found'];
  }[];
  readonly records_not_listed?: number;
}

function findingOf(check: CatalogueCheck): CatalogueFinding {
  const wrong = (what: string, named: readonly DifferingRecord[] = [], differing = 0): CatalogueFinding => ({
    ...CHECKS.catalogue_wrong(what),
    records: named.map(({ organisation, recordId, isRun, found }) => ({
      ...{ organisation, record_id: recordId, run_id: isRun ? recordId : null, found },
    })),
    records_not_listed: differing - named.length,
  });
  switch (check.state) {
    case 'none':
      return CHECKS.catalogue_none();
    case 'old':
      return CHECKS.catalogue_old();
    case 'closed':
      return CHECKS.catalogue_closed();
    case 'changed':
      return CHECKS.catalogue_changed();
    case 'damaged':
      return wrong('damaged');
    case 'foreign':
      return wrong('of another log, or of entries that this log does not have');
    case 'compared': {
      const { records, through, differing, named, isCounted } = check;
      if (differing > 0) {
        const differ = differing === 1 ? 'differs' : 'differ';
        const what = `${differing} of ${counted(records, 'record')} ${differ} from the log`;
        return wrong(what, named, differing);
      }
      return isCounted
        ? CHECKS.catalogue_same(records, through)
        : wrong('wrong: its totals differ from the log');
    }
  }
}

const FOUND = {
  missing: 'is in the log and not in the catalogue',
  unknown: 'is in the catalogue and not in the log',
  differs: 'differs from the log',
} as const;

/** The finding, followed by its first records, one per line. */
function* withRecords(finding: CatalogueFinding): Generator<StoreFinding> {
  const { records = [], records_not_listed: unlisted = 0 } = finding;
  yield finding;
  for (const { organisation, record_id: id, run_id: run, found } of records.slice(0, MOST_NAMED)) {
    const what = run === null ? `record ${id} (no run)` : `run ${id}`;
    const of = organisation === null ? 'an unreadable organisation' : `organisation ${organisation}`;
    yield CHECKS.catalogue_record(`${what} of ${of} ${FOUND[found]}`);
  }
  const left = records.length - MOST_NAMED + unlisted;
  if (left > 0) yield CHECKS.catalogue_record(`${left} more: --json`);
}

/** Whether there are segments, or a checkpoint or an index, which prove that there were some. */
function holdsLedger(dataDir: string): boolean {
  return holdsLog(dataDir) || holds(path.join(dataDir, 'index'), /\.run$/);
}

function directoryFinding(dataDir: string): StoreFinding {
  const exposure = exposureOf(dataDir);
  if (exposure !== undefined) return CHECKS.directory_exposed(exposure);
  const group = readGroupOf(dataDir);
  return group === undefined ? CHECKS.directory_private(dataDir) : CHECKS.directory_open(dataDir, group);
}

function lockFinding(dataDir: string, running: boolean): StoreFinding {
  const fault = lockFault(dataDir);
  if (fault !== undefined) return CHECKS.lock_faulty(fault);
  return running ? CHECKS.lock_held() : CHECKS.lock_free();
}

function diskFinding(dataDir: string): StoreFinding {
  if (isReadOnly(dataDir)) return CHECKS.disk_read_only();
  const { bavail, bsize } = fs.statfsSync(dataDir);
  const gibibytes = ((bavail * bsize) / 2 ** 30).toFixed(1);
  return bavail * bsize >= LOW_DISK_BYTES ? CHECKS.disk_free(gibibytes) : CHECKS.disk_low(gibibytes);
}

function isReadOnly(dataDir: string): boolean {
  try {
    fs.accessSync(dataDir, fs.constants.W_OK);
    return false;
  } catch (error) {
    return systemCode(error) === 'EROFS';
  }
}

/** @param hasEvents whether events are or may have been stored; called at most once. */
async function keysFinding(dataDir: string, hasEvents: () => Promise<boolean>): Promise<StoreFinding> {
  const lost = CHECKS.keys_lost(keysLost({ dataDir, store: '' }));
  if (!exists(keyDatabasePath(dataDir))) return (await hasEvents()) ? lost : CHECKS.keys_missing();
  try {
    const database = KeyDatabase.openReadOnly(dataDir);
    try {
      await KeyRing.open(database);
      const { length } = await database.list();
      return length === 0 && (await hasEvents()) ? lost : CHECKS.keys_readable(length);
    } finally {
      await database.close();
    }
  } catch (error) {
    if (error instanceof KeyStoreDamaged) return CHECKS.keys_damaged(error.message);
    // Other errors, such as a newer collector's file, do not mean damage.
    if (!(error instanceof KeyStoreError && error.cause instanceof Unusable)) throw error;
    throw new CommandFailure(`no verdict: ${error.message}`, EXIT.failure, { cause: error });
  }
}

function* tornFindings(dataDir: string): Generator<StoreFinding> {
  const directory = path.join(dataDir, 'ledger', 'torn');
  const kept = exists(directory) ? fs.readdirSync(directory).length : 0;
  if (kept > 0) yield CHECKS.tails_kept(kept);
}
