/** An HTTP thread beside the first: the same keys, checks and limits, on the same port, with a queue of its own. */
import { parentPort, workerData, type MessagePort } from 'node:worker_threads';
import type { Config } from '../../config.js';
import { readCredentials } from '../../ingest/credentials.js';
import { Listener } from '../../ingest/listener.js';
import type { Log } from '../../ingest/refusal-log.js';
import type { TlsOptions } from '../../ingest/tls.js';
import { TrustedProxies } from '../../ingest/trusted-proxies.js';
import type { LedgerState } from '../../ledger/ledger.js';
import { openKeys } from '../../store/open.js';
import {
  type HttpReport,
  openIngest,
  openKeyRing,
  type QueueEnd,
  reportOf,
  type SharedLimits,
} from './http-side.js';

/** What the thread is started with. */
export interface HttpThreadData {
  readonly config: Config;
  readonly queue: QueueEnd;
  readonly limits: SharedLimits;
  readonly tls: Pick<TlsOptions, 'files' | 'clientAuth'> | undefined;
}

/** What the thread is asked for. */
export type HttpThreadRequest =
  | { readonly type: 'listen'; readonly port: number }
  | { readonly type: 'ledger'; readonly state: LedgerState }
  /** Takes what of the configuration can be changed. */
  | { readonly type: 'config'; readonly config: Config }
  /** Reads keys and certificates again. */
  | { readonly type: 'reload' }
  | { readonly type: 'ticketKeys'; readonly keys: Uint8Array }
  | { readonly type: 'report' }
  /** Answers what was begun, and ends. */
  | { readonly type: 'stop'; readonly timeoutMs: number };

/** What the thread says. */
export type HttpThreadMessage =
  | { readonly type: 'opened' | 'listening' | 'closed' }
  /** All was read; or something not, of which the log tells. */
  | { readonly type: 'reloaded'; readonly whole: boolean }
  | { readonly type: 'report'; readonly report: HttpReport }
  | {
      readonly type: 'log';
      readonly level: keyof Log;
      readonly fields: object;
      readonly message: string;
    };

async function main(port: MessagePort, data: HttpThreadData): Promise<void> {
  let { config } = data;
  const { queue, limits, tls } = data;
  const say = (message: HttpThreadMessage) => port.postMessage(message);
  const line = (level: keyof Log) => (fields: object, message: string) =>
    say({ type: 'log', level, fields, message });
  const log: Log = { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
  const keyStore = await openKeys(config);
  const keys = await openKeyRing(keyStore, limits, log);
  const ingest = openIngest(() => config, {
    ...{ keys, queue, log, keepsBodies: false },
    trustedProxies: new TrustedProxies(config.trustedProxies),
  });
  const credentials = tls && (await readCredentials(tls.files));
  const listener = new Listener(
    ingest,
    { ...config, places: limits.places },
    tls && credentials && { ...tls, credentials, log, isBeside: true },
  );
  const report = () => say({ type: 'report', report: reportOf(keys, ingest, listener) });
  const stop = async (timeoutMs: number): Promise<void> => {
    ingest.stop();
    await listener.close(timeoutMs);
    await keys.stop();
    await keyStore.close();
    report();
    say({ type: 'closed' });
    queue.answers.close();
    port.close();
  };
  const take = async (request: HttpThreadRequest): Promise<void> => {
    switch (request.type) {
      case 'listen':
        await listener.listen(request.port);
        keys.start();
        say({ type: 'listening' });
        break;
      case 'ledger':
        ingest.ledgerEntered(request.state);
        break;
      case 'config':
        config = request.config;
        listener.limit(config);
        break;
      case 'reload': {
        const read = await Promise.all([keys.refresh(), listener.tls?.reload() ?? true]);
        say({ type: 'reloaded', whole: !read.includes(false) });
        break;
      }
      case 'ticketKeys':
        listener.tls?.useTicketKeys(Buffer.from(request.keys));
        break;
      case 'report':
        report();
        break;
      case 'stop':
        await stop(request.timeoutMs);
    }
  };
  port.on('message', (request: HttpThreadRequest) => {
    take(request).catch((error: unknown) => {
      // Ends the thread, and with it the collector, which says why.
      setImmediate(() => {
        throw error;
      });
    });
  });
  say({ type: 'opened' });
}

if (parentPort) await main(parentPort, workerData as HttpThreadData);
