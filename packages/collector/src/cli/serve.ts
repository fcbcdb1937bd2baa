/** `collector serve`: puts the rooms together, and takes them apart again in the right order. */
import { MessageChannel } from 'node:worker_threads';
import { Command } from 'commander';
import pino, { type Logger } from 'pino';
import { ensureFirstKey } from '../access/issuing.js';
import { KeyRing } from '../access/key-ring.js';
import type { Config } from '../config.js';
import { Ingest } from '../ingest/ingest.js';
import { Listener } from '../ingest/listener.js';
import { createRingMemory } from '../ledger/ring.js';
import { Publisher } from '../publishing/publisher.js';
import { readingsRoot } from '../publishing/readings-root.js';
import { parseSinks, SinkSpecInvalid, type SinkSpec } from '../publishing/sink.js';
import { readHistory } from '../signing/key-history.js';
import { AccessLogFile } from '../store/embedded/access-log-file.js';
import { DirectoryInUse, lockDirectory, type DirectoryLock } from '../store/embedded/directory-lock.js';
import { exposureOf } from '../store/embedded/exposure.js';
import type { Opened } from '../store/embedded/embedded-store.js';
import { nodeFiles } from '../store/embedded/files.js';
import { KeyDatabase } from '../store/embedded/key-database.js';
import { TreeFiles } from '../store/embedded/tree-files.js';
import { addConfigOptions, configOf } from './config-options.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { newKeyNotice } from './first-event.js';
import { LedgerWorker } from './ledger-worker.js';

const EXAMPLES = `
Examples:
  $ collector serve
  $ collector serve --port 9000 --data-dir /var/lib/collector
  $ COLLECTOR_PROFILE=full collector serve

The first start on an empty data directory makes an API key and prints it once.
SIGTERM, SIGINT and SIGHUP stop it in order: what was begun is answered, then it exits with 0.
Logs go to standard error, one JSON object a line.`;

export function command(): Command {
  const serve = new Command('serve').description('Run the collector on its embedded store.');
  return addConfigOptions(serve, 'serve')
    .addHelpText('after', EXAMPLES)
    .action(async (_options: unknown, self: Command) => {
      process.exitCode = await serveUntilStopped(configOf(self, 'serve'));
    });
}

function lock(dataDir: string): DirectoryLock {
  try {
    return lockDirectory(dataDir);
  } catch (error) {
    if (error instanceof DirectoryInUse)
      throw new CommandFailure(error.message, EXIT.inUse, { cause: error });
    throw error;
  }
}

/** @returns the exit code. */
async function serveUntilStopped(config: Config): Promise<number> {
  const sinks = sinksOf(config);
  const log = pino({ level: config.logLevel, base: null }, pino.destination({ dest: 2, sync: true }));
  const held = lock(config.dataDir);
  const exposure = exposureOf(config.dataDir);
  if (exposure) log.warn(exposure);
  const keyDatabase = KeyDatabase.open(config.dataDir);
  try {
    return await run(config, sinks, log, keyDatabase);
  } finally {
    await keyDatabase.close();
    held.release();
  }
}

function sinksOf({ checkpointSink }: Config): readonly SinkSpec[] {
  try {
    return checkpointSink === '' ? [] : parseSinks(checkpointSink);
  } catch (error) {
    if (!(error instanceof SinkSpecInvalid)) throw error;
    throw new CommandFailure(`--checkpoint-sink: ${error.message}`, EXIT.usage, { cause: error });
  }
}

async function run(
  config: Config,
  sinks: readonly SinkSpec[],
  log: Logger,
  keyDatabase: KeyDatabase,
): Promise<number> {
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
    profile: config.profile,
    maxBodyBytes: config.maxBodyBytes,
    log,
    logRequests: log.isLevelEnabled('debug'),
  });
  const ending = new Ending();
  const tree = TreeFiles.read(config.dataDir, nodeFiles);
  const publisher = new Publisher({
    sinks,
    tiles: tree,
    readingsRootAt: (lines) => readingsRoot(AccessLogFile.open(config.dataDir, nodeFiles), lines),
    dataDir: config.dataDir,
    logKeys: () => readHistory(config.dataDir).keys,
    onTrouble: (sink, reason) => log.warn({ sink, reason }, 'a checkpoint sink takes no checkpoints'),
    onForked: (sink, reason) => log.error({ sink, reason }, 'a checkpoint sink contradicts this ledger'),
    onShared: (sink, reason) => log.warn({ sink, reason }, 'a checkpoint sink is shared with another log'),
    onRecovered: (sink) => log.info({ sink }, 'a checkpoint sink takes checkpoints again'),
  });
  const thread = new LedgerWorker(
    {
      dataDir: config.dataDir,
      segmentBytes: config.segmentBytes,
      maxDepth: config.maxNestingDepth,
      signingKeys: config.signingKeys,
      signingCommand: config.signingCommand,
      logOrigin: config.logOrigin,
      checkpointIntervalMs: config.checkpointIntervalMs,
      ring,
      answers: port2,
    },
    {
      log,
      ingest,
      onFailure: () => ending.end(EXIT.unsafe, 'the ledger has failed'),
      onCheckpoint: (note) => publisher.publish(note),
      onAccessCheckpoint: (note) => publisher.publishReadings(note),
    },
  );
  const opened = await thread.opened;
  tellOpened(log, opened);
  // Before anybody can know that it listens: whoever stops it then wants an orderly end.
  const onSignal = (signal: NodeJS.Signals) => ending.end(EXIT.ok, signal);
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal);
  const firstKey = await ensureFirstKey(keyDatabase);
  await keys.refresh();
  const listener = new Listener(ingest, config);
  let port: number;
  try {
    port = await listener.listen();
  } catch (error) {
    await thread.stop();
    throw new CommandFailure(
      `cannot listen on ${config.host}:${config.port}: ${messageOf(error)}`,
      EXIT.failure,
      {
        cause: error,
      },
    );
  }
  keys.start();
  if (firstKey !== undefined) {
    process.stdout.write(`
Your API key (organisation "default", all permissions):
${newKeyNotice({ host: config.host, port }, firstKey, 'inference-start')}
`);
  }
  log.info(
    { host: config.host, port, dataDir: config.dataDir, profile: config.profile, pid: process.pid },
    'listening',
  );

  const { code, reason } = await ending.reached;
  log.info({ reason, pending: ingest.pending }, 'stopping');
  ingest.stop();
  await listener.close(
    code === EXIT.ok ? config.shutdownTimeoutMs : Math.min(1000, config.shutdownTimeoutMs),
  );
  await keys.stop();
  if (code === EXIT.ok) await thread.stop();
  else await thread.terminate();
  await publisher.close(config.shutdownTimeoutMs);
  tree.close();
  port1.close();
  // The thread may have failed while it stopped.
  const final = ending.code ?? code;
  log.info({ exitCode: final }, 'stopped');
  return final;
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
