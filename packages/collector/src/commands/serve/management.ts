/** Opens the management listener according to the options. */
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

/** Limits what a flood of requests can allocate. */
const HEAP_MIB = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 4 };

/** Closed when it is disposed of. */
export interface OpenManagement extends AsyncDisposable {
  /** Its address, and whether it uses TLS and requires a token; undefined if it is off. */
  readonly address:
    | { readonly host: string; readonly tls: boolean; readonly port: number; readonly token: boolean }
    | undefined;
  /** Uses another certificate from now on. */
  present(pem: CertificatePem): void;
}

/**
 * The text for the first start that shows the address of the console; empty without one. Ends with a line
 * break.
 */
export function consoleNotice(address: OpenManagement['address']): string {
  if (address === undefined) return '';
  const asks = address.token ? '; the operator token is the password, with any user name' : '';
  return `\nThen open the console, which shows the event${asks}:\n\n  ${consoleUrl(address)}\n`;
}

function consoleUrl({ host, port, tls }: NonNullable<OpenManagement['address']>): string {
  const at = callable(host);
  // Plain HTTP always works from this host, and needs no name in a certificate.
  const scheme = tls && !isLoopback(at.replace(/^\[|\]$/g, '')) ? 'https' : 'http';
  return `${scheme}://${at}:${port}/`;
}

/**
 * The text for a terminal at every start: the addresses for events and the console. Ends with a line break.
 */
export function listeningNotice(
  listening: Listening | undefined,
  management: OpenManagement['address'],
): string {
  const console = management === undefined ? '' : `Console:      ${consoleUrl(management)}\n`;
  if (listening === undefined) return `\nRunning, accepting no events (--no-listen)\n${console}`;
  const { host, port, tls } = listening;
  const scheme = tls === undefined ? 'http' : 'https';
  return `\nListening on: ${scheme}://${callable(host)}:${port}\n${console}`;
}

/** Whether the operator token would be sent unencrypted from other machines. */
export function isTokenInClear({
  management,
  managementHost,
  managementTokenFile,
  tlsCert,
}: Config): boolean {
  return management === 'on' && managementTokenFile !== '' && !isLoopback(managementHost) && tlsCert === '';
}

/**
 * Opens the listener, unless it is turned off.
 * @param pem the certificate to present; plain HTTP is also accepted.
 * @throws CommandFailure if the address cannot be bound.
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
  // Loaded only if needed.
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
  // Probes must see a stop immediately.
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
    const advice = 'Choose another --management-port, or turn it off with --management off';
    throw cannotListen('the management listener', { host, port: managementPort }, error, advice);
  }
}
