/** `collector import`: events from elsewhere, from files, examined and stored as those are that come by HTTP. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { Command } from 'commander';
import { DEFAULT_ORGANISATION } from '../access/issuing.js';
import type { Config } from '../config.js';
import { Importer } from '../importing/importer.js';
import type { PreparationSettings } from '../importing/preparation.js';
import { RejectFile, RejectsExist, RejectsUnsafe } from '../importing/reject-file.js';
import { exposureOf } from '../store/open.js';
import { CommitUnknown, type Candidate } from '../store/contract.js';
import { beginReading, type ReadingEnd } from './access-log.js';
import { addConfigOptions, configOf } from './config-options.js';
import { CommandFailure, EXIT, type ExitCode } from './exit-codes.js';
import { bytesOf, defaultRejects, settingsFrom, type ImportOptions } from './import-arguments.js';
import { asJson, asText, howFar, sum, type Result } from './import-report.js';
import { ImportWorker } from './import-worker.js';
import { usage } from './keys.js';
import { importedFiles, namedFiles } from './noted-files.js';
import {
  holdDirectory,
  openLedger,
  reasonOf,
  refusalOf,
  refusedBecause,
  type LedgerEars,
  type LedgerSettings,
  type OpenLedger,
} from './serve/open-ledger.js';
import { ProgressBar } from './terminal.js';

const EXAMPLES = `
Each line of a file is one of
  the event itself                            --kind says of which kind it is
  {"kind": "outcome", "event": {…}}           the text of "event" is stored as it stands there
  {"kind": "outcome", "body": "…"}            such as a line of "collector events": "body" is the exact text to store
A wrapped line may name its organisation and profile too; options on the command line go before what it says. Its sha256,
or else its event_id, has to be that of the event. Lines that name no organisation belong to "${DEFAULT_ORGANISATION}".
"-" is standard input. Files whose names end in .gz, .zst or .br are decompressed; nothing of one that is damaged is stored.

Examples:
  $ collector events --data-dir /mnt/old/data > old.ndjson && collector import old.ndjson
  $ collector import outcomes-*.ndjson.gz --kind outcome --organisation ward-7
  $ collector import runs.ndjson --dry-run --rejects faults.ndjson
  $ collector import legacy.ndjson --kind outcome --fix timestamps=Europe/Berlin
  $ psql -At -c 'select event from log' | collector import - --kind outcome

An event is examined, told from repeats and made durable as if it came by HTTP, and stored under the key id import000000,
which no API key has. Its received_at is the time of the import: what a line says of when and by which key another
collector received it is not taken over. Keep the files for that; --json prints the SHA-256 of each.

Lines that are faulty or contradict a stored event go to the reject file with the reason; it is for its owner alone, as it
holds patient data. Corrected, they can be imported from there: jq -r .text events.ndjson.rejects.ndjson

Running it again stores nothing twice, so an import that was interrupted is run again. It needs the data directory for
itself: where a collector runs, stop it, or send the events to it over HTTP. --dry-run examines only, beside a collector
too; it does not look whether the log has an event already, and writes nothing but the file that --rejects names.

--fix timestamps=ZONE gives timestamps without an offset that of a zone (+01:00, or a name such as Europe/Berlin), and
notes in the event, as "import_fixes", what they were. Where clocks were changed, RFC 5545 says which offset is meant: a
time that came twice is the first, one that never came is read by the clock before the change; "clock_change" tells.

Exit codes: 0 every event is stored now, 7 some lines were refused and all others are stored, 130 interrupted, 1 it had to
stop (the disk is full, a file cannot be read), 3 stored data is damaged, 5 a collector runs on the directory, 6 there is
no such file.`;

/** Fewer are read before anybody wonders. */
const BAR_FROM_MEBIBYTES = 32;
const STOPPING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export function command(): Command {
  const importing = new Command('import')
    .description('Store events from NDJSON files, as if they came by HTTP.')
    .argument('<file...>', 'NDJSON files; - for standard input')
    .option('--organisation <name>', 'the organisation of all events, whatever their lines say')
    .option('--kind <kind>', `the kind of all events: ${EVENT_KINDS.join(', ')}`)
    .option('--rejects <file>', 'where lines that are not stored go (default: <first file>.rejects.ndjson)')
    .option('--fix <what>', 'timestamps=ZONE: the offset for timestamps that have none')
    .option('--dry-run', 'examine the lines and store nothing')
    .option('--json', 'print the result as one JSON object');
  return addConfigOptions(importing, 'import')
    .addHelpText('after', EXAMPLES)
    .action(async (files: string[], options: ImportOptions, self: Command) => {
      process.exitCode = await new Import(files, options, configOf(self, 'import')).run();
    });
}

