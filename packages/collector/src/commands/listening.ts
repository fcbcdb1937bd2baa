/** A first event as a curl command that can be pasted into a shell. */
import { type X509Certificate, randomUUID } from 'node:crypto';
import { isIP } from 'node:net';
import { EVENT_PATHS, type EventKind, PROTOCOL_VERSION } from '@clinical-events/protocol';
import { certificateName } from '../access/principal.js';
import { type Config, inQuotes } from '../config.js';
import { exists } from '../files.js';
import type { Permission } from '../store/contract/keys.js';
import { alternativeNames } from '../access/client-certificate.js';
import { describeStore, isShared, type StoreSettings } from '../store/open.js';
import { isLocked } from '../store/directory-lock.js';
import { keyDatabasePath } from '../store/open-keys.js';
import { messageOf, systemCode } from '../system-code.js';
import { StateFile, isLine } from '../tree/state-files.js';
import { CommandFailure, EXIT } from './exit-codes.js';

/** Valid in both profiles, so that the command works whatever the key or the collector requires. */
const PAYLOADS: Readonly<Record<EventKind, object>> = {
  'inference-start': {
    model_instance: { model_id: 'triage-assistant', model_version: '1.0' },
    user_identity: { caller_id: 'clinician-17', caller_type: 'clinician' },
    target_identity: { target_id: 'document-42', target_type: 'document' },
    inputs: { prompt: 'Summarise the referral letter.' },
  },
  'internal-artifact': {
    artifact: { artifact_type: 'reasoning_trace', artifact_uri: 'urn:example:artifact:1' },
  },
  'human-output': {
    output: { output_type: 'text', output_uri: 'urn:example:output:1', summary: 'A first output.' },
  },
  outcome: { outcome: { outcome_type: 'validated', description: 'A first outcome.' } },
  'user-feedback': { feedback: { feedback_type: 'rating', rating_value: 5 } },
};

/** The port registered for OTLP over HTTP. */
const CUSTOMARY_OTLP_PORT = 4318;

/** Where a collector listens. */
export interface Listening {
  readonly host: string;
  readonly port: number;
  /** The OTLP port, if OTLP is enabled. */
  readonly otlpPort?: number | undefined;
  /** Present if the collector uses HTTPS. */
  readonly tls?: ListeningTls | undefined;
}

interface ListeningTls {
  /** The file of the certificate. */
  readonly file: string;
  /** Undefined if it cannot be read. */
  readonly certificate: X509Certificate | undefined;
  /** Whether the client must present a certificate too. */
  readonly clientShowsOne: boolean;
}

/** Whether every client must present a certificate. */
export function requiresCertificate({ tlsClientCa, tlsClientAuth }: Config): boolean {
  return tlsClientCa !== '' && tlsClientAuth === 'required';
}

/** @param advice a sentence without its period. */
export function cannotListen(
  who: string,
  { host, port }: Pick<Listening, 'host' | 'port'>,
  error: unknown,
  advice: string,
): CommandFailure {
  const message = `${who} cannot listen on ${host}:${port}: ${messageOf(error)}. ${advice}`;
  return new CommandFailure(message, EXIT.failure, { cause: error });
}

/** The address to call from the same host; a wildcard address cannot be called. */
export function callable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}

/**
 * The URL for a client, with a name that is in the certificate: clients reject other names. `resolve` makes
 * curl resolve that name to this host.
 */
function addressOf({ host, port, tls }: Listening): { readonly url: string; readonly resolve: string } {
  const certificate = tls?.certificate;
  const at = callable(host);
  const bare = at.replace(/^\[|\]$/g, '');
  const checked = isIP(bare) === 0 ? certificate?.checkHost(bare) : certificate?.checkIP(bare);
  const fits = certificate === undefined || checked !== undefined;
  // A wildcard name cannot be called, and any other text might mean something to a shell.
  const isName = (name: string) => name.startsWith('dns:') && certificateName(name) === name;
  const name = fits
    ? undefined
    : alternativeNames(certificate.subjectAltName ?? '')
        .find(isName)
        ?.slice(4);
  if (name === undefined)
    return { url: `${tls === undefined ? 'http' : 'https'}://${at}:${port}`, resolve: '' };
  const resolve = isIP(bare) === 0 ? '' : `--resolve ${name}:${port}:${at} `;
  return { url: `https://${name}:${port}`, resolve };
}

/**
 * The certificate options of curl. The collector's own certificate is passed as the authority, which curl
 * trusts regardless of the issuer. The client's file names are placeholders.
 */
