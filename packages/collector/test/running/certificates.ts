/**
 * X.509 certificates made by the test itself (RFC 5280), so that none can expire in the repository. Just enough of DER
 * for what the tests ask for; node:crypto makes the keys and the signatures.
 */
import { generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

const DAY_MS = 86_400_000;

function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  const size = Buffer.from(length.toString(16).padStart(length > 0xff ? 4 : 2, '0'), 'hex');
  return Buffer.concat([Buffer.from([tag, 0x80 | size.length]), size, content]);
}

const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
/** An object identifier by the hexadecimal digits of its content. */
const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, 'hex'));
const bits = (content: Uint8Array): Buffer => der(0x03, Buffer.from([0]), content);
const ECDSA_SHA256 = sequence(oid('2a8648ce3d040302'));

const name = (commonName: string): Buffer =>
  sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(commonName)))));

function time(ms: number): Buffer {
  return der(0x18, Buffer.from(new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '')));
}

function extension(id: string, value: Uint8Array, critical = false): Buffer {
  return sequence(oid(id), ...(critical ? [der(0x01, Buffer.from([0xff]))] : []), der(0x04, value));
}

/** `dns:` and `uri:` names, and `ip:` of IPv4. */
function alternativeName(text: string): Buffer {
  const [, type = '', value = ''] = /^(dns|uri|ip):([^]*)$/.exec(text) ?? [];
  if (type === 'ip') return der(0x87, Buffer.from(value.split('.').map(Number)));
  return der(type === 'dns' ? 0x82 : 0x86, Buffer.from(value));
}

export interface Issued {
  readonly certificate: string;
  readonly key: string;
}
export interface Wish {
  readonly commonName?: string;
  readonly names?: readonly string[];
  /** From now; in the past for one that has expired. */
  readonly days?: number;
}

function pem(content: Buffer): string {
  const lines = content.toString('base64').replace(/.{64}(?=.)/g, '$&\n');
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

/** A certification authority that lives as long as the test. */
export class Authority {
  readonly #keys = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  readonly certificate: string;

  constructor(private readonly commonName = 'Test CA') {
    const isAuthority = extension('551d13', sequence(der(0x01, Buffer.from([0xff]))), true);
    this.certificate = this.#sign(name(commonName), this.#keys.publicKey, 30, [isAuthority]);
  }

  issue({ commonName = '', names = [], days = 90 }: Wish = {}): Issued {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    const subject = commonName === '' ? sequence() : name(commonName);
    const extensions = [extension('551d11', sequence(...names.map(alternativeName)), commonName === '')];
    return {
      certificate: this.#sign(subject, publicKey, days, names.length > 0 ? extensions : []),
      key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
    };
  }

  #sign(subject: Buffer, key: KeyObject, days: number, extensions: readonly Buffer[]): string {
    const from = Date.now() + Math.min(days, 0) * DAY_MS - DAY_MS;
    const body = sequence(
      der(0xa0, der(0x02, Buffer.from([2]))),
      der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
      ECDSA_SHA256,
      name(this.commonName),
      sequence(time(from), time(Date.now() + days * DAY_MS)),
      subject,
      key.export({ type: 'spki', format: 'der' }),
      ...(extensions.length > 0 ? [der(0xa3, sequence(...extensions))] : []),
    );
    const signature = sign('sha256', body, this.#keys.privateKey);
    return pem(sequence(body, ECDSA_SHA256, bits(signature)));
  }
}

/** Writes a pair as `tls.crt` and `tls.key`, and returns the options that name them. */
export function writePair(directory: string, { certificate, key }: Issued): string[] {
  const [cert, keyFile] = [path.join(directory, 'tls.crt'), path.join(directory, 'tls.key')];
  fs.writeFileSync(cert, certificate);
  fs.writeFileSync(keyFile, key, { mode: 0o600 });
  return ['--tls-cert', cert, '--tls-key', keyFile];
}
