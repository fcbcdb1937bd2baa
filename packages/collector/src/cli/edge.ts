/** What the options say of how clients reach the collector: TLS, proxies, pages. */
import type { Config } from '../config.js';
import { AllowedOrigins, OriginsInvalid } from '../ingest/allowed-origins.js';
import { CredentialsUnusable, readCredentials, type Credentials } from '../ingest/credentials.js';
import type { TlsOptions } from '../ingest/tls.js';
import { ProxiesInvalid, TrustedProxies } from '../ingest/trusted-proxies.js';
import { CommandFailure, EXIT } from './exit-codes.js';

export interface Edge {
  /** Undefined for plain HTTP. */
  readonly tls: Omit<TlsOptions, 'log'> | undefined;
  readonly trustedProxies: TrustedProxies;
  readonly allowedOrigins: AllowedOrigins;
}

/**
 * Reads the files of the certificate, and understands the lists.
 * @throws {@link CommandFailure} that names the option, before anything is done.
 */
export async function edgeOf(config: Config): Promise<Edge> {
  return {
    trustedProxies: meant('trusted-proxies', ProxiesInvalid, () => new TrustedProxies(config.trustedProxies)),
    allowedOrigins: meant('cors-origins', OriginsInvalid, () => new AllowedOrigins(config.corsOrigins)),
    tls: config.tlsCert === '' ? undefined : await tlsOf(config),
  };
}

async function tlsOf(config: Config): Promise<Edge['tls']> {
  const { tlsCert, tlsKey, tlsClientCa, tlsClientAuth } = config;
  const files = { cert: tlsCert, key: tlsKey, clientCa: tlsClientCa === '' ? undefined : tlsClientCa };
  let credentials: Credentials;
  try {
    credentials = await readCredentials(files);
  } catch (error) {
    if (!(error instanceof CredentialsUnusable)) throw error;
    throw new CommandFailure(`TLS: ${error.message}`, EXIT.usage, { cause: error });
  }
  return { files, credentials, clientAuth: tlsClientAuth };
}

function meant<Value>(option: string, Fault: new () => Error, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw new CommandFailure(`--${option}: ${error.message}`, EXIT.usage, { cause: error });
  }
}
