/**
 * A collector from start to end. Each step opens one part from the parts before it and registers how it is
 * closed; {@link CLOSING} defines the order of closing.
 */
import { isatty } from 'node:tty';
import type { Logger } from 'pino';
import { ensureFirstKey } from '../../access/issuing.js';
import { MessageChannel } from 'node:worker_threads';
import { KeyRing } from '../../access/key-ring.js';
import { type ClockStep, describeStep, SteppingClock } from '../../clock.js';
import { type Config, serviceManagement } from '../../config.js';
import type { HeldFile } from '../../files.js';
import { Ingest } from '../../ingest/ingest.js';
import { Listener } from '../../ingest/listener.js';
import { createCounterMemory, LedgerCounters } from '../../ledger/ledger-counters.js';
import { createRingMemory } from '../../ledger/ring.js';
import type { Snapshot } from '../../operate/snapshot.js';
import type { KeyStore } from '../../store/contract/keys.js';
import { describeStore, isShared } from '../../store/open.js';
import { openSharedStore, openStore } from '../../store/open-to-read.js';
import { escrowNotice, readHistory } from '../../tree/key-files.js';
import { Publisher } from '../../tree/publisher.js';
import { CommandFailure, EXIT, type ExitCode, reasonOf } from '../exit-codes.js';
import {
  cannotListen,
  keysLost,
  type Listening,
  newKeyNotice,
  noteListening,
  requiresCertificate,
} from '../listening.js';
import { AccessSocketWorker } from './access-socket-worker.js';
import { Follower } from './follower.js';
import { version } from '../typed.js';
import type { QueueEnd } from './ledger-thread.js';
import { LedgerWorker } from './ledger-worker.js';
import type { LineWriter, ServeLog } from './log.js';
import {
  consoleNotice,
  isTokenInClear,
  listeningNotice,
  type OpenManagement,
  openManagement,
} from './management.js';
import type { OtlpSide } from './otlp-side.js';
import { Reload, type Settings } from './reload.js';
import type { ResolvedConfig } from './resolved-config.js';
import { ServiceManager } from './service-manager.js';
import { Shutdown, Signals } from './signals.js';
import { RunningStatus } from './status.js';
import type { Trial } from './trial.js';

/** How long a stop waits for a reload in progress, in milliseconds. */
const RELOAD_END_MS = 1000;
/** How long a stop waits for requests after the ledger has failed. */
const UNSAFE_END_MS = 1000;
const CLOCK_EVERY_MS = 1000;
/** How long standard output may take to accept the text of the first key, in milliseconds. */
const FIRST_KEY_MS = 2000;

/** Arguments of a start. */
export interface Start extends ServeLog {
  readonly config: Config;
  readonly resolved: ResolvedConfig;
  /** Reads the configuration again. */
  readonly read: () => Config;
  /** Standard output. */
  readonly out: LineWriter;
  readonly trial: Trial | undefined;
  /** Whether events are accepted. */
  readonly listen: boolean;
  readonly keyDatabase: KeyStore;
  /** The lock on the data directory. */
  readonly lock: HeldFile;
}

/** Shared by all steps: the arguments of the start, and what exists before the parts. */
interface Context extends Start {
  readonly settings: Settings;
  readonly shutdown: Shutdown;
  readonly closing: Closing;
  /** Counters of the ledger's thread. */
  readonly counters: SharedArrayBuffer;
}