/** What has to be done once an import has ended, however it has. */
type Closing = () => void | Promise<void>;

class Import {
  readonly #files: readonly string[];
  readonly #options: ImportOptions;
  readonly #config: Config;
  readonly #settings: PreparationSettings;
  /** Bytes to be read in all; undefined when nobody can know. */
  readonly #totalBytes: number | undefined;
  readonly #warned = new Set<string>();
  /** True once all of the files is read. */
  #complete = false;
  #importer: Importer | undefined;
  #ledger: OpenLedger | undefined;
  /** The ledger must not be touched any more. */
  #unsafe = false;

  constructor(files: readonly string[], options: ImportOptions, config: Config) {
    this.#files = files;
    this.#options = options;
    this.#config = config;
    this.#settings = settingsFrom(files, options, config);
    this.#totalBytes = bytesOf(files);
  }

  /** @returns the exit code. */
  async run(): Promise<ExitCode> {
    const result = await this.#import();
    process.stdout.write(this.#options.json ? asJson(result) : asText(result));
    const { importer, stoppedBy } = result;
    if (stoppedBy !== undefined) {
      this.#tell(`stopped by ${stoppedBy}; ${howFar(importer, result.dryRun)}`);
      return EXIT.interrupted;
    }
    if (importer.unreadable > 0) return EXIT.damaged;
    return importer.refused.size > 0 ? EXIT.partly : EXIT.ok;
  }

  /** Imports all, and closes again whatever had to be opened for it. */
  async #import(): Promise<Result> {
    const closings: Closing[] = [];
    const failures: unknown[] = [];
    let result: Result | undefined;
    try {
      result = await this.#openAndPump(closings);
    } catch (error) {
      failures.push(error);
    }
    for (const close of closings.toReversed()) {
      try {
        await close();
      } catch (error) {
        failures.push(error);
      }
    }
    // What was wrong first is most likely the cause of the rest.
    if (result === undefined || failures.length > 0) throw failures[0];
    return result;
  }

