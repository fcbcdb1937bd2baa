/** `collector serve`: puts the rooms together, and takes them apart again in the right order. */
import { MessageChannel, Worker } from 'node:worker_threads';
import { Command } from 'commander';
import pino, { type Logger } from 'pino';
import { ensureFirstKey } from '../access/issuing.js';
import { KeyRing } from '../access/key-ring.js';
import type { Config } from '../config.js';
import { Ingest } from '../ingest/ingest.js';
import { Listener } from '../ingest/listener.js';
import { createRingMemory } from '../ledger/ring.js';
import { DirectoryInUse, lockDirectory, type DirectoryLock } from '../store/embedded/directory-lock.js';
import { exposureOf } from '../store/embedded/exposure.js';
import type { Opened } from '../store/embedded/embedded-store.js';
import { KeyDatabase } from '../store/embedded/key-database.js';
import { addConfigOptions, configOf } from './config-options.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { newKeyNotice } from './first-event.js';
import type { LedgerThreadData, LedgerThreadMessage } from './ledger-thread.js';

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
  const log = pino({ level: config.logLevel, base: null }, pino.destination({ dest: 2, sync: true }));
  const held = lock(config.dataDir);
  const exposure = exposureOf(config.dataDir);
  if (exposure) log.warn(exposure);
  const keyDatabase = KeyDatabase.open(config.dataDir);
  try {
    return await run(config, log, keyDatabase);
  } finally {
    await keyDatabase.close();
    held.release();
  }
}

async function run(config: Config, log: Logger, keyDatabase: KeyDatabase): Promise<number> {
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
  const thread = new LedgerThread(
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
    log,
    ingest,
    ending,
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

/** The same trouble is logged so often at most, in milliseconds. */
const TROUBLE_EVERY_MS = 10_000;

/** The main thread's end of the ledger thread. */
class LedgerThread {
  readonly opened: Promise<Opened>;
  readonly #worker: Worker;
  #closed = false;

  constructor(data: LedgerThreadData, log: Logger, ingest: Ingest, ending: Ending) {
    this.#worker = new Worker(new URL('./ledger-thread.js', import.meta.url), {
      workerData: data,
      transferList: [data.answers],
    });
    const unsafe = (reason: string) => {
      log.fatal(
        { reason },
        'the ledger has failed; going on would not be safe. A new start reads what is on the disk',
      );
      ingest.ledgerEntered('failed');
      ending.end(EXIT.unsafe, 'the ledger has failed');
    };
    const troubles = new Map<string, number>();
    this.opened = new Promise((resolve, reject) => {
      this.#worker.on('message', (message: LedgerThreadMessage) => {
        switch (message.type) {
          case 'opened':
            resolve(message.opened);
            break;
          case 'refused':
            reject(
              new CommandFailure(
                message.damaged
                  ? `${message.reason}. Nothing was changed; see collector doctor`
                  : message.reason,
                message.damaged ? EXIT.damaged : EXIT.failure,
              ),
            );
            break;
          case 'state':
            if (message.state === 'failed') unsafe(message.reason);
            else {
              ingest.ledgerEntered(message.state);
              if (message.state === 'open') log.info('events are stored again');
              else
                log.error({ reason: message.reason }, 'events cannot be stored; senders are told to retry');
            }
            break;
          case 'trouble':
            // On a full disk each batch meets the same trouble again.
            if (performance.now() - (troubles.get(message.what) ?? -Infinity) < TROUBLE_EVERY_MS) break;
            troubles.set(message.what, performance.now());
            log.warn({ reason: message.reason }, message.what);
            break;
          case 'checkpoint':
            break;
          case 'closed':
            this.#closed = true;
        }
      });
      this.#worker.on('error', (error) => {
        reject(new CommandFailure(messageOf(error), EXIT.unsafe, { cause: error }));
        unsafe(messageOf(error));
      });
    });
  }

  /** Has everything answered that was sent to it, and the store closed. */
  async stop(): Promise<void> {
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.postMessage('stop');
    await exited;
    if (!this.#closed) throw new CommandFailure('the ledger did not close in order', EXIT.unsafe);
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate();
  }
}
