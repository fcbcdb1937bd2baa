/**
 * What a start would refuse although every option is sound: the log's name and keys, the program that signs, addresses.
 * Reads, and tries addresses for an instant; makes and changes nothing. What is stored is for `collector doctor`.
 */
import { createServer } from 'node:net';
import type { Config } from '../config.js';
import { programFault } from '../signing/command-signer.js';
import { checkOrigin, hasHistory, readHistory } from '../signing/key-history.js';
import { PrivateKeys } from '../signing/private-keys.js';

/** An option's name, and why it cannot be. */
export interface StartFault {
  readonly option: string;
  readonly message: string;
}

/** Below this a port is for root, or for whom the system says. */
const PRIVILEGED_BELOW = 1024;

export async function startFaults(config: Config): Promise<StartFault[]> {
  const faults: StartFault[] = [];
  const add = (option: string, message: string | undefined) => {
    if (message !== undefined) faults.push({ option, message });
  };
  const { dataDir, signingKeys, signingCommand, logOrigin } = config;
  if (signingCommand !== '') add('signing-command', programFault(signingCommand));
  if (logOrigin !== '')
    add(
      'log-origin',
      reasonUnless(() => checkOrigin(logOrigin)),
    );
  if (hasHistory(dataDir)) {
    const keysOption = config.signingCommand === '' ? 'signing-keys' : 'data-dir';
    add(
      keysOption,
      reasonUnless(() => {
        const { current } = readHistory(dataDir);
        if (logOrigin !== '' && current.name !== logOrigin)
          add('log-origin', `this log began as ${current.name}, and its name stays`);
        if (signingCommand === '') new PrivateKeys(signingKeys).read(current);
      }),
    );
  }
  add('host', await addressFault(config.host, config.port));
  if (config.management === 'on')
    add('management-host', await addressFault(config.managementHost, config.managementPort));
  return faults;
}

function reasonUnless(step: () => void): string | undefined {
  try {
    step();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/**
 * Whether this host has the address, and this user may have the port. A port that is taken is no fault: the collector
 * that this configuration is for may be running.
 */
async function addressFault(host: string, port: number): Promise<string | undefined> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(undefined);
      else resolve(`cannot listen on ${host}${error.code === 'EACCES' ? `:${port}` : ''}: ${error.message}`);
    });
    server.listen({ host, port: port < PRIVILEGED_BELOW ? port : 0 }, () =>
      server.close(() => resolve(undefined)),
    );
  });
}
