/**
 * HTTPS: protocol versions and ciphers, the certificate, and its renewal.
 *
 * Follows RFC 9325 (BCP 195): TLS 1.2 and 1.3 only (section 3.1.1); for 1.2 the suites with forward secrecy
 * and authenticated encryption (4.2); no renegotiation (3.5), no compression (3.3, the default of OpenSSL);
 * changing keys of session tickets (3.4).
 */
import { constants, createPrivateKey, X509Certificate } from 'node:crypto';
import { unwatchFile, watchFile } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import type { ServerOptions } from 'node:http';
import https from 'node:https';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createSecureContext, type SecureContextOptions, TLSSocket } from 'node:tls';
import { messageOf, systemCode } from '../system-code.js';
import { standsFor } from './connections.js';
import type { Log, RefusalLog, SummedLine } from './refusal-log.js';

export interface CertificateFiles {
  /** PEM: the collector's certificate first, then the chain to the authority. */
  readonly cert: string;
  /** PEM, without a passphrase. */
  readonly key: string;
  /**
   * PEM: the authorities whose client certificates are accepted; undefined if no client certificates are
   * requested.
   */
  readonly clientCa: string | undefined;
}

/** The contents of the files, which match each other. Can be sent to another thread. */
export type CertificatePem = CertificateFiles;

/** The files cannot be used. Each message names its file and never repeats its content. */
export class CertificateUnusable extends Error {
  override name = 'CertificateUnusable';
  constructor(
    readonly faults: readonly { readonly file: keyof CertificateFiles; readonly message: string }[],
  ) {
    super(faults.map(({ message }) => message).join('; '));
  }
}

/** A larger file is not PEM and must not be read into memory. */
const MAX_FILE_BYTES = 1 << 20;
/** PKCS #8 (RFC 7468 section 11), and the older forms of OpenSSL. */
const ENCRYPTED = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;
const CHECKS = { cert: certificateFault, key: keyFault, clientCa: certificateFault };

/**
 * Reads the files and checks that they match; an expired certificate is accepted. @throws CertificateUnusable
 */
async function readPem(files: CertificateFiles): Promise<CertificatePem> {
  const faults: { file: keyof CertificateFiles; message: string }[] = [];
  const pem = { cert: '', key: '', clientCa: undefined as string | undefined };
  for (const file of ['cert', 'key', 'clientCa'] as const) {
    const name = files[file];
    if (name === undefined) continue;
    const { text, fault } = await readText(name);
    pem[file] = text;
    const message = fault ?? CHECKS[file](text);
    if (message !== undefined) faults.push({ file, message: `${name} ${message}` });
  }
  if (!faults.some(({ file }) => file !== 'clientCa')) {
    try {
      if (!new X509Certificate(pem.cert).checkPrivateKey(createPrivateKey(pem.key))) {
        const message = `the key in ${files.key} does not match the first certificate in ${files.cert}`;
        faults.push({ file: 'key', message });
      }
      // Rejects, for example, weak keys, which OpenSSL refuses.
      else createSecureContext(secureContextOf(pem));
    } catch (error) {
      faults.push({
        file: 'cert',
        message: `${files.cert} and ${files.key} cannot be used: ${codeOf(error)}`,
      });
    }
  }
  if (faults.length > 0) throw new CertificateUnusable(faults);
  return pem;
}

async function readText(file: string): Promise<{ text: string; fault?: string }> {
  try {
    const found = await stat(file);
    if (!found.isFile()) return { text: '', fault: 'is not a file' };
    if (found.size > MAX_FILE_BYTES) return { text: '', fault: 'is too large for a PEM file' };
    return { text: await readFile(file, 'latin1') };
  } catch (error) {
    return { text: '', fault: `cannot be read: ${codeOf(error)}` };
  }
}

function certificateFault(pem: string): string | undefined {
  const blocks = pem.match(CERTIFICATE);
  if (blocks === null) return 'holds no certificate in PEM';
  try {
    for (const block of blocks) new X509Certificate(block);
    return undefined;
  } catch (error) {
    return `holds a certificate that cannot be read: ${codeOf(error)}`;
  }
}

function keyFault(pem: string): string | undefined {
  try {
    createPrivateKey(pem);
    return undefined;
  } catch {
    return ENCRYPTED.test(pem)
      ? 'is protected by a passphrase, which cannot be entered at a restart'
      : 'holds no private key in PEM';
  }
}

/** The error's code, never its message: OpenSSL may quote what it read. */
function codeOf(error: unknown): string {
  return systemCode(error) ?? 'unknown error';
}

/** OpenSSL's names. The server's order decides, not the client's. */
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