/** Opens each part in order, waits for the end, and closes the parts. @returns the exit code. */
export async function runCollector(start: Start): Promise<ExitCode> {
  const { config, resolved, log } = start;
  const shutdown = new Shutdown();
  const signals = new Signals((signal) => shutdown.begin(EXIT.ok, signal), log);
  const manager = new ServiceManager(serviceManagement(), log);
  const closing = new Closing();
  const settings: Settings = { current: config };
  const context = { ...start, settings, shutdown, closing, counters: createCounterMemory() };

  const intake = await openIntake(context);
  const publisher = await openPublisher(context);
  const status = statusOf(context, intake, publisher);
  // Opened before the ledger, which may take long: probes must be answered meanwhile.
  const { token, tls } = resolved;
  await using management = await openManagement(config, token, tls?.certificate.pem, status, log);
  if (management.address) log.info(management.address, 'management listening');
  const thread = await openLedger(context, intake, publisher, status);
  await using follower = openFollower(context);
  status.follower = follower;
  status.accessSocket = openAccessSocket(context);
  // From now on a signal leads to an orderly end. This precedes the first connection.
  signals.endInOrder();
  const listeners = await openListeners(context, intake);
  status.listener = listeners.events;
  status.otlpSide = listeners.otlp;
  const listening = start.listen ? await listen(context, listeners, thread) : undefined;
  await announce(context, listening, management, listeners);
  followCertificate(context, management, listeners);
  await intake.keys.refresh();
  intake.keys.start();
  status.entered('running');
  noteListening(config.dataDir, listening);
  logRunning(start, listening);
  const state = listening
    ? `listening on ${config.host}:${listening.port}`
    : 'accepting no events (--no-listen)';
  const reload = reloadOf(context, intake, listeners, manager, () => manager.ready(state));
  manager.ready(state);
  manager.watch((milliseconds) => {
    thread.ask();
    return performance.now() - (thread.livedAt ?? -Infinity) < milliseconds;
  });
  signals.reloadBy(() => reload.ask());

  const { code, reason } = await shutdown.begun;
  log.info({ reason, pending: intake.ingest.queue.events, version: status.version }, 'stopping');
  status.entered('stopping');
  await closing.run({ isInOrder: code === EXIT.ok, timeoutMs: settings.current.shutdownTimeoutMs });
  // The thread may have failed during the stop.
  const exitCode = shutdown.code ?? code;
  await manager.close();
  log.info({ exitCode }, 'stopped');
  return exitCode;
}

/* The end. */

/** The parts in closing order: a part is closed before those that it uses. */
const CLOSING = [
  'follower',
  'reload',
  'ingest',
  'certificate',
  'listeners',
  'otlp',
  'access-socket',
  'keys',
  'ledger',
  'publisher',
  'tree',
  'queue',
] as const;

interface Ending {
  /** False if the ledger has failed. */
  readonly isInOrder: boolean;
  /** Maximum duration for one part. */
  readonly timeoutMs: number;
}

class Closing {
  readonly #closings = new Map<(typeof CLOSING)[number], (ending: Ending) => unknown>();

  add(part: (typeof CLOSING)[number], close: (ending: Ending) => unknown): void {
    this.#closings.set(part, close);
  }

  async run(ending: Ending): Promise<void> {
    for (const part of CLOSING) await this.#closings.get(part)?.(ending);
  }
}

/* The steps. */

/** The parts that handle requests: the keys, the checks of a request, and the queue to the ledger. */
interface Intake {
  readonly keys: KeyRing;
  readonly ingest: Ingest;
  /** The ledger's end of the queue. */
  readonly queue: QueueEnd;
}

async function openIntake(context: Context): Promise<Intake> {
  const { config, resolved, trial, log, keyDatabase, settings, closing } = context;
  const keys = await KeyRing.open(keyDatabase, {
    onFailure: (error) =>
      log.error({ reason: reasonOf(error) }, 'API keys cannot be read; the last ones read stay valid'),
    onRecovery: () => log.info({}, 'API keys can be read again'),
  });
  closing.add('keys', () => keys.stop());
  const ring = createRingMemory(config.queueBytes, config.queueEvents, new SharedArrayBuffer(4));
  const { port1: answers, port2 } = new MessageChannel();
  closing.add('queue', () => answers.close());
  const ingest = new Ingest({
    ...{ keys, ring, answers, log, maxBodyBytes: config.maxBodyBytes },
    trustedProxies: resolved.trustedProxies,
    keepsBodies: trial !== undefined,
    get profile() {
      return settings.current.profile;
    },
    get logRequests() {
      return ['debug', 'trace'].includes(settings.current.logLevel);
    },
  });
  closing.add('ingest', () => ingest.stop());
  if (trial) ingest.observer = (exchange, status, fault) => trial.observe(exchange, status, fault);
  return { keys, ingest, queue: { ring, answers: port2 } };
}

