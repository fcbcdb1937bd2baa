/** A first event to send, as a curl line that works when pasted into a shell. */
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

/** Valid in both profiles, so that the line works whatever the key or the collector asks for. */
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

/** Registered for OTLP over HTTP. */
const CUSTOMARY_OTLP_PORT = 4318;

/** Where a collector listens. */
export interface Listening {
  readonly host: string;
  readonly port: number;
  /** For requests of OTLP, where they are taken. */
  readonly otlpPort?: number | undefined;
  /** With HTTPS. */
  readonly tls?: ListeningTls | undefined;
}

interface ListeningTls {
  /** The file of the certificate. */
  readonly file: string;
  /** Undefined when it cannot be read. */
  readonly certificate: X509Certificate | undefined;
  /** Whether the client has to show a certificate too. */
  readonly clientShowsOne: boolean;
}

/** Whether every client has to show a certificate. */
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

/** The address to type on the same host: an address that means "any" is no address to call. */
export function callable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  if (host === '::') return '[::1]';
  return host.includes(':') ? `[${host}]` : host;
}

/**
 * Where a client sends: by a name that the certificate has, since it would turn away from another. `resolve` has curl
 * find that name on this host.
 */
function addressOf({ host, port, tls }: Listening): { readonly url: string; readonly resolve: string } {
  const certificate = tls?.certificate;
  const at = callable(host);
  const bare = at.replace(/^\[|\]$/g, '');
  const checked = isIP(bare) === 0 ? certificate?.checkHost(bare) : certificate?.checkIP(bare);
  const fits = certificate === undefined || checked !== undefined;
  // A wildcard cannot be called, and a text that is not a name might mean something to a shell.
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
 * The certificates that curl trusts and shows. Given as an authority, the collector's own certificate is trusted whoever
 * issued it. The names of the client's files are placeholders.
 */
function tlsOptions({ file, clientShowsOne }: ListeningTls): string[] {
  const own = clientShowsOne ? ['  --cert client.crt --key client.key \\'] : [];
  return [`  --cacert ${inQuotes(file)} \\`, ...own];
}

/**
 * @param kind of the event, one that the key may send.
 * @returns a shell command over several lines, without a line break at the end. Each call makes another event.
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
  // Nothing above contains a single quote, and a key cannot: the shell takes all of it literally.
  return [
    `curl -sS -X POST ${resolve}${url}${EVENT_PATHS[kind]} \\`,
    ...(listening.tls === undefined ? [] : tlsOptions(listening.tls)),
    `  -H 'X-API-Key: ${keyText}' \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d '${JSON.stringify(event)}'`,
  ].join('\n');
}

/**
 * The text for an operator who is given a new key: the key, once, and how an event is sent with it. Ends with a line
 * break. Belongs on standard output, never in a log.
 */
export function newKeyNotice(listening: Listening, keyText: string, kind: Permission): string {
  return `
  ${keyText}

This is the only time that the key is shown: only its hash is stored. Keep it like a password.

${kind === 'otlp' ? otlpVariables(listening, keyText) : firstEvent(listening, keyText, kind)}
`;
}

function firstEvent(listening: Listening, keyText: string, kind: EventKind): string {
  const files = listening.tls?.clientShowsOne
    ? ', with the certificate and the key of the sender in client.crt and client.key'
    : '';
  return `Send a first event${files}; the collector answers {"status":"accepted"}:

${firstEventCurl(listening, keyText, kind)}`;
}

/** Of a key that may send by OTLP alone: what an application with an SDK of OpenTelemetry is given. */
function otlpVariables(
  { host, otlpPort: port = CUSTOMARY_OTLP_PORT, tls }: Listening,
  keyText: string,
): string {
  return `An application with an SDK of OpenTelemetry sends with these variables (docs/guide/opentelemetry.md):

OTEL_EXPORTER_OTLP_ENDPOINT=${addressOf({ host, port, tls }).url}
OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
OTEL_EXPORTER_OTLP_HEADERS=x-api-key=${keyText}`;
}

/** The message where events are stored and there is no key: to make one with all permissions would hide the loss. */
export function keysLost(settings: StoreSettings): string {
  if (isShared(settings)) {
    return (
      `${describeStore(settings)} holds no API key, but events: get the table api_keys back from the back-up, or make ` +
      'a key with collector keys create'
    );
  }
  return (
    `${keyDatabasePath(settings.dataDir)} holds no API key, but the ledger holds events: put the file back from the back-up, or ` +
    'make a key with collector keys create'
  );
}

/* `checkpoints/listening.json`: where the collector that holds a data directory listens, for commands on its host. */

/** Named as in the file. */
interface ListeningNote {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
}

const FILE = new StateFile('listening.json', 'where a collector listens', isListeningNote);

/**
 * On return the file names this collector, or is absent: a file that cannot be written does not stop a collector.
 * @param listening undefined where it takes no events.
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

/** The address of the collector that holds the directory, for a caller on its host; undefined when that is not known. */
export function urlOfHolder(dataDir: string): URL | undefined {
  const note = holder(dataDir);
  return note && new URL(`${note.tls ? 'https' : 'http'}://${callable(note.host)}:${note.port}/`);
}

export function portOfHolder(dataDir: string): number | undefined {
  return holder(dataDir)?.port;
}

/** After a kill the file is left behind. */
function holder(dataDir: string): ListeningNote | undefined {
  return exists(dataDir) && isLocked(dataDir) ? FILE.read(dataDir) : undefined;
}

function isListeningNote(value: unknown): value is ListeningNote {
  if (typeof value !== 'object' || value === null) return false;
  const { host, port, tls } = value as Record<string, unknown>;
  return isLine(host) && Number.isInteger(port) && typeof tls === 'boolean';
}
