/** `collector serve`: puts the rooms together, and takes them apart again in the right order. */
import { isatty } from 'node:tty';
import { MessageChannel } from 'node:worker_threads';
import { Command } from 'commander';
import type { Logger } from 'pino';
import { ensureFirstKey } from '../../access/issuing.js';
import { KeyRing } from '../../access/key-ring.js';
import { type Config, type Reading, serviceManagement } from '../../config.js';
import { type HeldFile } from '../../files.js';
import { Ingest } from '../../ingest/ingest.js';
import { Listener } from '../../ingest/listener.js';
import { createCounterMemory } from '../../ledger/ledger-counters.js';
import { createRingMemory } from '../../ledger/ring.js';
import { Publisher } from '../../transparency/publisher.js';
import { readHistory } from '../../transparency/key-history.js';
import { exposureOf, KeyDatabase, type Opened, openStore } from '../../store/open.js';
import type { TreeReader } from '../../store/contract.js';
import { CollectorVitals } from './status.js';
import { addConfigOptions, configOf, readingOf } from '../config-options.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import { Follower } from './follower.js';
import { keysLost, type Listening, newKeyNotice, requiresCertificate, noteListening } from './listening.js';
import { escrowNotice } from '../signing-key.js';
import { LedgerWorker } from './ledger-worker.js';
import { LineWriter, openServeLog, type ServeLog } from './log.js';
import {
  consoleNotice,
  isTokenInClear,
  listeningNotice,
  openManagement,
  openTelemetry,
} from './management.js';
import { holdDirectory } from './open-ledger.js';
import { type Provisions, provisionsOf } from './resolved-config.js';
import { Reload } from './reload.js';
import { ServiceManager } from './service-manager.js';
import { Trial } from './trial.js';

/** So long a stop waits for a reload that is under way, in milliseconds. */
const RELOAD_END_MS = 1000;

/** So long standard output may take for the text of the first key, in milliseconds. */
const FIRST_KEY_MS = 2000;

const STOPPING = ['SIGTERM', 'SIGINT'] as const;

const EXAMPLES = `
Examples:
  $ collector serve
  $ collector serve --port 9000 --data-dir /var/lib/collector
  $ COLLECTOR_PROFILE=full collector serve
  $ collector serve --trial

The first start on an empty data directory makes an API key and prints it once.
With --trial nothing is kept, and each accepted event is listed with what profile full would have refused.
SIGTERM and SIGINT stop it in order: what was begun is answered, then it exits with 0. SIGHUP makes it read its
configuration, keys and certificates anew; on a terminal, where it means that the terminal is gone, it stops it too.
Logs go to standard error: one JSON object a line, with priorities when systemd reads it, or lines for people on a
terminal. A reader that hangs or is gone holds nothing up: lines are dropped and counted.`;

export function command(): Command {
  const serve = new Command('serve').description('Run the collector on its embedded store.');
  return addConfigOptions(serve, 'serve')
    .option('--trial', 'store in a directory that is deleted at the end, and list each event here')
    .addHelpText('after', EXAMPLES)
    .action(async (options: { readonly trial?: true }, self: Command) => {
      const out = new LineWriter(1);
      const trial = options.trial && Trial.begin(self, out);
      const read = () => configOf(self, 'serve');
      process.exitCode = await serveUntilStopped(readingOf(self, 'serve'), { read, out, trial });
    });
}

/** What comes to a collector from its command line and its terminal. */
interface Surroundings {
  /** Reads the configuration anew. */
  readonly read: () => Config;
  /** Standard output. */
  readonly out: LineWriter;
  readonly trial: Trial | undefined;
}

/** @returns the exit code. */
async function serveUntilStopped(reading: Reading, surroundings: Surroundings): Promise<number> {
  const { config, provisions } = await provisionsOf(reading);
  const serveLog = openServeLog(config.logLevel, surroundings.trial !== undefined);
  const { log } = serveLog;
  const held = holdDirectory(config.dataDir);
  const exposure = exposureOf(config.dataDir);
  if (exposure) log.warn(exposure);
  const { exposure: forgeable } = provisions.trustedProxies;
  if (forgeable) log.warn(`--trusted-proxies ${forgeable}`);
  const keyDatabase = KeyDatabase.open(config.dataDir);
  try {
    return await run(config, provisions, surroundings, serveLog, keyDatabase, held.file);
  } finally {
    await keyDatabase.close();
    held.release();
    // Nothing is left to be done. A file that is being read from a mount that is gone would keep the process for ever, and
    // process.exit() would wait for it as well.
    setTimeout(() => {
      log.error('something hangs that cannot be ended, most likely a file system: killed by itself');
      process.kill(process.pid, 'SIGKILL');
    }, config.shutdownTimeoutMs).unref();
  }
}

