/** The management listener as the options want it. */
import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { Config } from '../../config.js';
import type { CertificatePem } from '../../ingest/tls.js';
import { isLoopback } from '../../loopback.js';
import type { OperatorToken } from '../../operate/operator-token.js';
import type { RunningStatus } from './status.js';
import { callable, cannotListen, type Listening } from '../listening.js';
import type {
  ManagementThreadData,
  ManagementThreadMessage,
  ManagementThreadRequest,
} from './management-thread.js';
import { messageOf } from '../../system-code.js';

/** A flood may not take the memory of the process either. */
const HEAP_MIB = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 4 };

/** Closed when it is disposed of. */
export interface OpenManagement extends AsyncDisposable {
  /** Where it listens, and whether it speaks TLS and asks for a token; undefined when there is none. */
  readonly address:
    | { readonly host: string; readonly tls: boolean; readonly port: number; readonly token: boolean }
    | undefined;
  /** Takes another certificate into use. */
  present(pem: CertificatePem): void;
}

/**
 * What to tell an operator who starts a collector for the first time: where the console is. Empty where there is none.
 * Ends with a line break.
 */
export function consoleNotice(address: OpenManagement['address']): string {
  if (address === undefined) return '';
  const asks = address.token ? '; the operator token is the password, with any user name' : '';
  return `\nThen look at the console, which shows it arrive${asks}:\n\n  ${consoleUrl(address)}\n`;
}

function consoleUrl({ host, port, tls }: NonNullable<OpenManagement['address']>): string {
  const at = callable(host);
  // Plain HTTP is spoken to this host in any case, and needs no name that a certificate has.
  const scheme = tls && !isLoopback(at.replace(/^\[|\]$/g, '')) ? 'https' : 'http';
  return `${scheme}://${at}:${port}/`;
}

/** What a terminal shows at every start: where events go, and where the console is. Ends with a line break. */
export function listeningNotice(
  listening: Listening | undefined,
  management: OpenManagement['address'],
): string {
  const console = management === undefined ? '' : `Console:      ${consoleUrl(management)}\n`;
  if (listening === undefined) return `\nRunning, and takes no events (--no-listen)\n${console}`;
  const { host, port, tls } = listening;
  const scheme = tls === undefined ? 'http' : 'https';
  return `\nListening on: ${scheme}://${callable(host)}:${port}\n${console}`;
}

/** Whether an operator's token would come from other machines for everybody on the way to read. */
export function isTokenInClear({
  management,
  managementHost,
  managementTokenFile,
  tlsCert,
}: Config): boolean {
  return management === 'on' && managementTokenFile !== '' && !isLoopback(managementHost) && tlsCert === '';
}

/**
 * On return it listens, unless it is not wanted.
 * @param pem the certificate to present, beside plain HTTP.
 * @throws CommandFailure when the address cannot be had.
 */
export async function openManagement(
  { management, managementHost: host, managementPort }: Config,
  token: OperatorToken | undefined,
  pem: CertificatePem | undefined,
  collectorStatus: RunningStatus,
  log: Logger,
): Promise<OpenManagement> {
  if (management === 'off') {
    return {
      address: undefined,
      present: () => undefined,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }
  // Not loaded by a collector without it.
  const { watchProcess } = await import('../../operate/process-metrics.js');
  const ofProcess = watchProcess();
  const workerData: ManagementThreadData = {
    ...{ host, port: managementPort, pem },
    tokenHash: token?.hash,
    snapshot: collectorStatus.snapshot(),
  };
  const worker = new Worker(new URL('./management-thread.js', import.meta.url), {
    workerData,
    resourceLimits: HEAP_MIB,
  });
  const tell = (request: ManagementThreadRequest) => worker.postMessage(request);
  const tellSnapshot = () => tell({ type: 'snapshot', answer: collectorStatus.snapshot() });
  const tellProcess = () => {
    ofProcess()
      .then((answer) => tell({ type: 'process', answer }))
      .catch((error: unknown) => log.error({ reason: messageOf(error) }, 'the process cannot be measured'));
  };
  const listening = Promise.withResolvers<number>();
  worker.on('message', (message: ManagementThreadMessage) => {
    if (message.type === 'snapshot') tellSnapshot();
    else if (message.type === 'process') tellProcess();
    else if (message.type === 'log') log[message.level](message.fields, message.message);
    else if (message.type === 'listening') listening.resolve(message.port);
    else listening.reject(new Error(message.reason));
  });
  worker.on('error', (error: Error) => {
    log.error({ reason: error.message }, 'the management listener has failed; events are not affected');
    listening.reject(error);
  });
  // A probe is to know of a stop at once.
  collectorStatus.onPhase = tellSnapshot;
  try {
    const port = await listening.promise;
    return {
      address: { host, tls: pem !== undefined, port, token: token !== undefined },
      present: (renewed) => tell({ type: 'present', pem: renewed }),
      async [Symbol.asyncDispose]() {
        await worker.terminate();
      },
    };
  } catch (error) {
    await worker.terminate();
    const advice = 'Choose another --management-port, or turn it off by --management off';
    throw cannotListen('the management listener', { host, port: managementPort }, error, advice);
  }
}
