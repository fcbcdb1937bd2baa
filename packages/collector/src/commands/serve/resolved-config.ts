/**
 * The settings that a start reads before it does anything: certificate, proxies, sinks and operator token, as
 * named by the options. Their faults are reported together with the faults of the options.
 */
import fs from 'node:fs';
import { type Config, ConfigError, type ConfigFault, type ConfigReading } from '../../config.js';
import { CertificateUnusable, ServerCertificate, type TlsOptions } from '../../ingest/tls.js';
import { TrustedProxies } from '../../ingest/trusted-proxies.js';
import { OperatorToken } from '../../operate/operator-token.js';
import { kekFault } from '../../privacy/key-encryption-key.js';
import { isShared, storeFault } from '../../store/open.js';
import { parseSinks, type SinkSpec } from '../../tree/sink.js';
import { Unusable } from '../../unusable.js';
import { readGroupFault } from '../read-group.js';

export interface ResolvedConfig {
  /** Undefined for plain HTTP. */
  readonly tls: (TlsOptions & { readonly certificate: ServerCertificate }) | undefined;
  readonly trustedProxies: TrustedProxies;
  readonly sinks: readonly SinkSpec[];
  /** Undefined if no token is required. */
  readonly token: OperatorToken | undefined;
}

/** The settings of {@link ResolvedConfig}; unusable ones are undefined too. */
export type FoundSettings = { readonly [Name in keyof ResolvedConfig]?: ResolvedConfig[Name] | undefined };

type Sound = Partial<Config>;
/** Records a fault of an option, by name. */
type Report = (option: string, message: string) => void;

const OPTION_OF_FILE = { cert: 'tls-cert', key: 'tls-key', clientCa: 'tls-client-ca' } as const;

/**
 * Reads what the valid options name. Never throws for their contents.
 * @returns the usable settings, and every fault; the faults of `reading` come first.
 */
export async function findSettings({ sound, faults: before, sourceOf }: ConfigReading): Promise<{
  found: FoundSettings;
  faults: readonly ConfigFault[];
}> {
  const faults = [...before];
  const report: Report = (option, message) => void faults.push({ source: sourceOf(option), message });
  const { dataDir, checkpointSink, trustedProxies } = sound;
  if (dataDir !== undefined && fs.statSync(dataDir, { throwIfNoEntry: false })?.isDirectory() === false)
    report('data-dir', `${dataDir} is not a directory`);
  const fault = await storeFault(sound.store ?? '');
  if (fault !== undefined) report('store', fault);
  const noKek = sound.kek ? kekFault(sound.kek) : undefined;
  if (noKek !== undefined) report('kek', noKek);
  const notOpened = noKek === undefined ? groupFault(sound) : undefined;
  if (notOpened !== undefined) report('read-group', notOpened);
  const found = {
    sinks: understood(report, 'checkpoint-sink', parseSinks, checkpointSink),
    trustedProxies: understood(report, 'trusted-proxies', (text) => new TrustedProxies(text), trustedProxies),
    tls: await tlsOf(sound, report),
    token: understood(
      report,
      'management-token-file',
      (file) => OperatorToken.read(file),
      sound.management === 'on' ? sound.managementTokenFile || undefined : undefined,
    ),
  };
  return { found, faults };
}

/**
 * The configuration and the settings it names.
 * @throws ConfigError with every fault.
 */
export async function resolveConfig(
  reading: ConfigReading,
): Promise<{ config: Config; resolved: ResolvedConfig }> {
  const { found, faults } = await findSettings(reading);
  if (reading.config === undefined || faults.length > 0) throw new ConfigError(faults);
  return { config: reading.config, resolved: found as ResolvedConfig };
}

/** Why the files cannot be opened to `--read-group`; undefined if an option that this needs is invalid. */
function groupFault({ dataDir, store, readGroup, ...keys }: Sound): string | undefined {
  const { encryption, encryptionKeys, kek } = keys;
  if (dataDir === undefined || store === undefined || readGroup === undefined || readGroup === '')
    return undefined;
  if (encryption === undefined || encryptionKeys === undefined || kek === undefined) return undefined;
  if (isShared({ store })) return 'this log is in a database: give the option to collector mirror';
  return readGroupFault({ dataDir, readGroup, encryption, encryptionKeys, kek });
}

async function tlsOf(
  { tlsCert: cert = '', tlsKey: key = '', tlsClientCa: clientCa, tlsClientAuth: clientAuth }: Sound,
  report: Report,
): Promise<ResolvedConfig['tls']> {
  if (cert === '' || key === '' || clientCa === undefined || clientAuth === undefined) return undefined;
  const files = { cert, key, clientCa: clientCa === '' ? undefined : clientCa };
  try {
    return { certificate: await ServerCertificate.read(files), clientAuth };
  } catch (error) {
    if (!(error instanceof CertificateUnusable)) throw error;
    for (const { file, message } of error.faults) report(OPTION_OF_FILE[file], message);
    return undefined;
  }
}

/** @param text undefined if the option is invalid or empty. */
function understood<Value>(
  report: Report,
  option: string,
  read: (text: string) => Value,
  text: string | undefined,
): Value | undefined {
  if (text === undefined) return undefined;
  try {
    return read(text);
  } catch (error) {
    if (!(error instanceof Unusable)) throw error;
    report(option, error.message);
    return undefined;
  }
}
