/** `collector serve`: puts the rooms together, and takes them apart again in the right order. */
import { isatty } from 'node:tty';
import { Command } from 'commander';
import type { Logger } from 'pino';
import { ensureFirstKey } from '../../access/issuing.js';
import { type ClockStep, describeStep, SteppingClock } from '../../clock.js';
import { type Config, type ConfigReading, serviceManagement } from '../../config.js';
import { type HeldFile } from '../../files.js';
import type { Ingest } from '../../ingest/ingest.js';
import { Listener } from '../../ingest/listener.js';
import { createCounterMemory } from '../../ledger/ledger-counters.js';
import { Publisher } from '../../tree/publisher.js';
import { escrowNotice, readHistory } from '../../tree/key-files.js';
import { readMirrorNote } from '../../tree/state-files.js';
import { describeStore, isShared } from '../../store/open.js';
import { exposureOf } from '../../store/directory-lock.js';
import { openKeys } from '../../store/open-keys.js';
import { openSharedStore, openStore } from '../../store/open-to-read.js';
import type { KeyStore } from '../../store/contract/keys.js';
import type { TreeReader } from '../../store/contract/tree.js';
import type { Snapshot } from '../../operate/snapshot.js';
import type { OtlpSide } from './otlp-side.js';
import { STRAY } from '../../stray-signals.js';
import { RunningStatus } from './status.js';
import { CommandFailure, EXIT, usage } from '../exit-codes.js';
import { checkConfig } from './check.js';
import { Follower } from './follower.js';
import { createQueue, openIngest, openKeyRing } from './http-side.js';
import { LedgerWorker } from './ledger-worker.js';
import {
  cannotListen,
  keysLost,
  type Listening,
  newKeyNotice,
  requiresCertificate,
  noteListening,
} from './listening.js';
import { LineWriter, openServeLog, type ServeLog } from './log.js';
import { consoleNotice, isTokenInClear, listeningNotice, openManagement } from './management.js';
import { holdDirectory } from './open-ledger.js';
import { type ResolvedConfig, resolveConfig } from './resolved-config.js';
import { Reload } from './reload.js';
import { ServiceManager } from './service-manager.js';
import { Trial } from './trial.js';
import { addConfigOptions, configOf, readingOf } from '../arguments.js';

/** So long a stop waits for a reload that is under way, in milliseconds. */
const RELOAD_END_MS = 1000;
const CLOCK_EVERY_MS = 1000;

/** So long standard output may take for the text of the first key, in milliseconds. */
const FIRST_KEY_MS = 2000;

const STOPPING = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const;

