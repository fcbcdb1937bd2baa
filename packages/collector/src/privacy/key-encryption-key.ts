/**
 * The key-encryption key (KEK), which wraps epoch keys: a file, or a program that calls a KMS or an HSM. It
 * is used once per epoch at a start, never for an event.
 */
import { createCipheriv, createDecipheriv, createSecretKey, randomBytes, type KeyObject } from 'node:crypto';
import fs from 'node:fs';
import { outputNow, outputOf, ProgramFailed } from '../programs.js';
import { systemCode } from '../system-code.js';

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const TIME_LIMIT_MS = 10_000;

/**
 * Thrown if the KEK is not available or does not unwrap the keys. The message names a location, never a key.
 */
export class KekFault extends Error {
  override name = 'KekFault';
}

export interface KeyEncryptionKey {
  /**
   * Wraps a key, in base64. A program must also unwrap the result, because keys under a wrong wrapping would
   * be lost. Does not block the event loop. @throws KekFault
   */
  wrap(key: Buffer): Promise<string>;
  /** @throws KekFault */
  unwrap(wrapped: string): Buffer;
}

/** The fault of a KEK address, by its syntax only; undefined if there is none. */
export function kekFault(kek: string): string | undefined {
  return /^(?:file|command):\/./.test(kek)
    ? undefined
    : 'must be file: or command: and an absolute path, as in file:/etc/collector/kek';
}

/**
 * @param kek `file:` and the path of a file with 32 random bytes in base64, or `command:` and the path of a
 *   program that takes the argument `wrap` or `unwrap`, reads base64 and prints base64.
 * @param timeLimitMs time limit of the program.
 * @throws KekFault if the file has no valid key, or other users may read it.
 */
export function openKek(kek: string, timeLimitMs = TIME_LIMIT_MS): KeyEncryptionKey {
  const [, kind, place = ''] = /^(file|command):(.*)$/s.exec(kek) ?? [];
  return kind === 'command' ? new CommandKek(place, timeLimitMs) : new FileKek(place);
}

/** The content of a file with a new key. */
export function newKekFile(): Buffer {
  return Buffer.from(`${randomBytes(KEY_BYTES).toString('base64')}\n`);
}

/** Whether the content of a file is a key. */
export function isKekFile(content: Buffer): boolean {
  return keyIn(content.toString('latin1')) !== undefined;
}

function keyIn(content: string): Buffer | undefined {
  const text = content.trim();
  const key = Buffer.from(text, 'base64');
  return key.length === KEY_BYTES && key.toString('base64') === text ? key : undefined;
}

class FileKek implements KeyEncryptionKey {
  readonly #key: KeyObject;

  constructor(private readonly file: string) {
    let text: string;
    try {
      const { mode } = fs.statSync(file);
      if ((mode & 0o077) !== 0)
        throw new KekFault(`${file}: other users than its owner may read it (chmod 600)`);
      text = fs.readFileSync(file, 'latin1');
    } catch (error) {
      if (error instanceof KekFault) throw error;
      throw new KekFault(`${file} cannot be read (${systemCode(error) ?? 'UNKNOWN'})`);
    }
    const key = keyIn(text);
    if (key === undefined)
      throw new KekFault(`${file} contains no key: use 32 bytes in base64, as from openssl rand -base64 32`);
    this.#key = createSecretKey(key);
  }

  wrap(key: Buffer): Promise<string> {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce);
    const sealed = Buffer.concat([cipher.update(key), cipher.final()]);
    return Promise.resolve(Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString('base64'));
  }

  unwrap(wrapped: string): Buffer {
    const bytes = Buffer.from(wrapped, 'base64');
    if (bytes.length !== NONCE_BYTES + KEY_BYTES + TAG_BYTES) throw this.#unfit();
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, NONCE_BYTES));
    decipher.setAuthTag(bytes.subarray(NONCE_BYTES + KEY_BYTES));
    try {
      const sealed = bytes.subarray(NONCE_BYTES, NONCE_BYTES + KEY_BYTES);
      return Buffer.concat([decipher.update(sealed), decipher.final()]);
    } catch {
      throw this.#unfit();
    }
  }

  #unfit(): KekFault {
    return new KekFault(`${this.file} is not the key that wraps the payload keys`);
  }
}

class CommandKek implements KeyEncryptionKey {
  constructor(
    private readonly program: string,
    private readonly timeLimitMs: number,
  ) {}

  async wrap(key: Buffer): Promise<string> {
    const wrapped = bare(await this.#ask('wrap', key.toString('base64')));
    if (wrapped === '') throw new KekFault(`${this.program} printed nothing (wrap)`);
    if (wrapped.includes(bare(key.toString('base64'))))
      throw new KekFault(`${this.program} printed the key that it should wrap; its output was not used`);
    const unwrapped = this.#keyIn(await this.#ask('unwrap', wrapped));
    if (!unwrapped.equals(key))
      throw new KekFault(`${this.program} unwraps a different key than it wrapped; its output was not used`);
    return wrapped;
  }

  unwrap(wrapped: string): Buffer {
    try {
      return this.#keyIn(outputNow(this.program, 'unwrap', `${wrapped}\n`, this.timeLimitMs));
    } catch (error) {
      throw faultOf(error);
    }
  }

  async #ask(verb: 'wrap' | 'unwrap', input: string): Promise<string> {
    try {
      return await outputOf(this.program, verb, `${input}\n`, this.timeLimitMs);
    } catch (error) {
      throw faultOf(error);
    }
  }

  #keyIn(printed: string): Buffer {
    const text = bare(printed);
    const key = Buffer.from(text, 'base64');
    if (key.length !== KEY_BYTES || key.toString('base64') !== text)
      throw new KekFault(`${this.program} did not print the base64 of a key of ${KEY_BYTES} bytes (unwrap)`);
    return key;
  }
}

/** Removes line breaks, which base64(1) inserts after 76 characters. */
function bare(printed: string): string {
  return printed.replace(/\s/g, '');
}

function faultOf(error: unknown): unknown {
  return error instanceof ProgramFailed ? new KekFault(error.message, { cause: error }) : error;
}

/** Opens the key at its first use. */
export class LazyKek implements KeyEncryptionKey {
  #kek: KeyEncryptionKey | undefined;

  constructor(private readonly find: () => KeyEncryptionKey) {}

  async wrap(key: Buffer): Promise<string> {
    return await this.#found.wrap(key);
  }

  unwrap(wrapped: string): Buffer {
    return this.#found.unwrap(wrapped);
  }

  get #found(): KeyEncryptionKey {
    return (this.#kek ??= this.find());
  }
}
