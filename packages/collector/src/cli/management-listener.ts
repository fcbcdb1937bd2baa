/** The management listener as the options want it. */
import type { Logger } from 'pino';
import type { Config } from '../config.js';
import { OperatorToken, OperatorTokenUnfit } from '../management/operator-token.js';
import type { Vitals } from '../management/vitals.js';
import { CommandFailure, EXIT } from './exit-codes.js';

/**
 * @returns undefined when none is wanted, or no token is.
 * @throws {@link CommandFailure} that names the option.
 */
export function operatorTokenOf({ management, managementTokenFile }: Config): OperatorToken | undefined {
  if (management === 'off' || managementTokenFile === '') return undefined;
  try {
    return OperatorToken.read(managementTokenFile);
  } catch (error) {
    if (!(error instanceof OperatorTokenUnfit)) throw error;
    throw new CommandFailure(`--management-token-file: ${error.message}`, EXIT.usage, { cause: error });
  }
}

/** Closed when it is disposed of. */
export interface OpenManagement extends AsyncDisposable {
  /** Where it listens, and whether it asks for a token; undefined when there is none. */
  readonly address: { readonly host: string; readonly port: number; readonly token: boolean } | undefined;
}

/**
 * On return it listens, unless it is not wanted.
 * @throws {@link CommandFailure} when the address cannot be had.
 */
export async function openManagement(
  { management, managementHost: host, managementPort }: Config,
  token: OperatorToken | undefined,
  vitals: Vitals,
  log: Logger,
): Promise<OpenManagement> {
  if (management === 'off') return { address: undefined, [Symbol.asyncDispose]: () => Promise.resolve() };
  // Half of what a start loads, for which whoever does not want it should not wait.
  const { Management } = await import('../management/management.js');
  const listener = new Management({ host, port: managementPort, token, vitals, log });
  let port: number;
  try {
    port = await listener.listen();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CommandFailure(
      `the management listener cannot listen on ${host}:${managementPort}: ${reason}. ` +
        'Choose another --management-port, or turn it off by --management off',
      EXIT.failure,
      { cause: error },
    );
  }
  return {
    address: { host, port, token: token !== undefined },
    [Symbol.asyncDispose]: () => listener.close(),
  };
}