const EXAMPLES = `
Examples:
  $ collector serve
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

export function command(): Command {
  const serve = new Command('serve').description('Run the collector on its embedded store.');
  return addConfigOptions(serve, 'serve')
    .option('--trial', 'store in a directory that is deleted at the end, and list each event here')
    .option('--no-listen', 'take no events, and do all else')
    .option('--check', 'check the configuration, say where each value comes from, and start nothing')
    .option('--json', 'with --check: print it as one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (options: ServeOptions, self: Command) => {
      process.exitCode = await (options.check || options.json ? check : start)(self, options);
    });
}

function check(self: Command, { check: asked, json, trial, listen }: ServeOptions): Promise<number> {
  if (!asked) throw usage('--json: goes with --check');
  if (trial) throw usage('--check: cannot be used with --trial');
  return checkConfig(readingOf(self, 'serve'), { json: json === true, listen });
}

function start(self: Command, { trial: asked, listen }: ServeOptions): Promise<number> {
  if (asked && !listen) throw usage('--trial: takes events, and --no-listen takes none');
  const out = new LineWriter(1);
  const trial = asked && Trial.begin(self, out);
  const read = () => configOf(self, 'serve');
  return serveUntilStopped(readingOf(self, 'serve'), { read, out, trial, listen });
}

/** What comes to a collector from its command line and its terminal. */
interface Environment {
  /** Reads the configuration again. */
  readonly read: () => Config;
  /** Standard output. */
  readonly out: LineWriter;
  readonly trial: Trial | undefined;
  /** Whether events are taken. */
  readonly listen: boolean;
}

/** @returns the exit code. */
async function serveUntilStopped(reading: ConfigReading, environment: Environment): Promise<number> {
  const { config, resolved } = await resolveConfig(reading);
  const serveLog = openServeLog(config.logLevel, environment.trial !== undefined);
  const { log } = serveLog;
  assertNoMirror(config.dataDir);
  const held = holdDirectory(config.dataDir);
  const exposure = exposureOf(config.dataDir);
  if (exposure) log.warn(exposure);
  const { exposure: forgeable } = resolved.trustedProxies;
  if (forgeable) log.warn(`--trusted-proxies ${forgeable}`);
  const keyDatabase = await openKeys(config);
  try {
    return await run(config, resolved, environment, serveLog, keyDatabase, held.file);
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

/** Opens each part in its order, waits until the collector has to end, and closes them again. @returns the exit code. */
async function run(
  config: Config,
  resolved: ResolvedConfig,
  { read, out, trial, listen }: Environment,
  { log, dropped }: ServeLog,
  keyDatabase: KeyStore,
  lock: HeldFile,
): Promise<number> {
  const { trustedProxies, tls, token } = resolved;
  const shutdown = new Shutdown();
  const manager = new ServiceManager(serviceManagement(), log);
  const started = Promise.withResolvers<undefined>();
  let status = '';
  const reload = new Reload(config, started.promise, {
    read,
    apply(changed) {
      log.level = changed.logLevel;
      listener.limit(changed);
      otlp?.listener.limit(changed);
    },
    sources: {
      'API keys': () => keys.refresh(),
      'TLS certificate': () => tls?.certificate.reload() ?? Promise.resolve(true),
    },
    onBegin: () => manager.reloading(),
    onEnd: () => manager.ready(status),
    log,
  });
  const signals = new Signals(
    () => reload.ask(),
    (signal) => shutdown.begin(EXIT.ok, signal),
    log,
  );
  const keys = await openKeyRing(keyDatabase, log);
  const queue = createQueue(config);
  const ingest = openIngest(() => reload.config, {
    ...{ keys, queue: queue.http, trustedProxies, log },
    keepsBodies: trial !== undefined,
  });
  const tree = isShared(config) ? (await openSharedStore(config)).tree : openStore(config.dataDir).tree;
  const publisher = openPublisher(
    config.dataDir,
    resolved.sinks,
    tree,
    () => collectorStatus.ledger.entries,
    log,
  );
  const counters = createCounterMemory();
  const collectorStatus = new RunningStatus({
    ...{ dataDir: config.dataDir, keyPlace: config, keys, ingest, publisher, counters, listens: listen },
    certificate: tls?.certificate,
    tokenInClear: isTokenInClear(config),
    clockSteps: watchClock(log),
    droppedLines: dropped,
    // A database is backed up by its own tools.
    backupMaxAgeMs: () => (isShared(config) ? 0 : reload.config.backupMaxAgeMs),
  });
  // Before the ledger is opened, which may take long: a probe asks whether the collector lives.
  await using management = await openManagement(config, token, tls?.certificate.pem, collectorStatus, log);
  if (management.address) log.info(management.address, 'management listening');
  if (trial) ingest.observer = (exchange, status, fault) => trial.observe(exchange, status, fault);
  const thread = new LedgerWorker(
    { ...ledgerSettings(config), lock, queue: queue.ledger, counters },
    {
      log,
      onState: (state, because) => ingest.ledgerEntered(state, because),
      onFailure: () => shutdown.begin(EXIT.unsafe, 'the ledger has failed'),
      onCheckpoint(note) {
        collectorStatus.noteCheckpoint(note);
        publisher.publish(note);
      },
      onCheckpointTrouble: (trouble) => collectorStatus.noteCheckpointTrouble(trouble),
      onAlarm: (about) => collectorStatus.noteAlarm(about),
    },
  );
  collectorStatus.thread = thread;
  await openLedger(thread, keyDatabase, config, log);
  // The catalogue of a log in a database is that of a mirror.
  await using follower = isShared(config)
    ? undefined
    : new Follower({ dataDir: config.dataDir, counters }, log);
  collectorStatus.follower = follower;
  // Before anyone can know that it runs: a signal from now on asks for an orderly end.
  signals.endInOrder();
  const listener = new Listener(ingest, config, tls);
  collectorStatus.listener = listener;
  const otlp = listen ? await openOtlpSide(config, ingest, tls, log) : undefined;
  collectorStatus.otlpSide = otlp;
  const listening = listen ? await listenOn(listener, otlp, config, tls, thread) : undefined;
  trial?.announce([...(otlp?.receiver.endpoints.keys() ?? [])]);
  if (isatty(1)) out.write(listeningNotice(listening, management.address));
  const notices = consoleNotice(management.address) + (trial ? '' : escrowNotice(config));
  if (listening) await handOutFirstKey(keyDatabase, out, log, listening, notices);
  tls?.certificate.follow(log, (pem) => {
    management.present(pem);
    for (const each of [listener, otlp?.listener]) each?.tls?.present(pem);
  });
  await keys.refresh();
  keys.start();
  collectorStatus.entered('running');
  noteListening(config.dataDir, listening);
  const running = {
    store: describeStore(config),
    dataDir: config.dataDir,
    profile: config.profile,
    version: collectorStatus.version,
    pid: process.pid,
  };
  if (listening) {
    const { port, otlpPort } = listening;
    log.info(
      { host: config.host, port, ...(otlpPort !== undefined && { otlpPort }), ...running },
      'listening',
    );
  } else log.info(running, 'running, and takes no events');
  status = listening ? `listening on ${config.host}:${listening.port}` : 'taking no events (--no-listen)';
  manager.ready(status);
  manager.watch((milliseconds) => {
    thread.ask();
    return performance.now() - (thread.livedAt ?? -Infinity) < milliseconds;
  });
  started.resolve(undefined);

  const { code, reason } = await shutdown.begun;
  const { version } = collectorStatus;
  log.info({ reason, pending: ingest.queue.events, version }, 'stopping');
  collectorStatus.entered('stopping');
  const { shutdownTimeoutMs } = reload.config;
  const inOrder = code === EXIT.ok;
  const followerEnds = follower?.end();
  await reload.end(Math.min(RELOAD_END_MS, shutdownTimeoutMs));
  manager.stopping();
  ingest.stop();
  tls?.certificate.stop();
  const closeTimeoutMs = inOrder ? shutdownTimeoutMs : Math.min(1000, shutdownTimeoutMs);
  await Promise.all([listener.close(closeTimeoutMs), otlp?.listener.close(closeTimeoutMs)]);
  await otlp?.stop();
  await keys.stop();
  await (inOrder ? thread.stop() : thread.terminate());
  await publisher.close(shutdownTimeoutMs);
  await tree.close();
  await followerEnds;
  queue.http.answers.close();
  // The thread may have failed while it stopped.
  const exitCode = shutdown.code ?? code;
  await manager.close();
  log.info({ exitCode }, 'stopped');
  return exitCode;
}

/** Does not keep the process alive. */
function watchClock(log: Logger): () => Snapshot['clockSteps'] {
  const clock = new SteppingClock();
  let [count, last]: [number, ClockStep | undefined] = [0, undefined];
  const look = () => {
    const asked = performance.now();
    const step = clock.read(Date.now(), asked, performance.now());
    if (step === undefined) return;
    [count, last] = [count + 1, step];
    log.warn({ reason: describeStep(step) }, "this host's clock was set");
  };
  look();
  setInterval(look, CLOCK_EVERY_MS).unref();
  return () => ({ count, last });
}

function openPublisher(
  dataDir: string,
  sinks: ResolvedConfig['sinks'],
  tree: TreeReader,
  entries: () => number,
  log: Logger,
): Publisher {
  return new Publisher({
    sinks,
    tree,
    entries,
    dataDir,
    logKeys: () => readHistory(dataDir).keys,
    onTrouble: (sink, reason) => log.warn({ sink, reason }, 'a checkpoint sink takes no checkpoints'),
    onForked: (sink, reason) =>
      log.error(
        { sink, reason },
        'a checkpoint sink contradicts this ledger; docs/guide/alerts.md, CollectorSinkForked, says what to do',
      ),
    onLost: (sink, reason) => log.warn({ sink, reason }, 'a checkpoint sink lost what it was given'),
    onRecovered: (sink) => log.info({ sink }, 'a checkpoint sink takes checkpoints again'),
    onUnwritten: (reason) =>
      log.warn(
        { reason },
        'the states of the checkpoint sinks cannot be written for doctor; the sinks continue',
      ),
  });
}

function ledgerSettings(config: Config) {
  const { dataDir, store, segmentBytes, signingKeys, logOrigin, checkpointIntervalMs } = config;
  const { encryption, encryptionKeys, kek } = config;
  const maxDepth = config.maxNestingDepth;
  return {
    dataDir,
    store,
    segmentBytes,
    signingKeys,
    logOrigin,
    checkpointIntervalMs,
    encryption,
    encryptionKeys,
    kek,
    maxDepth,
  };
}

/** On return the ledger takes events. @throws CommandFailure when it cannot, or when it has events and no key. */
async function openLedger(thread: LedgerWorker, keys: KeyStore, config: Config, log: Logger): Promise<void> {
  const { tornTail, ...opened } = await thread.opened;
  if (tornTail) {
    log.warn(
      tornTail,
      'the end of the log held bytes that are no whole event, most likely of a batch that was being written; they were moved aside',
    );
  }
  log.info(opened, 'ledger open');
  if (opened.events > 0 && (await keys.list()).length === 0) {
    await thread.stop();
    throw new CommandFailure(keysLost(config), EXIT.usage);
  }
}

/** The listener for OTLP, not listening yet; undefined where it is not turned on: then none of its code is loaded. */
async function openOtlpSide(
  config: Config,
  ingest: Ingest,
  tls: ResolvedConfig['tls'],
  log: Logger,
): Promise<OtlpSide | undefined> {
  if (config.otlpPort === '') return undefined;
  const { OtlpSide: Opened } = await import('./otlp-side.js');
  return new Opened({ ...config, otlpPort: config.otlpPort }, ingest, tls, log);
}

/** On return it listens. @throws CommandFailure when the address cannot be had; the ledger is closed then. */
async function listenOn(
  listener: Listener,
  otlp: OtlpSide | undefined,
  config: Config,
  tls: ResolvedConfig['tls'],
  thread: LedgerWorker,
): Promise<Listening> {
  const { host } = config;
  const shown = tls && {
    file: tls.certificate.files.cert,
    certificate: tls.certificate.x509,
    clientShowsOne: requiresCertificate(config),
  };
  try {
    const port = await listener.listen();
    return { host, port, otlpPort: await otlp?.listen(), tls: shown };
  } catch (error) {
    await thread.stop();
    if (error instanceof CommandFailure) throw error;
    throw cannotListen('the collector', config, error, 'Choose another --port or --host');
  }
}

/**
 * Makes the first key of an empty data directory, once its text was taken by standard output. That and the storing are
 * done in one turn of the event loop unless the reader is behind: no one can be refused with a key that was just shown.
 */
async function handOutFirstKey(
  keys: KeyStore,
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

/**
 * What the process does on a signal. SIGHUP: a service reloads; on a terminal it says that the terminal is gone, and ends
 * the collector (docs/internals/adr/0010-signals.md). SIGTERM, SIGINT and SIGQUIT end it: as the first process of a
 * container it gets no default action.
 */
class Signals {
  readonly #onTerminal = [0, 1, 2].some((descriptor) => isatty(descriptor));
  /** Nothing is begun yet that could be finished. */
  readonly #exit = () => process.exit(EXIT.ok);

  constructor(
    reload: () => void,
    private readonly end: (signal: NodeJS.Signals) => void,
    log: Logger,
  ) {
    for (const signal of STRAY)
      process.on(signal, () => log.info({ signal }, 'a signal without a use was ignored'));
    if (!this.#onTerminal) process.on('SIGHUP', reload);
    for (const signal of STOPPING) process.on(signal, this.#exit);
  }

  /** From now on a signal to stop asks for an orderly end. */
  endInOrder(): void {
    for (const signal of STOPPING) process.off(signal, this.#exit).on(signal, this.end);
    if (this.#onTerminal) process.on('SIGHUP', this.end);
  }
}

/** Why the collector ends; what is worse than an orderly stop overrules it. */
class Shutdown {
  code: number | undefined;
  #begin!: (shutdown: { code: number; reason: string }) => void;
  readonly begun = new Promise<{ code: number; reason: string }>((resolve) => (this.#begin = resolve));

  begin(code: number, reason: string): void {
    if (this.code === undefined || code !== EXIT.ok) this.code = code;
    this.#begin({ code, reason });
  }
}
