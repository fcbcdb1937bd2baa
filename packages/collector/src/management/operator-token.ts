/** The operator's token: what opens the management listener to other hosts. Kept as its SHA-256 alone. */
import { createHash, timingSafeEqual } from 'node:crypto';
import fs from 'node:fs';
import { systemCode } from '../system-code.js';

const LEAST_CHARACTERS = 32;
/** Anything longer was not meant to be a token, and no header that holds it would be taken. */
const MOST_BYTES = 1024;

/** The file cannot be used. The message names it and says what to do; it never repeats what it holds. */
export class OperatorTokenUnfit extends Error {
  override name = 'OperatorTokenUnfit';
}

export class OperatorToken {
  readonly #hash: Buffer;

  private constructor(token: string) {
    this.#hash = hashOf(token);
  }

  /**
   * Reads the token: the file's one line.
   * @throws {@link OperatorTokenUnfit} when it cannot be read, is open to other users, or is too short.
   */
  static read(file: string): OperatorToken {
    let text: string;
    let mode: number;
    try {
      const stat = fs.statSync(file);
      mode = stat.mode;
      if (!stat.isFile()) throw new OperatorTokenUnfit(`${file} is not a regular file`);
      if (stat.size > MOST_BYTES) throw new OperatorTokenUnfit(`${file} is too long to hold a token`);
      text = fs.readFileSync(file, 'utf8');
    } catch (error) {
      if (error instanceof OperatorTokenUnfit) throw error;
      throw new OperatorTokenUnfit(`${file} cannot be read (${systemCode(error) ?? 'unknown'})`, {
        cause: error,
      });
    }
    // The modes that Node tells on Windows are made up. A group may read: that is how Kubernetes mounts a secret.
    if (process.platform !== 'win32' && (mode & 0o007) !== 0)
      throw new OperatorTokenUnfit(`${file} can be read by every user of the host: chmod 600`);
    const token = text.replace(/\r?\n$/, '');
    if (!/^[\x21-\x7e]*$/.test(token) || token.length < LEAST_CHARACTERS) {
      throw new OperatorTokenUnfit(
        `${file} does not hold a token: one line of at least ${LEAST_CHARACTERS} visible ASCII characters, such as openssl rand -hex 32 makes`,
      );
    }
    return new OperatorToken(token);
  }

  /** In a time that does not depend on how much of it is right. */
  matches(presented: string): boolean {
    return timingSafeEqual(hashOf(presented), this.#hash);
  }
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