  async #openAndPump(closings: Closing[]): Promise<Result> {
    const { dryRun = false, rejects: file = dryRun ? undefined : defaultRejects(this.#files) } =
      this.#options;
    const rejects = file === undefined ? undefined : openRejects(file);
    if (rejects !== undefined) closings.push(() => rejects.close());
    const ledger = dryRun ? undefined : await this.#openLedger(rejects, closings);
    const importer = (this.#importer = new Importer({ inputs: this.#files, store: ledger?.store, rejects }));
    try {
      const stoppedBy = await this.#pump(importer);
      this.#complete = stoppedBy === undefined;
      return { importer, stoppedBy, dryRun, rejects };
    } catch (error) {
      this.#unsafe = error instanceof CommitUnknown;
      const code = this.#unsafe ? EXIT.unsafe : EXIT.failure;
      throw new CommandFailure(`${reasonOf(error)}; ${howFar(importer, dryRun)}`, code, { cause: error });
    }
  }

  /** On return this process alone holds the data directory, and has noted that it imports. */
  async #openLedger(rejects: RejectFile | undefined, closings: Closing[]): Promise<OpenLedger> {
    const { dataDir } = this.#config;
    const held = holdDirectory(dataDir, ': stop that one first, or send the events to it over HTTP');
    closings.push(() => held.release());
    const exposure = exposureOf(dataDir);
    if (exposure !== undefined) this.#warn(exposure, '');
    closings.push(async () => {
      if (this.#ledger === undefined || this.#unsafe) return;
      const { accessLog, sequencer, store } = this.#ledger;
      const append = async (entry: Candidate) => {
        await store.append([entry]);
      };
      await accessLog(append).close();
      await sequencer.close();
      await store.close();
    });
    const { organisation, kind, profile, fix } = this.#options;
    // Before anything is stored, so that an import that is killed has been noted too.
    const end = beginReading(dataDir, {
      command: 'import',
      filter: { ...namedFiles(this.#files), organisation, kind, profile, fix, rejects: rejects?.path },
    });
    // Noted before the ledger is closed, which takes up its head.
    closings.push(() => end(this.#ended()));
    const ledger = (this.#ledger = await openOrRefuse(
      { ...this.#config, lock: held.file },
      {
        onTrouble: (what, reason) => this.#warn(what, reason),
        onAlarm: (what, reason) => this.#warn(what, reason),
        onNotice: (message) => this.#tell(message),
        // The next start of the collector gives the newest ones to the sinks.
        onCheckpoint: () => undefined,
      },
    ));
    const { tornTail } = ledger.store.opened;
    if (tornTail !== undefined) {
      const { bytes, keptIn } = tornTail;
      this.#warn(`${bytes} bytes at the end of the log were no whole event and were moved aside`, keptIn);
    }
    return ledger;
  }

  #ended(): ReadingEnd {
    const importer = this.#importer;
    if (importer === undefined) return { events: 0, complete: false };
    const events = sum(importer.tallies, 'stored');
    return { events, complete: this.#complete, ...importedFiles(importer.tallies) };
  }

  /** @returns the signal that ended it before all was read. */
  async #pump(importer: Importer): Promise<NodeJS.Signals | undefined> {
    let stoppedBy: NodeJS.Signals | undefined;
    const worker = new ImportWorker(this.#settings);
    const onSignal = (signal: NodeJS.Signals) => {
      stoppedBy ??= signal;
      worker.cease();
    };
    for (const signal of STOPPING) process.once(signal, onSignal);
    const bar = new ProgressBar({
      ...{ wanted: this.#options.json !== true && process.stderr.isTTY, unit: 'MiB', per: 1 << 20 },
      ...{ from: BAR_FROM_MEBIBYTES, rate: true },
    });
    try {
      for await (const batch of worker.batches()) {
        await importer.take(batch);
        if (this.#totalBytes !== undefined) bar.show(batch.bytesRead, this.#totalBytes);
      }
    } finally {
      bar.clear();
      for (const signal of STOPPING) process.off(signal, onSignal);
      await worker.stop();
    }
    return stoppedBy;
  }

  /** Each trouble once: on a full disk every batch meets the same again. */
  #warn(what: string, reason: string): void {
    if (this.#warned.has(what)) return;
    this.#warned.add(what);
    this.#tell(`warning: ${what}${reason === '' ? '' : `: ${reason}`}`);
  }

  #tell(message: string): void {
    process.stderr.write(`collector: ${message.replace(/\s*\n\s*/g, ' ')}\n`);
  }
}

async function openOrRefuse(settings: LedgerSettings, ears: LedgerEars): Promise<OpenLedger> {
  try {
    return await openLedger(settings, ears);
  } catch (error) {
    const because = refusalOf(error);
    const advice = because === 'damaged' ? '. Nothing was changed; see collector doctor' : '';
    throw new CommandFailure(refusedBecause(error) + advice, EXIT[because], { cause: error });
  }
}

function openRejects(file: string): RejectFile {
  try {
    return RejectFile.open(file);
  } catch (error) {
    if (error instanceof RejectsUnsafe) throw usage(`${error.message}. Name another by --rejects`);
    if (!(error instanceof RejectsExist)) throw error;
    throw usage(
      `${error.message}: it may hold what an earlier import refused. Move it, or name another by --rejects`,
    );
  }
}
