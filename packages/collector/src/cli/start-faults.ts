/**
 * What a start would refuse although every option is sound: the log's name and keys, the program that signs, addresses.
 * Reads, and tries addresses for an instant; makes and changes nothing. What is stored is for `collector doctor`.
 */
import { statSync } from 'node:fs';
import { createServer } from 'node:net';
import type { Config } from '../config.js';
import { programFault } from '../transparency/command-signer.js';
import { checkOrigin, hasHistory, readHistory } from '../transparency/key-history.js';
import { PrivateKeys } from '../transparency/private-keys.js';

/** An option's name, and why it cannot be. */
export interface StartFault {
  readonly option: string;
  readonly message: string;
}

/** Below this a port is for root, or for whom the system says. */
const PRIVILEGED_BELOW = 1024;

/** @param sound the options without a fault of their own; what hangs on another is left out. */
export async function startFaults(sound: Partial<Config>): Promise<StartFault[]> {
  const faults: StartFault[] = [];
  const add = (option: string, message: string | undefined) => {
    if (message !== undefined) faults.push({ option, message });
  };
  const { dataDir, signingKeys, signingCommand, logOrigin } = sound;
  if (signingCommand) add('signing-command', programFault(signingCommand));
  if (logOrigin)
    add(
      'log-origin',
      reasonUnless(() => checkOrigin(logOrigin)),
    );
  if (dataDir !== undefined && signingKeys !== undefined && signingCommand !== undefined) {
    add(
      signingCommand === '' ? 'signing-keys' : 'data-dir',
      reasonUnless(() => {
        if (!isDirectory(dataDir) || !hasHistory(dataDir)) return;
        const { current } = readHistory(dataDir);
        if (logOrigin && current.name !== logOrigin)
          add('log-origin', `this log began as ${current.name}, and its name stays`);
        if (signingCommand === '') new PrivateKeys(signingKeys).read(current);
      }),
    );
  }
  const { host, port, management, managementHost, managementPort } = sound;
  if (host !== undefined && port !== undefined) add('host', await addressFault(host, port));
  if (management === 'on' && managementHost !== undefined && managementPort !== undefined)
    add('management-host', await addressFault(managementHost, managementPort));
  return faults;
}

function isDirectory(place: string): boolean {
  return statSync(place, { throwIfNoEntry: false })?.isDirectory() === true;
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
