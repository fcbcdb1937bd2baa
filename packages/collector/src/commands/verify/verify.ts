/**
 * `collector verify`: verifies that the log is the one that was signed. Changes nothing except its own note.
 */
import type { Config } from '../../config.js';
import { exists, nodeFiles } from '../../files.js';
import { writeVerifyResult } from '../../tree/state-files.js';
import { withSharedView } from '../../store/open-shared.js';
import { isShared } from '../../store/open.js';
import { messageOf } from '../../system-code.js';
import { CLOSED_FILES, closedFilesFrom } from '../access-lines.js';
import { CommandFailure, EXIT, type ExitCode, usage } from '../exit-codes.js';
import { holdsLog } from '../regular-files.js';
import { trustedFrom } from '../given-keys.js';
import { logKey } from './trusted-keys.js';
import { jsonText, printable, ProgressBar } from '../terminal.js';
import { verificationFields, verificationReport } from './verification-report.js';
import { verifyLog, type Verification, type VerificationOptions } from './verification.js';
import { defineCommand } from '../define.js';

const EXAMPLES = `  $ collector verify
  $ collector verify --against /mnt/worm/checkpoints --key log.vkey
  $ collector verify --access-log /mnt/archive/access.log --access-log /mnt/archive/access-2027.log
  $ collector verify --data-dir /mnt/snapshot --against march.checkpoint --json | jq .findings

Reads all stored data and changes nothing; a collector may run at the same time. Checks each event against the
tree, the tree against every checkpoint, the signature of every checkpoint, and the access log against its
heads in the log. With --note, the verdict is recorded in checkpoints/verify.json for a running collector; run
it as the collector's user.

The contents of the data directory prove little about someone who can write there. With --against, give
checkpoints that were kept elsewhere (a file with one or more, or a directory of such files). With --key, give
the log's verifier key as you received it; rotation notes are followed from it, both those in the data
directory and those given with --key too.

The access log has a file for each year. Closed files are checked in the data directory, or where --access-log
names them. For others, the result states how many lines were not checked.

Exit codes: 0 intact, 3 not intact, 6 there is no log, no such file, or no checkpoint in it, 2 a key is
invalid, or all keys belong to other logs, or the command line is wrong, 1 something could not be read, so
there is no verdict.`;

/** Number of events from which a progress bar is shown. */
const BAR_FROM_EVENTS = 200_000;

interface VerifyOptions {
  readonly against?: readonly string[];
  readonly key?: readonly string[];
  readonly accessLog?: readonly string[];
  readonly json?: true;
  readonly note?: true;
}

export const command = defineCommand<VerifyOptions>({
  name: 'verify',
  description: 'Verify that the log is the one that was signed, and report every difference.',
  options: {
    '--against <path>': {
      help: 'checkpoints that were kept elsewhere; repeatable',
      isRepeatable: true,
    },
    '--key <vkey>': {
      help: 'verifier key of the log, a file with keys, or a file or directory of rotation notes; repeatable',
      isRepeatable: true,
    },
    '--access-log <file>': CLOSED_FILES,
    '--json': 'print the result as one JSON object',
    '--note': 'record the verdict in the data directory, for the console and the metrics',
  },
  configuration: 'verify',
  examples: EXAMPLES,
  run: ({ options, config }) => examine(config(), options),
});

interface ExaminedLog extends Pick<VerificationOptions, 'dataDir' | 'shared'> {
  /** The directory in which the verdict is recorded. */
  readonly noted?: string;
}

async function examine(config: Config, options: VerifyOptions): Promise<ExitCode> {
  const { dataDir } = config;
  if (isShared(config)) {
    if (options.note && !exists(dataDir)) throw usage(`--note: there is no data directory ${dataDir}`);
    return withSharedView(config, (view) => examineLog({ ...view, noted: dataDir }, options));
  }
  if (!exists(dataDir)) throw new CommandFailure(`there is no directory ${dataDir}`, EXIT.notFound);
  if (!holdsLog(dataDir)) throw new CommandFailure(`${dataDir} holds no log`, EXIT.notFound);
  return examineLog({ dataDir }, options);
}

async function examineLog(
  { dataDir, shared, noted = dataDir }: ExaminedLog,
  options: VerifyOptions,
): Promise<ExitCode> {
  const { against = [], json = false } = options;
  const { keys, rotations } = trustedFrom(options.key ?? [], (text) => logKey(text).vkey);
  const closedFiles = closedFilesFrom(options.accessLog ?? [], dataDir, shared !== undefined);
  const bar = new ProgressBar({
    ...{ wanted: !json && process.stderr.isTTY, unit: 'entries', per: 1, from: BAR_FROM_EVENTS, rate: true },
  });
  let verification: Verification;
  try {
    const onProgress = bar.show;
    const log = { dataDir, shared, files: nodeFiles };
    verification = await verifyLog({ ...log, against, keys, rotations, closedFiles, onProgress });
  } finally {
    bar.clear();
  }
  process.stdout.write(
    json
      ? jsonText(verificationFields(verification))
      : verificationReport(verification, shared && 'database'),
  );
  if (options.note) note(noted, verification);
  return verification.findings.intact ? EXIT.ok : EXIT.damaged;
}

/** Records the verdict. A failure to do so is reported, and does not change the result. */
function note(dataDir: string, { findings: { intact }, events }: Verification): void {
  try {
    writeVerifyResult(dataDir, { at: new Date().toISOString(), intact, events });
  } catch (error) {
    process.stderr.write(`collector: the verdict could not be recorded: ${printable(messageOf(error))}\n`);
  }
}
