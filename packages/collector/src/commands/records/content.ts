/**
 * Content that events reference by a URI, for a person reading a record: read only from files of one
 * directory. Files for `sha256:` URIs are named as the client stores them (docs/CLIENT_SPEC.md, "Content by
 * reference").
 */
import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { counted } from '../../quantity.js';
import { systemCode } from '../../system-code.js';
import { usage } from '../exit-codes.js';
import { printable } from '../terminal.js';

/** The text, or a note that explains why it is missing. */
export type Content = { readonly text: string } | { readonly note: string };

const HASHED = /^sha256:([0-9a-f]{64})$/;
const SCHEME = /^[a-z][a-z0-9+.-]*:/i;
const MOST_BYTES = 64 << 20;
/** File signatures by offset, for types found in records of patients. */
const SIGNATURES: readonly (readonly [type: string, at: number, bytes: string])[] = [
  ['image/png', 0, '\x89PNG'],
  ['image/jpeg', 0, '\xff\xd8\xff'],
  ['application/pdf', 0, '%PDF-'],
  ['application/dicom', 128, 'DICM'],
  ['application/zip', 0, 'PK\x03\x04'],
  ['application/gzip', 0, '\x1f\x8b'],
  ['video/mp4', 4, 'ftyp'],
  ['audio/wav', 8, 'WAVE'],
  ['image/webp', 8, 'WEBP'],
];

export class ContentDirectory {
  readonly #real: string;
  #asked = 0;
  #failed = 0;

  /** @throws CommandFailure if it is not a directory. */
  constructor(readonly root: string) {
    try {
      this.#real = fs.realpathSync(root);
    } catch (error) {
      throw usage(`--content: ${root} cannot be read (${systemCode(error) ?? String(error)})`);
    }
    if (!fs.statSync(this.#real).isDirectory()) throw usage(`--content: ${root} is not a directory`);
  }

  /**
   * @param type the media type that the event states.
   * @returns undefined for a URI that is only a name (`urn:`).
   */
  read(uri: string, type: string | undefined): Content | undefined {
    if (/^urn:/i.test(uri)) return undefined;
    this.#asked++;
    const bytes = this.#bytes(uri);
    if (typeof bytes === 'string') {
      this.#failed++;
      return { note: bytes };
    }
    if (isUtf8(bytes) && !bytes.includes(0)) return { text: new TextDecoder().decode(bytes) };
    return { note: `${counted(bytes.length, 'byte')} of ${type ?? typeOf(bytes)}, not shown` };
  }

  /** Undefined if everything could be read. */
  get warning(): string | undefined {
    if (this.#failed === 0) return undefined;
    const uris = `${this.#failed} of ${counted(this.#asked, 'URI')}`;
    return `the content of ${uris} could not be read in ${this.root}`;
  }

  /** @returns the bytes, or a predicate that states why they are missing. */
  #bytes(uri: string): Buffer | string {
    const [, sha256] = HASHED.exec(uri) ?? [];
    if (sha256 === undefined) {
      const name = fileNamed(uri);
      if (name !== undefined) return this.#file(name);
      const [scheme = ''] = SCHEME.exec(uri) ?? [];
      return /^(file:)?$/i.test(scheme)
        ? 'is not searched: the URI does not name a file on this host'
        : `is not searched: ${scheme.toLowerCase()} does not name a file in the directory`;
    }
    // In a bucket, the file is not in a subdirectory.
    const places = [path.join(sha256.slice(0, 2), sha256), sha256];
    const place = places.find((each) => fs.existsSync(path.join(this.#real, each))) ?? places[0] ?? '';
    const bytes = this.#file(place);
    if (typeof bytes === 'string') return bytes;
    const actual = hash('sha256', bytes);
    return actual === sha256 ? bytes : `has changed: the SHA-256 of ${place} is ${actual}`;
  }

  #file(name: string): Buffer | string {
    const file = path.resolve(this.root, name);
    const shown = printable(name);
    const outside = `is not read: ${shown} is outside the directory`;
    if (![this.root, this.#real].some((root) => isWithin(root, file))) return outside;
    let fd: number | undefined;
    try {
      const real = fs.realpathSync(file);
      if (!isWithin(this.#real, real)) return outside;
      // O_NONBLOCK avoids waiting for the writer of a pipe.
      const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
      fd = fs.openSync(real, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      const stat = fs.fstatSync(fd);
      if (!stat.isFile()) return `cannot be read: ${shown} is not a regular file`;
      if (stat.size <= MOST_BYTES) return fs.readFileSync(fd);
      return `is not shown: ${shown} has ${counted(stat.size, 'byte')}, more than 64 MiB`;
    } catch (error) {
      const code = systemCode(error) ?? 'UNKNOWN';
      return code === 'ENOENT' ? `is missing: no file ${shown}` : `cannot be read: ${shown} (${code})`;
    } finally {
      if (fd !== undefined) fs.closeSync(fd);
    }
  }
}

/** Undefined for a URI that does not name a file on this host. */
function fileNamed(uri: string): string | undefined {
  const [scheme] = SCHEME.exec(uri) ?? [];
  if (scheme !== undefined && scheme.toLowerCase() !== 'file:') return undefined;
  try {
    const name = scheme === undefined ? decodeURIComponent(uri) : fileURLToPath(uri);
    return name === '' || name.includes('\0') ? undefined : name;
  } catch {
    // A plain name may contain a percent sign.
    return scheme === undefined ? uri : undefined;
  }
}

function isWithin(root: string, file: string): boolean {
  return file.startsWith(root.endsWith(path.sep) ? root : root + path.sep);
}

function typeOf(bytes: Buffer): string {
  const found = SIGNATURES.find(([, at, signature]) =>
    bytes.subarray(at, at + signature.length).equals(Buffer.from(signature, 'latin1')),
  );
  return found?.[0] ?? 'unknown type';
}
