/** The management listener as the options want it. */
import type { Logger } from 'pino';
import type { Config } from '../../config.js';
import type { CertificatePem } from '../../ingest/tls.js';
import { isLoopback } from '../../loopback.js';
import type { OperatorToken } from '../../operate/gate.js';
import { callable, cannotListen, type Listening } from '../listening.js';
import { typedByName } from '../typed.js';
import type { RunningStatus } from './status.js';

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
  // Half of what a start loads, for which anyone who does not want it should not wait.
  const { Management } = await import('../../operate/management.js');
  const listener = new Management({
    host,
    port: managementPort,
    token,
    pem,
    log,
    snapshot: () => collectorStatus.snapshot(),
    typed: typedByName,
  });
  let port: number;
  try {
    port = await listener.listen();
  } catch (error) {
    const advice = 'Choose another --management-port, or turn it off by --management off';
    throw cannotListen('the management listener', { host, port: managementPort }, error, advice);
  }
  return {
    address: { host, tls: pem !== undefined, port, token: token !== undefined },
    present: (renewed) => listener.present(renewed),
    [Symbol.asyncDispose]: () => listener.close(),
  };
}
