/** `collector verify`: whether the log is the one that was written, and what became of it. Changes nothing but its own note. */
import type { Config } from '../../config.js';
import { exists, nodeFiles } from '../../files.js';
import { writeVerifyResult } from '../../tree/state-files.js';
import { withSharedView } from '../../store/open-shared.js';
import { isShared } from '../../store/open.js';
import { messageOf } from '../../system-code.js';
import { CommandFailure, EXIT, type ExitCode, usage } from '../exit-codes.js';
import { holdsLog } from '../regular-files.js';
import { keysFrom, rotationsIn } from '../given-keys.js';
import { logKey } from './trusted-keys.js';
import { jsonText, printable, ProgressBar } from '../terminal.js';
import { verificationFields, verificationReport } from './verification-report.js';
import { verifyLog, type Verification, type VerificationOptions } from './verification.js';
import { defineCommand } from '../define.js';

const EXAMPLES = `  $ collector verify
  $ collector verify --against /mnt/worm/checkpoints --key log.vkey
  $ collector verify --data-dir /mnt/snapshot --against march.checkpoint --json | jq .findings

Reads everything that is stored and changes nothing, beside a running collector or without one. Checks each event
against the tree, the tree against every checkpoint, every checkpoint's signature, and the access log against its heads
in the log. With --note it leaves its verdict in checkpoints/verify.json for a running collector; run it as the
collector's user then.

What is in the data directory alone proves little against anyone who can write there. Give checkpoints that were kept
elsewhere by --against (a file with one or more, or a directory of such files), and by --key the log's verifier key as
you got it, from which rotation notes are followed: those in the data directory, and those given by --rotations.

Exit codes: 0 intact, 3 something else was found, 6 there is no log, no such file, or no checkpoint in it, 2 a key is
invalid, or all are of other logs, or the command line is wrong, 1 something could not be read, so there is no verdict.`;

/** From this number of events on a progress bar is shown. */
const BAR_FROM_EVENTS = 200_000;

interface VerifyOptions {
  readonly against?: readonly string[];
  readonly key?: readonly string[];
  readonly rotations?: readonly string[];
  readonly json?: true;
  readonly note?: true;
}

export const command = defineCommand<VerifyOptions>({
  name: 'verify',
  description: 'Prove that the log is the one that was written, or say what became of it.',
  options: {
    '--against <path>': {
      help: 'checkpoints that were kept elsewhere; may be given again',
      isRepeatable: true,
    },
    '--key <vkey>': {
      help: 'a verifier key of the log that you trust, a file with one, or @ and a file; may be given again, for earlier and later keys',
      isRepeatable: true,
    },
    '--rotations <path>': {
      help: 'rotation notes of the log, besides those in the data directory: a file or a directory; may be given again',
      isRepeatable: true,
    },
    '--json': 'print what was found as one JSON object',
    '--note': 'leave the verdict in the data directory, for the console and the metrics',
  },
  configuration: 'verify',
  examples: EXAMPLES,
  run: ({ options, config }) => examine(config(), options),
});

interface ExaminedLog extends Pick<VerificationOptions, 'dataDir' | 'shared'> {
  /** Where the verdict is left. */
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
  const keys = (options.key ?? []).flatMap((key) => keysFrom('--key', key, (text) => logKey(text).vkey));
  const rotations = (options.rotations ?? []).flatMap(rotationsIn);
  const bar = new ProgressBar({
    ...{ wanted: !json && process.stderr.isTTY, unit: 'entries', per: 1, from: BAR_FROM_EVENTS, rate: true },
  });
  let verification: Verification;
  try {
    const onProgress = bar.show;
    const log = { dataDir, shared, files: nodeFiles };
    verification = await verifyLog({ ...log, against, keys, rotations, onProgress });
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

/** The verdict counts more than its note: a failure to write it is reported, and changes nothing. */
function note(dataDir: string, { findings: { intact }, events }: Verification): void {
  try {
    writeVerifyResult(dataDir, { at: new Date().toISOString(), intact, events });
  } catch (error) {
    process.stderr.write(`collector: the verdict could not be written: ${printable(messageOf(error))}\n`);
  }
}