async function openPublisher({ config, resolved, log, closing, counters }: Context): Promise<Publisher> {
  const { dataDir } = config;
  const { tree } = isShared(config) ? await openSharedStore(config) : openStore(dataDir);
  closing.add('tree', () => tree.close());
  const counted = new LedgerCounters(counters);
  const publisher = new Publisher({
    sinks: resolved.sinks,
    tree,
    entries: () => counted.read().entries,
    dataDir,
    logKeys: () => readHistory(dataDir).keys,
    onTrouble: (sink, reason) => log.warn({ sink, reason }, 'a checkpoint sink is not accepting checkpoints'),
    onForked: (sink, reason) =>
      log.error(
        { sink, reason },
        'a checkpoint sink contradicts this ledger; see docs/guide/alerts.md, CollectorSinkForked',
      ),
    onLost: (sink, reason) => log.warn({ sink, reason }, 'a checkpoint sink has lost checkpoints'),
    onRecovered: (sink) => log.info({ sink }, 'a checkpoint sink accepts checkpoints again'),
    onUnwritten: (reason) =>
      log.warn({ reason }, 'cannot write the states of the checkpoint sinks for doctor; the sinks continue'),
  });
  closing.add('publisher', ({ timeoutMs }) => publisher.close(timeoutMs));
  return publisher;
}

function statusOf(
  { config, resolved, listen: listens, dropped, log, settings, counters }: Context,
  { keys, ingest }: Intake,
  publisher: Publisher,
): RunningStatus {
  return new RunningStatus({
    ...{ dataDir: config.dataDir, keyPlace: config, keys, ingest, publisher, counters, listens },
    certificate: resolved.tls?.certificate,
    tokenInClear: isTokenInClear(config),
    clockSteps: watchClock(log),
    droppedLines: dropped,
    // A database is backed up with its own tools.
    backupMaxAgeMs: () => (isShared(config) ? 0 : settings.current.backupMaxAgeMs),
  });
}

/** Watches the clock, without keeping the process alive. */
function watchClock(log: Logger): () => Snapshot['clockSteps'] {
  const clock = new SteppingClock();
  let [count, last]: [number, ClockStep | undefined] = [0, undefined];
  const look = () => {
    const asked = performance.now();
    const step = clock.read(Date.now(), asked, performance.now());
    if (step === undefined) return;
    [count, last] = [count + 1, step];
    log.warn({ reason: describeStep(step) }, "this host's clock was changed");
  };
  look();
  setInterval(look, CLOCK_EVERY_MS).unref();
  return () => ({ count, last });
}

/** Opens the ledger. @throws CommandFailure if that fails, or if it has events and no key. */
async function openLedger(
  { config, keyDatabase, lock, log, shutdown, closing, counters }: Context,
  { ingest, queue }: Intake,
  publisher: Publisher,
  status: RunningStatus,
): Promise<LedgerWorker> {
  const thread = new LedgerWorker(
    { ...config, maxDepth: config.maxNestingDepth, lock, queue, counters },
    {
      log,
      onState: (state, because) => ingest.ledgerEntered(state, because),
      onFailure: () => shutdown.begin(EXIT.unsafe, 'the ledger has failed'),
      onCheckpoint(note) {
        status.noteCheckpoint(note);
        publisher.publish(note);
      },
      onCheckpointTrouble: (trouble) => status.noteCheckpointTrouble(trouble),
      onAlarm: (about) => status.noteAlarm(about),
    },
  );
  status.thread = thread;
  const { tornTail, ...opened } = await thread.opened;
  if (tornTail) {
    log.warn(tornTail, 'moved an incomplete batch at the end of the log aside');
  }
  log.info(opened, 'ledger open');
  if (opened.events > 0 && (await keyDatabase.list()).length === 0) {
    await thread.stop();
    throw new CommandFailure(keysLost(config), EXIT.usage);
  }
  closing.add('ledger', ({ isInOrder }) => (isInOrder ? thread.stop() : thread.terminate()));
  return thread;
}

/** Undefined for a log in a database, whose catalogue belongs to a mirror. */
function openFollower({ config, log, closing, counters }: Context): Follower | undefined {
  if (isShared(config)) return undefined;
  const follower = new Follower({ dataDir: config.dataDir, counters }, log);
  // Not awaited: it may be stuck in a file system call.
  closing.add('follower', () => {
    follower.end().catch(() => undefined);
  });
  return follower;
}

/** Undefined for a log in a database, whose readers use a mirror. */
function openAccessSocket({ config, log, closing }: Context): AccessSocketWorker | undefined {
  if (isShared(config)) return undefined;
  const socket = new AccessSocketWorker(config.dataDir, log);
  closing.add('access-socket', () => socket.end());
  return socket;
}

