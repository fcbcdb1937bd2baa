/**
 * HTTPS as the collector speaks it: what it agrees to, whose certificate it shows, and how that is renewed.
 *
 * After RFC 9325 (BCP 195): TLS 1.2 and 1.3 only (section 3.1.1); of 1.2 the suites with forward secrecy and
 * authenticated encryption (4.2); no renegotiation (3.5), no compression (3.3, and OpenSSL has none by default); keys
 * of session tickets that change (3.4).
 */
import { type X509Certificate, constants, randomBytes } from 'node:crypto';
import type { ServerOptions } from 'node:http';
import https from 'node:https';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type SecureContextOptions, TLSSocket } from 'node:tls';
import { alternativeNames } from '../access/certificate-names.js';
import { systemCode } from '../system-code.js';
import { standsFor } from './connections.js';
import { type CredentialFiles, CredentialWatch, type Credentials } from './credentials.js';
import { type Log, TlsFailures } from './refusal-log.js';

/* Whether the client at the other end of a connection has shown a certificate of a certain name. */

interface Shown {
  /** As keys are bound to them: `dns:` or `uri:` and the name. */
  readonly names: ReadonlySet<string>;
  /** Milliseconds since 1970 UTC. */
  readonly expiresAt: number;
}

/** On a connection: what its certificate says, read once. It cannot change, because nothing is renegotiated. */
const SHOWN = Symbol('client certificate');
type Connection = Socket & { [SHOWN]?: Shown };
const NOTHING: Shown = { names: new Set(), expiresAt: 0 };

/**
 * @param name as `certificateName` spells it.
 * @param nowMs the wall clock: a connection may outlive its certificate.
 * @returns false also when the connection is not encrypted, or no authority vouches for its certificate.
 */
export function showsCertificate(connection: Connection, name: string, nowMs: number): boolean {
  const shown = connection[SHOWN] ?? read(connection);
  connection[SHOWN] = shown;
  return nowMs < shown.expiresAt && shown.names.has(name);
}

function read(connection: Socket): Shown {
  if (!(connection instanceof TLSSocket) || !connection.authorized) return NOTHING;
  const certificate = connection.getPeerX509Certificate();
  if (certificate === undefined) return NOTHING;
  return {
    names: new Set(alternativeNames(certificate.subjectAltName ?? '')),
    expiresAt: certificate.validToDate.getTime(),
  };
}

export interface TlsOptions {
  readonly files: CredentialFiles;
  /** What the files held. */
  readonly credentials: Credentials;
  /** Whether a client without a verified certificate is turned away. Counts only when `files` has authorities. */
  readonly clientAuth: 'required' | 'optional';
  readonly log: Log;
  /** Called with each certificate that is taken into use after the first. */
  readonly onRenewed?: (credentials: Credentials) => void;
  /** Whether another listener follows the files and presents here what it takes into use. */
  readonly isPresented?: boolean;
}