function tlsOptions({ file, clientShowsOne }: ListeningTls): string[] {
  const own = clientShowsOne ? ['  --cert client.crt --key client.key \\'] : [];
  return [`  --cacert ${inQuotes(file)} \\`, ...own];
}

/**
 * @param kind of the event; the key must permit it.
 * @returns a shell command over several lines, without a final line break. Each call makes another event.
 */
export function firstEventCurl(listening: Listening, keyText: string, kind: EventKind): string {
  const event = {
    event_id: randomUUID(),
    timestamp: new Date().toISOString(),
    protocol_version: PROTOCOL_VERSION,
    system_metadata: { app_name: 'first-event' },
    ...PAYLOADS[kind],
  };
  const { url, resolve } = addressOf(listening);
  // Neither the event nor a key contains a single quote, so the shell takes everything literally.
  return [
    `curl -sS -X POST ${resolve}${url}${EVENT_PATHS[kind]} \\`,
    ...(listening.tls === undefined ? [] : tlsOptions(listening.tls)),
    `  -H 'X-API-Key: ${keyText}' \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d '${JSON.stringify(event)}'`,
  ].join('\n');
}

/**
 * The text for the operator who receives a new key: the key, once, and how to send an event with it. Ends
 * with a line break. Print it on standard output, never in a log.
 */
export function newKeyNotice(listening: Listening, keyText: string, kind: Permission): string {
  return `
  ${keyText}

This is the only time the key is shown: only its hash is stored. Keep it like a password.

${kind === 'otlp' ? otlpVariables(listening, keyText) : firstEvent(listening, keyText, kind)}
`;
}

function firstEvent(listening: Listening, keyText: string, kind: EventKind): string {
  const files = listening.tls?.clientShowsOne
    ? ', with the certificate and key of the sender in client.crt and client.key'
    : '';
  return `Send a first event${files}; the collector answers {"status":"accepted"}:

${firstEventCurl(listening, keyText, kind)}`;
}

/** The environment of an application with an OpenTelemetry SDK, for a key that permits only OTLP. */
function otlpVariables(
  { host, otlpPort: port = CUSTOMARY_OTLP_PORT, tls }: Listening,
  keyText: string,
): string {
  return `An application with an OpenTelemetry SDK sends with these variables (docs/guide/opentelemetry.md):

OTEL_EXPORTER_OTLP_ENDPOINT=${addressOf({ host, port, tls }).url}
OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
OTEL_EXPORTER_OTLP_HEADERS=x-api-key=${keyText}`;
}

/** The message when there are events but no keys: creating a key would hide the loss. */
export function keysLost(settings: StoreSettings): string {
  if (isShared(settings)) {
    return (
      `${describeStore(settings)} holds events but no API key: restore the table api_keys from the ` +
      'back-up, or create a key with collector keys create'
    );
  }
  return (
    `${keyDatabasePath(settings.dataDir)} holds no API key, but the ledger holds events: restore the file ` +
    'from the back-up, or create a key with collector keys create'
  );
}

/*
 * `checkpoints/listening.json`: the address of the collector that holds a data directory, for commands on its
 * host.
 */

/** Names as in the file. */
interface ListeningNote {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

const FILE = new StateFile('listening.json', 'where a collector listens', isListeningNote);

/**
 * Makes the file name this collector, or removes it. A file that cannot be written does not stop a collector.
 * @param listening undefined if the collector takes no events.
 */
export function noteListening(dataDir: string, listening: Listening | undefined): void {
  try {
    FILE.remove(dataDir);
    if (listening === undefined) return;
    const { host, port, tls } = listening;
    FILE.write(dataDir, { host, port, tls: tls !== undefined });
  } catch (error) {
    if (systemCode(error) === undefined) throw error;
  }
}

/** The address of the collector that holds the directory, for a caller on its host; undefined if unknown. */
export function urlOfHolder(dataDir: string): URL | undefined {
  const note = holder(dataDir);
  return note && new URL(`${note.tls ? 'https' : 'http'}://${callable(note.host)}:${note.port}/`);
}

export function portOfHolder(dataDir: string): number | undefined {
  return holder(dataDir)?.port;
}

/** The note of a running collector; a killed one leaves its file behind. */
function holder(dataDir: string): ListeningNote | undefined {
  return exists(dataDir) && isLocked(dataDir) ? FILE.read(dataDir) : undefined;
}

function isListeningNote(value: unknown): value is ListeningNote {
  if (typeof value !== 'object' || value === null) return false;
  const { host, port, tls } = value as Record<string, unknown>;
  return isLine(host) && Number.isInteger(port) && typeof tls === 'boolean';
}
