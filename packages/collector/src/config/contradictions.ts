/** Options that do not go together. */
import { isLoopback } from '../loopback.js';
import { formatByteSize, formatDuration } from '../quantity.js';
import type { ConfigFault } from './config-error.js';
import type { Config, Names } from './options.js';

/** The option that is to be changed, and why. */
type Fault = readonly [option: keyof Names, message: string];

interface Rule {
  /** What it is about. Where one of them has a fault of its own, nothing more is said of it. */
  readonly between: readonly (keyof Config)[];
  readonly fault: (config: Config) => Fault | undefined;
}

const RULES: readonly Rule[] = [
  {
    between: ['queueBytes', 'maxBodyBytes'],
    fault: ({ queueBytes, maxBodyBytes }) =>
      queueBytes < 4 * maxBodyBytes
        ? [
            'queue-bytes',
            `must be at least 4 times --max-body-bytes, that is ${formatByteSize(4 * maxBodyBytes)}`,
          ]
        : undefined,
  },
  {
    between: ['segmentBytes', 'maxBodyBytes'],
    fault: ({ segmentBytes, maxBodyBytes }) =>
      segmentBytes < 2 * maxBodyBytes
        ? [
            'segment-bytes',
            `must be at least twice --max-body-bytes, that is ${formatByteSize(2 * maxBodyBytes)}`,
          ]
        : undefined,
  },
  {
    between: ['headersTimeoutMs', 'requestTimeoutMs'],
    fault: ({ headersTimeoutMs, requestTimeoutMs }) =>
      headersTimeoutMs > requestTimeoutMs
        ? [
            'headers-timeout-ms',
            `must be at most --request-timeout-ms, that is ${formatDuration(requestTimeoutMs)}`,
          ]
        : undefined,
  },
  {
    between: ['tlsCert', 'tlsKey'],
    fault({ tlsCert, tlsKey }) {
      if ((tlsCert === '') === (tlsKey === '')) return undefined;
      return tlsKey === ''
        ? ['tls-cert', 'needs --tls-key as well']
        : ['tls-key', 'needs --tls-cert as well'];
    },
  },
  {
    between: ['tlsCert', 'tlsClientCa'],
    fault: ({ tlsCert, tlsClientCa }) =>
      tlsClientCa !== '' && tlsCert === ''
        ? ['tls-client-ca', 'needs --tls-cert and --tls-key as well']
        : undefined,
  },
  {
    between: ['tlsClientAuth', 'tlsClientCa'],
    fault: ({ tlsClientAuth, tlsClientCa }) =>
      tlsClientAuth === 'optional' && tlsClientCa === ''
        ? ['tls-client-auth', 'needs --tls-client-ca as well']
        : undefined,
  },
  {
    between: ['management', 'managementHost', 'managementTokenFile'],
    fault: ({ management, managementHost, managementTokenFile }) =>
      management === 'on' && managementTokenFile === '' && !isLoopback(managementHost)
        ? [
            'management-host',
            `${managementHost} is reached from other machines: needs --management-token-file as well`,
          ]
        : undefined,
  },
  {
    between: ['management', 'managementHost', 'managementPort', 'host', 'port'],
    fault: ({ management, host, port, managementHost, managementPort }) =>
      management === 'on' && managementPort !== 0 && managementPort === port && managementHost === host
        ? ['management-port', `must be another one than --port, that is ${port}`]
        : undefined,
  },
];

/**
 * What each option for itself cannot tell.
 * @param sound the options without a fault of their own.
 * @param sourceOf where an option's value was given.
 */
export function contradictions(
  sound: Partial<Config>,
  sourceOf: (name: keyof Names) => string,
): ConfigFault[] {
  const known = RULES.filter(({ between }) => between.every((name) => sound[name] !== undefined));
  return known.flatMap(({ fault }) => {
    const [option, message] = fault(sound as Config) ?? [];
    return option === undefined || message === undefined ? [] : [{ source: sourceOf(option), message }];
  });
}