async function run(
  config: Config,
  { sinks, token, tls, trustedProxies, allowedOrigins }: Provisions,
  { read, out, trial }: Surroundings,
  { log, dropped }: ServeLog,
  keyDatabase: KeyDatabase,
  lockFile: HeldFile,
): Promise<number> {
  const ending = new Ending();
  const manager = new ServiceManager(serviceManagement(), log);
  const started = Promise.withResolvers<undefined>();
  let status = '';
  const reload = new Reload(config, started.promise, {
    read,
    apply(changed) {
      log.level = changed.logLevel;
      listener.limit(changed);
    },
    sources: {
      'API keys': () => keys.refresh(),
      'TLS certificate': (): Promise<boolean> => listener.tls?.reload() ?? Promise.resolve(true),
    },
    onBegin: () => manager.reloading(),
    onEnd: () => manager.ready(status),
    log,
  });
  const onSignal = (signal: NodeJS.Signals) => ending.end(EXIT.ok, signal);
  // From here on, because a hang-up that nobody hears ends the process.
  if (!onTerminal()) process.on('SIGHUP', () => reload.ask());
  // Nothing is begun yet that could be finished. As the first process of a container it must hear a signal to end by it.
  const onEarlySignal = () => process.exit(EXIT.ok);
  for (const signal of STOPPING) process.on(signal, onEarlySignal);
  const keys = await KeyRing.open(keyDatabase, {
    onFailure: (error) =>
      log.error({ reason: messageOf(error) }, 'API keys cannot be read; those last read stay valid'),
    onRecovery: () => log.info('API keys can be read again'),
  });
  const ring = createRingMemory(config.queueBytes, config.queueEvents, new SharedArrayBuffer(4));
  const { port1, port2 } = new MessageChannel();
  const ingest = new Ingest({
    keys,
    ring,
    answers: port1,
    get profile() {
      return reload.config.profile;
    },
    maxBodyBytes: config.maxBodyBytes,
    log,
    get logRequests() {
      return log.isLevelEnabled('debug');
    },
    trustedProxies,
    allowedOrigins,
    keepsBodies: trial !== undefined,
  });
  const tree = openStore(config.dataDir).tree;
  const publisher = publisherOf(config.dataDir, sinks, tree, () => vitals.ledger().entries, log);
  const counters = createCounterMemory();
  const vitals = new CollectorVitals({
    ...{ dataDir: config.dataDir, keyPlace: config, keys, ingest, publisher, counters },
    tokenInClear: isTokenInClear(config),
    droppedLines: dropped,
    backupMaxAgeMs: () => reload.config.backupMaxAgeMs,
  });
  // Before the ledger is opened, which may take long: a probe wants to know that the collector is alive.
  await using management = await openManagement(config, token, tls?.credentials, vitals, log);
  if (management.address) log.info(management.address, 'management listening');
  // It flushes when it is disposed of, after the last answer and before the keys are closed.
  await using telemetry = await openTelemetry(vitals, log);
  ingest.observer =
    trial === undefined
      ? telemetry.observer
      : (exchange, status, code) => {
          trial.observe(exchange, status);
          telemetry.observer?.(exchange, status, code);
        };
  const thread = new LedgerWorker(
    {
      dataDir: config.dataDir,
      segmentBytes: config.segmentBytes,
      lock: lockFile,
      maxDepth: config.maxNestingDepth,
      signingKeys: config.signingKeys,
      signingCommand: config.signingCommand,
      logOrigin: config.logOrigin,
      checkpointIntervalMs: config.checkpointIntervalMs,
      ring,
      answers: port2,
      counters,
    },
    {
      log,
      ingest,
      onFailure: () => ending.end(EXIT.unsafe, 'the ledger has failed'),
      onCheckpoint(note) {
        vitals.noteCheckpoint(note);
        publisher.publish(note);
      },
      onCheckpointTrouble: (trouble) => vitals.noteCheckpointTrouble(trouble),
      onAccessLogAltered: () => vitals.noteAccessLogAltered(),
    },
  );
  vitals.thread = thread;
  const opened = await thread.opened;
  tellOpened(log, opened);
  if (opened.events > 0 && (await keyDatabase.list()).length === 0) {
    await thread.stop();
    throw new CommandFailure(keysLost(config.dataDir), EXIT.usage);
  }
  await using follower = new Follower({ dataDir: config.dataDir, counters }, log);
  vitals.follower = follower;
  // Before anybody can know that it listens: whoever stops it then wants an orderly end.
  for (const signal of STOPPING) process.off(signal, onEarlySignal).on(signal, onSignal);
  if (onTerminal()) process.on('SIGHUP', onSignal);
  const listener = new Listener(
    ingest,
    config,
    tls && { ...tls, log, onRenewed: (credentials) => management.present(credentials) },
  );
  vitals.listener = listener;
  const port = await listen(listener, config, thread);
  const shown = tls && {
    file: tls.files.cert,
    certificate: tls.credentials.certificate,
    clientShowsOne: requiresCertificate(config),
  };
  const listening = { host: config.host, port, tls: shown };
  trial?.announce();
  if (isatty(1)) out.write(listeningNotice(listening, management.address));
  const notices = consoleNotice(management.address) + (trial ? '' : escrowNotice(config));
  await handOutFirstKey(keyDatabase, out, log, listening, notices);
  await keys.refresh();
  keys.start();
  vitals.entered('running');
  noteListening(config.dataDir, listening);
  log.info(
    { host: config.host, port, dataDir: config.dataDir, profile: config.profile, pid: process.pid },
    'listening',
  );
  status = `listening on ${config.host}:${port}`;
  manager.ready(status);
  manager.watch((milliseconds) => {
    thread.ask();
    return performance.now() - (thread.livedAt ?? -Infinity) < milliseconds;
  });
  started.resolve(undefined);

  const { code, reason } = await ending.reached;
  log.info({ reason, pending: ingest.pending }, 'stopping');
  vitals.entered('stopping');
  const followerEnds = follower.end();
  await reload.end(Math.min(RELOAD_END_MS, reload.config.shutdownTimeoutMs));
  manager.stopping();
  ingest.stop();
  const { shutdownTimeoutMs } = reload.config;
  await listener.close(code === EXIT.ok ? shutdownTimeoutMs : Math.min(1000, shutdownTimeoutMs));
  await keys.stop();
  if (code === EXIT.ok) await thread.stop();
  else await thread.terminate();
  await publisher.close(shutdownTimeoutMs);
  await tree.close();
  await followerEnds;
  port1.close();
  // The thread may have failed while it stopped.
  const final = ending.code ?? code;
  await manager.close();
  log.info({ exitCode: final }, 'stopped');
  return final;
}