/** The names of OpenSSL. The client's order does not count, but for none of these it would have to. */
const CIPHERS = [
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'TLS_AES_128_GCM_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':');

const DAY_MS = 86_400_000;
/** How long before its end an operator is warned of it, every day. */
const WARN_DAYS = 30;

export function contextOf({ cert, key, clientCa }: Credentials): SecureContextOptions {
  const noRenegotiation = constants.SSL_OP_NO_RENEGOTIATION;
  return {
    cert,
    key,
    minVersion: 'TLSv1.2',
    ciphers: CIPHERS,
    // A session that is resumed brings its old verdict on the client's certificate along. Without tickets every
    // connection proves the private key, and is held against the authorities as they are now.
    secureOptions: clientCa === undefined ? noRenegotiation : noRenegotiation | constants.SSL_OP_NO_TICKET,
    ...(clientCa && { ca: clientCa }),
  };
}

export class Tls {
  readonly server: https.Server;
  readonly #failures: TlsFailures;
  readonly #watch: CredentialWatch;
  readonly #log: Log;
  readonly #onRenewed: TlsOptions['onRenewed'];
  readonly #isPresented: boolean;
  /**
   * Connections whose handshake is not done, by where they come from: Node does not say which of them has become
   * which.
   */
  readonly #handshakes = new Map<string, Socket>();
  #certificate: X509Certificate;
  #daily: NodeJS.Timeout | undefined;

  /** @param http what is to hold for the HTTP that is spoken within. */
  constructor(
    { files, credentials, clientAuth, log, onRenewed, isPresented = false }: TlsOptions,
    handshakeTimeoutMs: number,
    http: ServerOptions,
  ) {
    const asks = credentials.clientCa !== undefined;
    this.#log = log;
    this.#onRenewed = onRenewed;
    this.#isPresented = isPresented;
    this.#failures = new TlsFailures(log);
    this.#certificate = credentials.certificate;
    this.server = https.createServer({
      ...http,
      ...contextOf(credentials),
      ALPNProtocols: ['http/1.1'],
      handshakeTimeout: handshakeTimeoutMs,
      requestCert: asks,
      rejectUnauthorized: asks && clientAuth === 'required',
    });
    this.server.on('connection', (socket) => {
      if (!(socket instanceof Socket)) return;
      const from = addressOf(socket);
      this.#handshakes.set(from, socket);
      socket.once('close', () => this.#handshakes.delete(from));
    });
    this.server.on('secureConnection', (socket) => {
      const from = addressOf(socket);
      const connection = this.#handshakes.get(from);
      if (connection !== undefined) standsFor(socket, connection);
      this.#handshakes.delete(from);
    });
    // Node's own hands it on as if it were the fault of a request.
    this.server.removeAllListeners('tlsClientError');
    this.server.on('tlsClientError', (error, socket) => this.#fail(error, socket));
    this.#watch = new CredentialWatch({
      files,
      credentials,
      onChange: (changed) => this.#use(changed),
      onTrouble: (reason) =>
        log.error({ reason }, 'the TLS certificate has changed and cannot be used; the old one stays in use'),
    });
  }

  /** Tells which certificate is in use, and follows its files from now on. */
  start(): void {
    if (!this.#isPresented) {
      this.#tellCertificate();
      this.#watch.start();
    }
    this.#daily = setInterval(() => {
      this.server.setTicketKeys(randomBytes(48));
      if (!this.#isPresented) this.#tellExpiry();
    }, DAY_MS).unref();
  }

  /** New connections are shown this certificate. */
  present(credentials: Credentials): void {
    this.server.setSecureContext(contextOf(credentials));
    this.#certificate = credentials.certificate;
  }

  /** Connections whose handshake is not done are closed: nothing was begun on them. Those that speak HTTP stay. */
  stop(): void {
    for (const socket of this.#handshakes.values()) socket.destroy();
    this.#watch.stop();
    clearInterval(this.#daily);
    this.#failures.flush();
  }

  /** Reads the files now. Resolves with whether they are in use for new connections; if not, the log says why. */
  reload(): Promise<boolean> {
    return this.#watch.reload();
  }

  /** Milliseconds since 1970 UTC. */
  get certificateExpiresAt(): number {
    return this.#certificate.validToDate.getTime();
  }

  /**
   * Whether an error on a connection that spoke HTTP is one of the encryption below: nothing that were written there
   * would arrive. It is then noted, and the connection closed.
   */
  breaks(error: Error, socket: Duplex): boolean {
    if (systemCode(error)?.startsWith('ERR_SSL_') !== true || !(socket instanceof TLSSocket)) return false;
    this.#fail(error, socket);
    return true;
  }

  /** Failed connections since the start. */
  get failures(): Readonly<TlsFailures['counts']> {
    return this.#failures.counts;
  }

  #fail(error: Error, socket: TLSSocket): void {
    this.#failures.note(error, socket);
    socket.destroy();
  }

  #use(credentials: Credentials): void {
    this.present(credentials);
    this.#onRenewed?.(credentials);
    this.#tellCertificate();
  }

  #tellCertificate(): void {
    const { subject, issuer, subjectAltName } = this.#certificate;
    this.#log.info(
      {
        subject: onOneLine(subject),
        names: subjectAltName,
        issuer: onOneLine(issuer),
        expiresAt: new Date(this.certificateExpiresAt).toISOString(),
      },
      'TLS certificate in use',
    );
    this.#tellExpiry();
  }

  #tellExpiry(): void {
    const left = this.certificateExpiresAt - Date.now();
    if (left > WARN_DAYS * DAY_MS) return;
    const expiresAt = new Date(this.certificateExpiresAt).toISOString();
    if (left <= 0)
      this.#log.error({ expiresAt }, 'the TLS certificate has expired: clients that check it stay away');
    else this.#log.warn({ expiresAt, days: Math.floor(left / DAY_MS) }, 'the TLS certificate expires soon');
  }
}

function addressOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}

/** Node gives a name with a line for each part. */
function onOneLine(name: string | undefined): string | undefined {
  return name?.replaceAll('\n', ', ');
}