interface Listeners {
  readonly events: Listener;
  /** Undefined unless OTLP is enabled. */
  readonly otlp: OtlpSide | undefined;
}

/** Creates the listeners; they do not listen yet. */
async function openListeners(
  { config, resolved, listen: listens, log, closing }: Context,
  { ingest }: Intake,
): Promise<Listeners> {
  const { tls } = resolved;
  const otlp = listens ? await openOtlpSide(config, ingest, tls, log) : undefined;
  const events = new Listener(ingest, config, tls);
  closing.add('listeners', ({ isInOrder, timeoutMs }) => {
    const closeMs = isInOrder ? timeoutMs : Math.min(UNSAFE_END_MS, timeoutMs);
    return Promise.all([events.close(closeMs), otlp?.listener.close(closeMs)]);
  });
  closing.add('otlp', () => otlp?.stop());
  return { events, otlp };
}

/** Creates the OTLP listener; undefined unless enabled, in which case its code is not loaded. */
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

/** Starts listening. @throws CommandFailure if the address cannot be bound; the ledger is then closed. */
async function listen(
  { config, resolved }: Start,
  { events, otlp }: Listeners,
  thread: LedgerWorker,
): Promise<Listening> {
  const { host } = config;
  const tls = resolved.tls && {
    file: resolved.tls.certificate.files.cert,
    certificate: resolved.tls.certificate.x509,
    clientShowsOne: requiresCertificate(config),
  };
  try {
    const port = await events.listen();
    return { host, port, otlpPort: await otlp?.listen(), tls };
  } catch (error) {
    await thread.stop();
    if (error instanceof CommandFailure) throw error;
    throw cannotListen('the collector', config, error, 'Choose another --port or --host');
  }
}

/** Prints where the collector listens, and the first key. */
async function announce(
  { config, trial, out, log, keyDatabase }: Start,
  listening: Listening | undefined,
  { address }: OpenManagement,
  { otlp }: Listeners,
): Promise<void> {
  trial?.announce([...(otlp?.receiver.endpoints.keys() ?? [])]);
  if (isatty(1)) out.write(listeningNotice(listening, address));
  const notices = consoleNotice(address) + (trial ? '' : escrowNotice(config));
  if (listening) await handOutFirstKey(keyDatabase, out, log, listening, notices);
}

/**
 * Creates the first key of an empty data directory once standard output has accepted its text. Unless the
 * reader is slow, this takes one turn of the event loop, so a key that was just shown is never refused.
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
      'standard output did not accept the first API key, so none was created: use collector keys create',
    );
  if (made === 'overtaken')
    log.warn('the API key on standard output is not valid: another process has just created the first one');
}

/** Makes all listeners present a replaced certificate. */
function followCertificate(
  { resolved: { tls }, log, closing }: Context,
  management: OpenManagement,
  { events, otlp }: Listeners,
): void {
  tls?.certificate.follow(log, (pem) => {
    management.present(pem);
    for (const listener of [events, otlp?.listener]) listener?.tls?.present(pem);
  });
  closing.add('certificate', () => tls?.certificate.stop());
}

function logRunning({ config, log }: Start, listening: Listening | undefined): void {
  const { dataDir, profile, host } = config;
  const running = { store: describeStore(config), dataDir, profile, version: version(), pid: process.pid };
  if (listening === undefined) {
    log.info(running, 'running, accepting no events');
    return;
  }
  const { port, otlpPort } = listening;
  log.info({ host, port, ...(otlpPort !== undefined && { otlpPort }), ...running }, 'listening');
}

function reloadOf(
  { read, resolved, log, settings, closing }: Context,
  { keys }: Intake,
  { events, otlp }: Listeners,
  manager: ServiceManager,
  onEnd: () => void,
): Reload {
  const reload = new Reload(settings, {
    read,
    apply(changed) {
      log.level = changed.logLevel;
      events.limit(changed);
      otlp?.listener.limit(changed);
    },
    sources: {
      'API keys': () => keys.refresh(),
      'TLS certificate': () => resolved.tls?.certificate.reload() ?? Promise.resolve(true),
    },
    onBegin: () => manager.reloading(),
    onEnd,
    log,
  });
  closing.add('reload', async ({ timeoutMs }) => {
    await reload.end(Math.min(RELOAD_END_MS, timeoutMs));
    manager.stopping();
  });
  return reload;
}