function publisherOf(
  dataDir: string,
  sinks: Provisions['sinks'],
  tiles: TreeReader,
  entries: () => number,
  log: Logger,
): Publisher {
  return new Publisher({
    sinks,
    tiles,
    entries,
    dataDir,
    logKeys: () => readHistory(dataDir).keys,
    onTrouble: (sink, reason) => log.warn({ sink, reason }, 'a checkpoint sink takes no checkpoints'),
    onForked: (sink, reason) =>
      log.error(
        { sink, reason },
        'a checkpoint sink contradicts this ledger; docs/guide/alerts.md, CollectorSinkForked, says what to do',
      ),
    onShared: (sink, reason) => log.warn({ sink, reason }, 'a checkpoint sink is shared with another log'),
    onLost: (sink, reason) => log.warn({ sink, reason }, 'a checkpoint sink lost what it was given'),
    onRecovered: (sink) => log.info({ sink }, 'a checkpoint sink takes checkpoints again'),
    onUnwritten: (reason) =>
      log.warn({ reason }, 'how the checkpoint sinks do cannot be written down for doctor; they go on'),
  });
}

/** @returns the port. @throws CommandFailure when the address cannot be had; the ledger is closed then. */
async function listen(listener: Listener, { host, port }: Config, thread: LedgerWorker): Promise<number> {
  try {
    return await listener.listen();
  } catch (error) {
    await thread.stop();
    const message = `cannot listen on ${host}:${port}: ${messageOf(error)}`;
    throw new CommandFailure(message, EXIT.failure, { cause: error });
  }
}

/**
 * Makes the first key of an empty data directory, once its text was taken by standard output. That and the storing are
 * done in one turn of the event loop unless the reader is behind: nobody can be refused with a key that was just shown.
 */
async function handOutFirstKey(
  keys: KeyDatabase,
  out: LineWriter,
  log: Logger,
  listening: Listening,
  notices: string,
): Promise<void> {
  const made = await ensureFirstKey(keys, (text) => {
    const notice = newKeyNotice(listening, text, 'inference-start') + notices;
    return out.say(`\nYour API key (organisation "default", all permissions):\n${notice}\n`, FIRST_KEY_MS);
  });
  if (made === 'unseen')
    log.warn(
      'standard output did not accept the first API key, so none was made: make one with collector keys create',
    );
  if (made === 'overtaken')
    log.warn('the API key on standard output is not valid: another process has just made the first one');
}

function tellOpened(log: Logger, { tornTail, ...opened }: Opened): void {
  if (tornTail) {
    log.warn(
      tornTail,
      'the end of the log held bytes that are no whole event, most likely of a batch that was being written; they were moved aside',
    );
  }
  log.info(opened, 'ledger open');
}

/**
 * To a command on a terminal a hang-up says that the terminal is gone; to a service, that it is to read its
 * configuration anew (docs/internals/adr/0010-signals.md).
 */
function onTerminal(): boolean {
  return [0, 1, 2].some((descriptor) => isatty(descriptor));
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Why the collector ends; what is worse than an orderly stop overrules it. */
class Ending {
  code: number | undefined;
  #reach!: (ending: { code: number; reason: string }) => void;
  readonly reached = new Promise<{ code: number; reason: string }>((resolve) => (this.#reach = resolve));

  end(code: number, reason: string): void {
    if (this.code === undefined || code !== EXIT.ok) this.code = code;
    this.#reach({ code, reason });
  }
}