/** Options for `createSecureContext` and `setSecureContext`, in any thread. */
export function secureContextOf({ cert, key, clientCa }: CertificatePem): SecureContextOptions {
  const noRenegotiation = constants.SSL_OP_NO_RENEGOTIATION;
  return {
    cert,
    key,
    minVersion: 'TLSv1.2',
    ciphers: CIPHERS,
    // A resumed session keeps its old verdict on the client's certificate. Without tickets every connection
    // proves the private key and is checked against the current authorities.
    secureOptions: clientCa === undefined ? noRenegotiation : noRenegotiation | constants.SSL_OP_NO_TICKET,
    ...(clientCa !== undefined && { ca: clientCa }),
  };
}

const DAY_MS = 86_400_000;
/** How long before the end of the certificate the daily warnings begin. */
const WARN_DAYS = 30;
const POLL_MS = 1000;
/** The longest delay of a timer: Node fires immediately after a longer one. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/**
 * The certificate of all listeners, read again when its files change. Files that do not match change nothing:
 * a failed renewal must not end a service whose certificate is still good. It polls, because watchers miss
 * changes behind symbolic links and on network file systems, and certbot and Kubernetes secrets renew through
 * links.
 */
export class ServerCertificate {
  #pem: CertificatePem;
  #x509: X509Certificate;
  #present: (pem: CertificatePem) => void = () => undefined;
  #log: Log | undefined;
  #daily: NodeJS.Timeout | undefined;
  #due: NodeJS.Timeout | undefined;
  #work = Promise.resolve(true);
  /** The contents of the files when they last changed. */
  #seen = '';
  readonly #onChange = (): void => this.#settleAfter(this.pollMs);

  private constructor(
    readonly files: CertificateFiles,
    pem: CertificatePem,
    private readonly pollMs: number,
  ) {
    this.#pem = pem;
    this.#x509 = new X509Certificate(pem.cert);
  }

  /** @throws CertificateUnusable with every fault. */
  static async read(files: CertificateFiles, pollMs = POLL_MS): Promise<ServerCertificate> {
    return new ServerCertificate(files, await readPem(files), pollMs);
  }

