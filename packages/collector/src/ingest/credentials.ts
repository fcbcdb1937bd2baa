/** The certificate and the key that the collector shows its clients, and what it checks theirs against: as they lie on the disk. */
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';

export interface CredentialFiles {
  /** PEM: the collector's certificate first, and behind it those that lead to the authority. */
  readonly cert: string;
  /** PEM, without a passphrase. */
  readonly key: string;
  /** PEM: the authorities whose client certificates are accepted; undefined when none are asked for. */
  readonly clientCa: string | undefined;
}

/** What the files held, found to fit. */
export interface Credentials {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly clientCa: Buffer | undefined;
  /** The first in `cert`: the collector's own. */
  readonly certificate: X509Certificate;
  /** As {@link fileStates} was just before they were read. */
  readonly fileStates: string;
}

/** The files cannot be used. The message names the file and never repeats what is in it. */
export class CredentialsUnusable extends Error {
  override name = 'CredentialsUnusable';
}

/** Something else than a PEM file was named, and would be read into memory. */
const MAX_FILE_BYTES = 1 << 20;
/** PKCS #8 (RFC 7468 section 11), and what OpenSSL wrote before it. */
const ENCRYPTED = /-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m;
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/**
 * Reads the files and holds them against each other. An expired certificate is read like any other.
 * @throws {@link CredentialsUnusable}
 */
export async function readCredentials(files: CredentialFiles): Promise<Credentials> {
  const states = await fileStates(files);
  // One after the other, so that of several faults the same is told each time.
  const cert = await read(files.cert);
  const key = await read(files.key);
  const clientCa = files.clientCa === undefined ? undefined : await read(files.clientCa);
  const [certificate] = certificatesIn(cert, files.cert);
  if (clientCa !== undefined) certificatesIn(clientCa, files.clientCa ?? '');
  const privateKey = privateKeyIn(key, files.key);
  if (certificate === undefined || !certificate.checkPrivateKey(privateKey)) {
    throw new CredentialsUnusable(
      `the key in ${files.key} is not that of the first certificate in ${files.cert}`,
    );
  }
  try {
    // OpenSSL's own mind, of weak keys for one.
    createSecureContext({ cert, key, ...(clientCa && { ca: clientCa }) });
  } catch (error) {
    throw new CredentialsUnusable(`${files.cert} and ${files.key} cannot be used: ${codeOf(error)}`, {
      cause: error,
    });
  }
  return { cert, key, clientCa, certificate, fileStates: states };
}

/**
 * A text that changes when one of the files does, also when it, or a directory on the way to it, is a symbolic link
 * that now leads elsewhere: so do certbot and the secrets of Kubernetes renew. A file that is not there is a state too.
 */
export async function fileStates({ cert, key, clientCa }: CredentialFiles): Promise<string> {
  const states = [cert, key, ...(clientCa === undefined ? [] : [clientCa])].map(async (file) => {
    try {
      const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true });
      return [dev, ino, size, mtimeNs, ctimeNs].join();
    } catch (error) {
      return codeOf(error);
    }
  });
  return (await Promise.all(states)).join(' ');
}

async function read(file: string): Promise<Buffer> {
  try {
    const found = await stat(file);
    if (!found.isFile()) throw new CredentialsUnusable(`${file} is not a file`);
    if (found.size > MAX_FILE_BYTES) throw new CredentialsUnusable(`${file} is too large for a PEM file`);
    return await readFile(file);
  } catch (error) {
    if (error instanceof CredentialsUnusable) throw error;
    throw new CredentialsUnusable(`${file} cannot be read: ${codeOf(error)}`, { cause: error });
  }
}

function certificatesIn(pem: Buffer, file: string): X509Certificate[] {
  const blocks = pem.toString('latin1').match(CERTIFICATE) ?? [];
  if (blocks.length === 0) throw new CredentialsUnusable(`${file} holds no certificate in PEM`);
  try {
    return blocks.map((block) => new X509Certificate(block));
  } catch (error) {
    throw new CredentialsUnusable(`${file} holds a certificate that cannot be read: ${codeOf(error)}`, {
      cause: error,
    });
  }
}

function privateKeyIn(pem: Buffer, file: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch (error) {
    const why = ENCRYPTED.test(pem.toString('latin1'))
      ? 'is protected by a passphrase, which nobody could type at a restart'
      : 'holds no private key in PEM';
    throw new CredentialsUnusable(`${file} ${why}`, { cause: error });
  }
}

/** Never the message: OpenSSL's may quote from what it read. */
function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
}
