/** Options that do not go together. */
import { isLoopback } from '../loopback.js';
import { formatByteSize, formatDuration } from '../quantity.js';
import type { ConfigFault } from './config-error.js';
import type { Config, Names } from './options.js';

/**
 * What each option for itself cannot tell.
 * @param sourceOf where an option's value was given.
 */
export function contradictions(config: Config, sourceOf: (name: keyof Names) => string): ConfigFault[] {
  const faults: ConfigFault[] = [];
  if (config.queueBytes < 4 * config.maxBodyBytes) {
    const need = formatByteSize(4 * config.maxBodyBytes);
    faults.push({
      source: sourceOf('queue-bytes'),
      message: `must be at least 4 times --max-body-bytes, that is ${need}`,
    });
  }
  if (config.segmentBytes < 2 * config.maxBodyBytes) {
    const need = formatByteSize(2 * config.maxBodyBytes);
    faults.push({
      source: sourceOf('segment-bytes'),
      message: `must be at least twice --max-body-bytes, that is ${need}`,
    });
  }
  if (config.headersTimeoutMs > config.requestTimeoutMs) {
    const limit = formatDuration(config.requestTimeoutMs);
    faults.push({
      source: sourceOf('headers-timeout-ms'),
      message: `must be at most --request-timeout-ms, that is ${limit}`,
    });
  }
  const { tlsCert, tlsKey, tlsClientCa } = config;
  if ((tlsCert === '') !== (tlsKey === '')) {
    const [given, missing] =
      tlsKey === '' ? (['tls-cert', 'tls-key'] as const) : (['tls-key', 'tls-cert'] as const);
    faults.push({ source: sourceOf(given), message: `needs --${missing} as well` });
  }
  if (tlsClientCa !== '' && tlsCert === '') {
    faults.push({ source: sourceOf('tls-client-ca'), message: 'needs --tls-cert and --tls-key as well' });
  }
  if (config.tlsClientAuth === 'optional' && tlsClientCa === '') {
    faults.push({ source: sourceOf('tls-client-auth'), message: 'needs --tls-client-ca as well' });
  }
  if (config.management === 'on') faults.push(...managementFaults(config, sourceOf));
  return faults;
}

function managementFaults(
  { host, port, managementHost, managementPort, managementTokenFile }: Config,
  sourceOf: (name: keyof Names) => string,
): ConfigFault[] {
  const faults: ConfigFault[] = [];
  if (managementTokenFile === '' && !isLoopback(managementHost)) {
    faults.push({
      source: sourceOf('management-host'),
      message: `${managementHost} is reached from other machines: needs --management-token-file as well`,
    });
  }
  if (managementPort !== 0 && managementPort === port && managementHost === host) {
    faults.push({
      source: sourceOf('management-port'),
      message: `must be another one than --port, that is ${port}`,
    });
  }
  return faults;
}
