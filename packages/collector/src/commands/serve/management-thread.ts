/**
 * The thread of the management listener. It asks the main thread for its data. If there is no answer, it
 * shows the last one, and health checks fail.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import type { Log } from '../../ingest/refusal-log.js';
import type { CertificatePem } from '../../ingest/tls.js';
import { Management } from '../../operate/management.js';
import type { ProcessMetrics } from '../../operate/process-metrics.js';
import { OperatorToken } from '../../operate/operator-token.js';
import type { Facts, Snapshot } from '../../operate/snapshot.js';
import { Watch } from '../../operate/watch.js';
import { typedByName } from '../typed.js';
import { messageOf } from '../../system-code.js';

/** Arguments of the thread. */
export interface ManagementThreadData {
  readonly host: string;
  /** 0 selects a free port. */
  readonly port: number;
  /** Hash of the operator's token. */
  readonly tokenHash: Uint8Array | undefined;
  readonly pem: CertificatePem | undefined;
  readonly snapshot: Snapshot;
}

/** Messages to the thread: answers, and a renewed certificate. */
export type ManagementThreadRequest =
  | { readonly type: 'snapshot'; readonly answer: Snapshot }
  | { readonly type: 'process'; readonly answer: ProcessMetrics }
  | { readonly type: 'present'; readonly pem: CertificatePem };

/** Messages of the thread: requests for a snapshot or process metrics, and its own state. */
export type ManagementThreadMessage =
  | { readonly type: 'listening'; readonly port: number }
  | { readonly type: 'refused'; readonly reason: string }
  | { readonly type: 'snapshot' }
  | { readonly type: 'process' }
  | {
      readonly type: 'log';
      readonly level: keyof Log;
      readonly fields: object;
      readonly message: string;
    };

const EVERY_MS = 1000;
/** How long a request waits for the main thread. */
const ANSWER_WITHIN_MS = 500;

/** Data of the main thread; the last answer is used while there is no new one. */
class Asked<T> {
  #last: T | undefined;
  #answeredAt = -Infinity;
  #askedAt = 0;
  #waiting: PromiseWithResolvers<undefined> | undefined;

  constructor(private readonly ask: () => void) {}

  /** Takes an answer, requested or not. */
  answer(answer: T): void {
    this.#last = answer;
    this.#answeredAt = performance.now();
    this.#waiting?.resolve(undefined);
    this.#waiting = undefined;
  }

  /** How long a request has been unanswered, in milliseconds. */
  get silentMs(): number {
    return this.#waiting === undefined ? 0 : performance.now() - this.#askedAt;
  }

  /**
   * @param oldestMs an answer of up to this age is returned without asking.
   * @throws Error if there has been no answer yet and none arrives in time.
   */
  async get(oldestMs = 0): Promise<T> {
    if (performance.now() - this.#answeredAt >= oldestMs) {
      if (this.#waiting === undefined) {
        this.#waiting = Promise.withResolvers();
        this.#askedAt = performance.now();
        this.ask();
      }
      await Promise.race([this.#waiting.promise, sleep(ANSWER_WITHIN_MS, undefined, { ref: false })]);
    }
    if (this.#last === undefined) throw new Error('the HTTP thread does not answer');
    return this.#last;
  }
}

async function main(port: MessagePort, data: ManagementThreadData): Promise<void> {
  const say = (message: ManagementThreadMessage) => port.postMessage(message);
  const log = Object.fromEntries(
    (['debug', 'info', 'warn', 'error'] as const).map((level) => [
      level,
      (fields: object, message: string) => say({ type: 'log', level, fields, message }),
    ]),
  ) as Log;
  const snapshots = new Asked<Snapshot>(() => say({ type: 'snapshot' }));
  const ofProcess = new Asked<ProcessMetrics>(() => say({ type: 'process' }));
  snapshots.answer(data.snapshot);
  const watch = new Watch(data.snapshot);
  const facts = async (oldestMs?: number): Promise<Facts> => {
    const snapshot = await snapshots.get(oldestMs);
    return {
      ...snapshot,
      daysUntilFull: watch.daysUntilFull(snapshot),
      silentMs: snapshots.silentMs,
    };
  };
  const management = new Management({
    token: data.tokenHash && new OperatorToken(data.tokenHash),
    pem: data.pem,
    facts,
    watch,
    ofProcess: () => ofProcess.get(),
    typed: (text) => typedByName(data.snapshot.command, text),
    log,
  });
  port.on('message', (request: ManagementThreadRequest) => {
    if (request.type === 'snapshot') snapshots.answer(request.answer);
    else if (request.type === 'process') ofProcess.answer(request.answer);
    else management.present(request.pem);
  });
  let noted = data.snapshot;
  const look = async () => {
    const snapshot = await snapshots.get();
    // While the main thread is silent, the same snapshot is returned.
    if (snapshot !== noted) watch.note(snapshot);
    noted = snapshot;
  };
  // A snapshot exists from the start, so this does not reject.
  setInterval(() => void look().catch(() => undefined), EVERY_MS);
  try {
    say({ type: 'listening', port: await management.listen(data.host, data.port) });
  } catch (error) {
    say({ type: 'refused', reason: messageOf(error) });
  }
}

if (parentPort) await main(parentPort, workerData as ManagementThreadData);
