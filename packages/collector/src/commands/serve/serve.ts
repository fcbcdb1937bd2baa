/** `collector serve`: checks its configuration, locks the data directory and runs the collector. */
import { type ConfigReading } from '../../config.js';
import { readMirrorNote } from '../../tree/state-files.js';
import { exposureOf } from '../../store/directory-lock.js';
import { openKeys } from '../../store/open-keys.js';
import { type Call, defineCommand } from '../define.js';
import { CommandFailure, EXIT, type ExitCode, usage } from '../exit-codes.js';
import { holdDirectory } from '../held-directory.js';
import { applyReadGroup } from '../read-group.js';
import { assertOwn } from '../regular-files.js';
import { commit, version } from '../typed.js';
import { checkConfig } from './check.js';
import { runCollector, type Start } from './collector.js';
import { LineWriter, openServeLog } from './log.js';
import { resolveConfig } from './resolved-config.js';
import { Trial } from './trial.js';

const EXAMPLES = `  $ collector serve
  $ collector serve --port 9000 --data-dir /var/lib/collector
  $ COLLECTOR_PROFILE=full collector serve
  $ collector serve --trial
  $ collector serve --no-listen --data-dir /var/lib/collector
  $ collector serve --check --config new.json && sudo systemctl reload collector
  $ collector serve --check --json | jq '.settings[] | select(.from != "default")'

The first start on an empty data directory creates an API key and prints it once.

With --trial nothing is kept. Each event is listed with the faults for which it is refused, or would be under
profile full.

With --no-listen it accepts no events and is never ready. Everything else runs: erasures, holds, retention and
key epochs that commands request, checkpoints and their sinks, and the management listener.

With --check it reports every fault of the configuration and where each was given. If there is none, it prints
every option, its value and source, and warns of valid but unwise values. It starts and changes nothing. Run
it as the collector's user, because it checks access rights.

SIGTERM, SIGINT and SIGQUIT stop the collector in order: pending requests are answered, then it exits with 0.
SIGHUP makes it read its configuration, keys and certificates again; on a terminal, where SIGHUP means that
the terminal has closed, it stops the collector. Other signals, such as SIGUSR1, are logged and ignored.

Logs go to standard error: one JSON object per line, with priorities if systemd reads them, or readable text
on a terminal. A reader that is stuck or gone does not block the collector: lines are dropped and counted.

Exit codes of --check: 0 the configuration is usable (warnings are possible), 2 it is not.`;

interface ServeOptions {
  readonly trial?: true;
  /** False with --no-listen. */
  readonly listen: boolean;
  readonly check?: true;
  readonly json?: true;
}

export const command = defineCommand<ServeOptions>({
  name: 'serve',
  description: 'Run the collector.',
  options: {
    '--trial': 'store events in a directory that is deleted at the end, and list each event',
    '--no-listen': 'accept no events, but run everything else',
    '--check': 'check the configuration, show where each value comes from, and start nothing',
    '--json': 'with --check: print the result as one JSON object',
  },
  configuration: 'serve',
  examples: EXAMPLES,
  run: (call) => (call.options.check || call.options.json ? check(call) : start(call)),
});

function check({ options, reading }: Call<ServeOptions>): Promise<ExitCode> {
  const { check: asked, json, trial, listen } = options;
  if (!asked) throw usage('--json: requires --check');
  if (trial) throw usage('--check: cannot be combined with --trial');
  return checkConfig(reading(), { json: json === true, listen });
}

function start(call: Call<ServeOptions>): Promise<ExitCode> {
  const { trial: asked, listen } = call.options;
  if (asked && !listen) throw usage('--trial: cannot be combined with --no-listen');
  const out = new LineWriter(1);
  const trial = asked && Trial.begin(call, out);
  const read = () => call.config(trial?.instead);
  return serveUntilStopped(call.reading(trial?.instead), { read, out, trial, listen });
}

/** @returns the exit code. */
async function serveUntilStopped(
  reading: ConfigReading,
  asked: Pick<Start, 'read' | 'out' | 'trial' | 'listen'>,
): Promise<ExitCode> {
  const { config, resolved } = await resolveConfig(reading);
  const serveLog = openServeLog(config.logLevel, asked.trial !== undefined);
  const { log } = serveLog;
  assertNoMirror(config.dataDir);
  assertOwn(config);
  const held = holdDirectory(config.dataDir);
  applyReadGroup(config);
  const keyDatabase = await openKeys(config);
  log.info({ version: version(), commit: commit() }, 'starting');
  const exposure = exposureOf(config.dataDir);
  if (exposure) log.warn(exposure);
  const { exposure: forgeable } = resolved.trustedProxies;
  if (forgeable) log.warn(`--trusted-proxies ${forgeable}`);
  try {
    return await runCollector({ ...asked, ...serveLog, config, resolved, keyDatabase, lock: held.file });
  } finally {
    await keyDatabase.close();
    held.release();
    // The process should end now. A pending read from a lost mount would keep it alive, and process.exit()
    // would wait for that read as well.
    setTimeout(() => {
      log.error('shutdown is stuck, most likely in a file system call; exiting by SIGKILL');
      process.kill(process.pid, 'SIGKILL');
    }, config.shutdownTimeoutMs).unref();
  }
}

/** Refuses a mirror: events stored there would be missing from every other copy of the log. */
function assertNoMirror(dataDir: string): void {
  const mirror = readMirrorNote(dataDir);
  if (mirror === undefined) return;
  throw new CommandFailure(
    `${dataDir} is a mirror of ${mirror.store}: a collector needs its own directory`,
    EXIT.usage,
  );
}