  get #names(): string[] {
    const { cert, key, clientCa } = this.files;
    return [cert, key, clientCa].filter((file) => file !== undefined);
  }

  /** The certificate for new connections. */
  get pem(): CertificatePem {
    return this.#pem;
  }

  get x509(): X509Certificate {
    return this.#x509;
  }

  /**
   * Logs the certificate in use and follows its files, without keeping the process alive.
   * @param present called with the pair for new connections when it has changed, and once a day for new
   *   ticket keys.
   */
  follow(log: Log, present: (pem: CertificatePem) => void): void {
    this.#log = log;
    this.#present = present;
    this.#report();
    for (const file of this.#names)
      watchFile(file, { interval: this.pollMs, persistent: false }, this.#onChange);
    const renewTickets = () => {
      present(this.#pem);
      this.#reportExpiry();
    };
    this.#daily = setInterval(renewTickets, DAY_MS).unref();
    // The files may have changed since they were read.
    this.#onChange();
  }

  stop(): void {
    for (const file of this.#names) unwatchFile(file, this.#onChange);
    clearInterval(this.#daily);
    clearTimeout(this.#due);
  }

  /**
   * Reads the files now. @returns whether they are in use for new connections; otherwise the log has the
   * reason.
   */
  reload(): Promise<boolean> {
    return (this.#work = this.#work.then(() => this.#load()));
  }

  #settleAfter(ms: number): void {
    clearTimeout(this.#due);
    // It never rejects.
    const settle = () => void this.#settle().catch(() => undefined);
    this.#due = setTimeout(settle, Math.min(ms, LONGEST_DELAY_MS)).unref();
  }

  /** The files are written one after the other. They are complete when two reads find the same contents. */
  async #settle(): Promise<void> {
    const found = JSON.stringify(await Promise.all(this.#names.map(readText)));
    if (found === this.#seen) await this.reload();
    else this.#settleAfter(this.pollMs);
    this.#seen = found;
  }

  async #load(): Promise<boolean> {
    const { files } = this;
    try {
      const pem = await readPem(files);
      const { cert, key, clientCa } = this.#pem;
      if (pem.cert === cert && pem.key === key && pem.clientCa === clientCa) return true;
      const x509 = new X509Certificate(pem.cert);
      if (x509.validToDate.getTime() <= Date.now())
        throw new Error(`the certificate in ${files.cert} has expired`);
      const early = x509.validFromDate.getTime() - Date.now();
      if (early > 0) {
        this.#settleAfter(early);
        const from = x509.validFromDate.toISOString();
        throw new Error(`the certificate in ${files.cert} is not valid before ${from}; it will be used then`);
      }
      this.#pem = pem;
      this.#x509 = x509;
      this.#present(pem);
      this.#report();
      return true;
    } catch (error) {
      const message = 'the TLS certificate has changed and cannot be used; the old one stays in use';
      this.#log?.error({ reason: messageOf(error) }, message);
      return false;
    }
  }

  #report(): void {
    const { subject, issuer, subjectAltName: names, validToDate } = this.#x509;
    const expiresAt = validToDate.toISOString();
    // Node returns a name with one line per part.
    const onOneLine = (name: string | undefined) => name?.replaceAll('\n', ', ');
    const shown = { subject: onOneLine(subject), names, issuer: onOneLine(issuer), expiresAt };
    this.#log?.info(shown, 'TLS certificate in use');
    this.#reportExpiry();
  }

  #reportExpiry(): void {
    const { validToDate } = this.#x509;
    const expiresAt = validToDate.toISOString();
    const days = (validToDate.getTime() - Date.now()) / DAY_MS;
    if (days <= 0)
      this.#log?.error({ expiresAt }, 'the TLS certificate has expired: clients that check it stay away');
    else if (days <= WARN_DAYS)
      this.#log?.warn({ expiresAt, days: Math.floor(days) }, 'the TLS certificate expires soon');
  }
}

export interface TlsOptions {
  /** The source of the current pair. */
  readonly certificate: Pick<ServerCertificate, 'pem'>;
  /**
   * Whether a client without a verified certificate is rejected. Effective only if authorities are given.
   */
  readonly clientAuth: 'required' | 'optional';
}

const FAILED: SummedLine = {
  message: 'TLS connection failed',
  others: 'more TLS connections failed, not listed',
  counted: 'failures',
  most: 100,
};

/** An HTTPS server, and its connections with an unfinished handshake. */
export class TlsServer {
  readonly server: https.Server;
  /**
   * Connections with an unfinished handshake, by address: Node does not link them to their secure sockets.
   */
  readonly #handshakes = new Map<string, Socket>();

  /** @param http options of the HTTP server within. */
  constructor(
    { certificate: { pem }, clientAuth }: TlsOptions,
    handshakeTimeoutMs: number,
    http: ServerOptions,
    private readonly refusals: RefusalLog,
  ) {
    const asks = pem.clientCa !== undefined;
    this.server = https.createServer({
      ...http,
      ...secureContextOf(pem),
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
    // Node's own listener would report it as the fault of a request.
    this.server.removeAllListeners('tlsClientError');
    this.server.on('tlsClientError', (error, socket) => this.#fail(error, socket));
  }

  /** Shows this certificate to new connections. */
  present(pem: CertificatePem): void {
    this.server.setSecureContext(secureContextOf(pem));
  }

  /**
   * Closes connections with an unfinished handshake, which have no request. Connections with HTTP stay open.
   */
  stop(): void {
    for (const socket of this.#handshakes.values()) socket.destroy();
  }

  /**
   * Whether an error on a connection that spoke HTTP comes from TLS, so that no answer would arrive. If so,
   * logs it and closes the connection.
   */
  breaks(error: Error, socket: Duplex): boolean {
    if (systemCode(error)?.startsWith('ERR_SSL_') !== true || !(socket instanceof TLSSocket)) return false;
    this.#fail(error, socket);
    return true;
  }

  /** Logs only the error's code, which OpenSSL takes from a fixed list. */
  #fail(error: Error, socket: TLSSocket): void {
    const code = systemCode(error);
    const reason = faultOf(code, socket);
    // After a timeout, the address of a client that sent nothing is no longer known.
    const fields = () => ({ reason, code, remote: socket.remoteAddress });
    this.refusals.sum(reason === 'closed' ? 'debug' : 'info', FAILED, { reason }, fields);
    socket.destroy();
  }
}

function addressOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}

/**
 * - `timeout`: the handshake took too long.
 * - `closed`: the client closed the connection, or lost its place; load balancers that probe the port do so
 *   all day.
 * - `plain_http`: the client did not use TLS.
 * - `client_certificate`: no client certificate, or none that a given authority has signed.
 * - `refused_by_client`: the client sent an alert, usually because it does not know the authority of the
 *   collector's certificate.
 * - `protocol`: no common version, cipher suite or application protocol, or bytes that are not TLS.
 */
type TlsFault = 'timeout' | 'closed' | 'plain_http' | 'client_certificate' | 'refused_by_client' | 'protocol';

/**
 * @param socket the typings do not know that `authorizationError` is absent unless a certificate was checked.
 */
function faultOf(
  code: string | undefined,
  { authorizationError }: { readonly authorizationError: unknown },
): TlsFault {
  if (code === 'ERR_TLS_HANDSHAKE_TIMEOUT') return 'timeout';
  if (code === 'ERR_SSL_HTTP_REQUEST') return 'plain_http';
  // Node ends a connection whose certificate failed verification as if the client had ended it.
  if (authorizationError || code === 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE') return 'client_certificate';
  if (code?.includes('_ALERT_')) return 'refused_by_client';
  return code?.startsWith('ERR_SSL_') ? 'protocol' : 'closed';
}
