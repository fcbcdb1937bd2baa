/** `collector serve`: checks what it is started with, holds the data directory and runs the collector on it. */
import { type ConfigReading } from '../../config.js';
import { readMirrorNote } from '../../tree/state-files.js';
import { exposureOf } from '../../store/directory-lock.js';
import { openKeys } from '../../store/open-keys.js';
import { type Call, defineCommand } from '../define.js';
import { CommandFailure, EXIT, type ExitCode, usage } from '../exit-codes.js';
import { holdDirectory } from '../regular-files.js';
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

The first start on an empty data directory makes an API key and prints it once.
With --trial nothing is kept, and each event is listed with what it is refused for, or would be by profile full.
With --no-listen it takes no port for events and is never ready; it does all else: erasures, holds, retention and epochs of
keys that commands ask for, checkpoints and their sinks, the management listener.
With --check it reports every fault of what a start would read, and where it was given; without a fault it prints every
option, its value and where that was given, and warns of what is allowed and unwise. It starts nothing and changes
nothing. Run it as the user that the collector runs as, because access rights are checked.

SIGTERM, SIGINT and SIGQUIT stop it in order: what was begun is answered, then it exits with 0. SIGHUP makes it read
its configuration, keys and certificates again; on a terminal, where it means that the terminal is gone, it stops it
too. Any other signal, such as SIGUSR1, is ignored, with a line in the log.
Logs go to standard error: one JSON object a line, with priorities when systemd reads it, or lines for people on a
terminal. A reader that hangs or is gone holds nothing up: lines are dropped and counted.

Exit codes of --check: 0 the configuration can be used (there may be warnings), 2 it cannot.`;

interface ServeOptions {
  readonly trial?: true;
  /** False with --no-listen. */
  readonly listen: boolean;
  readonly check?: true;
  readonly json?: true;
}

export const command = defineCommand<ServeOptions>({
  name: 'serve',
  description: 'Run the collector on its embedded store.',
  options: {
    '--trial': 'store in a directory that is deleted at the end, and list each event here',
    '--no-listen': 'take no events, and do all else',
    '--check': 'check the configuration, say where each value comes from, and start nothing',
    '--json': 'with --check: print it as one JSON object',
  },
  configuration: 'serve',
  examples: EXAMPLES,
  run: (call) => (call.options.check || call.options.json ? check(call) : start(call)),
});

function check({ options, reading }: Call<ServeOptions>): Promise<ExitCode> {
  const { check: asked, json, trial, listen } = options;
  if (!asked) throw usage('--json: goes with --check');
  if (trial) throw usage('--check: cannot be used with --trial');
  return checkConfig(reading(), { json: json === true, listen });
}

function start(call: Call<ServeOptions>): Promise<ExitCode> {
  const { trial: asked, listen } = call.options;
  if (asked && !listen) throw usage('--trial: takes events, and --no-listen takes none');
  const out = new LineWriter(1);
  const trial = asked && Trial.begin(call, out);
  const read = () => call.config(trial?.instead);
  return serveUntilStopped(call.reading(trial?.instead), { read, out, trial, listen });
}

/** On return nothing is held any more. @returns the exit code. */
async function serveUntilStopped(
  reading: ConfigReading,
  asked: Pick<Start, 'read' | 'out' | 'trial' | 'listen'>,
): Promise<ExitCode> {
  const { config, resolved } = await resolveConfig(reading);
  const serveLog = openServeLog(config.logLevel, asked.trial !== undefined);
  const { log } = serveLog;
  assertNoMirror(config.dataDir);
  const held = holdDirectory(config.dataDir);
  const exposure = exposureOf(config.dataDir);
  if (exposure) log.warn(exposure);
  const { exposure: forgeable } = resolved.trustedProxies;
  if (forgeable) log.warn(`--trusted-proxies ${forgeable}`);
  const keyDatabase = await openKeys(config);
  try {
    return await runCollector({ ...asked, ...serveLog, config, resolved, keyDatabase, lock: held.file });
  } finally {
    await keyDatabase.close();
    held.release();
    // Nothing is left to be done. A file that is being read from a mount that is gone would keep the process forever, and
    // process.exit() would wait for it as well.
    setTimeout(() => {
      log.error('something hangs that cannot be ended, most likely a file system: killed by itself');
      process.kill(process.pid, 'SIGKILL');
    }, config.shutdownTimeoutMs).unref();
  }
}

/** What a collector took there would be in no other copy of the log. */
function assertNoMirror(dataDir: string): void {
  const mirror = readMirrorNote(dataDir);
  if (mirror === undefined) return;
  throw new CommandFailure(
    `${dataDir} is a mirror of ${mirror.store}: a collector needs a directory of its own`,
    EXIT.usage,
  );
}
