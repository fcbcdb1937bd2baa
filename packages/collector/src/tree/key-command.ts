/**
 * A signing key that this host never holds: a program of the operator signs, for example a client of a KMS or
 * of Vault.
 *
 *   PROGRAM public-key    prints the Ed25519 public key as SPKI PEM
 *   PROGRAM sign          reads a text from standard input, prints the base64 of the 64-byte signature
 *
 * It is started without a shell, with this one argument and the collector's environment, has limits of ten
 * seconds and 64 KiB, and must exit with 0. Its standard error is discarded, and its output never becomes
 * part of an error, because it may contain a secret. A signature is used only after it was verified.
 */
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { outputOf, ProgramFailed } from '../programs.js';
import type { KeyHolder, SigningKey } from './key-files.js';
import { type NoteKey, noteKey, verifierKeyOf } from './note-signing.js';
import { programFault } from './program.js';

const TIME_LIMIT_MS = 10_000;
const SIGNATURE_BYTES = 64;

/** Thrown if the signing command failed. The message contains only the program's path and public keys. */
export class SigningCommandFailed extends Error {
  override name = 'SigningCommandFailed';
}

/** Thrown if the command is unusable: another attempt would fail too. */
export class SigningCommandUnfit extends SigningCommandFailed {
  override name = 'SigningCommandUnfit';
}

/** Holds one key, which cannot be rotated. */
export class KeyCommand implements KeyHolder {
  private constructor(
    private readonly program: string,
    private readonly timeLimitMs: number,
    /**
     * Undefined while the program does not answer: then each key is accepted until a signature disproves it.
     */
    private readonly publicKey: KeyObject | undefined,
  ) {}

  /**
   * Asks the program for its public key.
   * @param options `mustAnswer` is set for a new log, which cannot begin without its key.
   * @throws SigningCommandUnfit if there is no such program, or it does not print an Ed25519 public key.
   * @throws SigningCommandFailed if it must answer and does not, for example because its KMS is down.
   */
  static async ask(
    program: string,
    options: {
      readonly mustAnswer: boolean;
      readonly onTrouble: (what: string, error: unknown) => void;
      readonly timeLimitMs?: number | undefined;
    },
  ): Promise<KeyCommand> {
    const { mustAnswer, onTrouble, timeLimitMs = TIME_LIMIT_MS } = options;
    const fault = programFault(program);
    if (fault !== undefined) throw new SigningCommandUnfit(fault);
    let publicKey: KeyObject | undefined;
    try {
      publicKey = publicKeyIn(await printedBy(program, 'public-key', '', timeLimitMs), program);
    } catch (error) {
      if (error instanceof SigningCommandUnfit || mustAnswer) throw error;
      // Events cannot wait for a KMS that is down. Each signature is verified before it is used.
      onTrouble('the signing command does not answer; events are stored, and it is asked again', error);
    }
    return new KeyCommand(program, timeLimitMs, publicKey);
  }

  first(origin: string): SigningKey {
    if (this.publicKey === undefined) throw new SigningCommandFailed(`${this.program} printed no key`);
    return this.read(noteKey(verifierKeyOf(origin, this.publicKey)));
  }

  /** @throws SigningCommandUnfit if the program printed another key. */
  read(key: NoteKey): SigningKey {
    if (this.publicKey?.equals(key.publicKey) === false) {
      throw new SigningCommandUnfit(
        `it prints the key ${verifierKeyOf(key.name, this.publicKey)}, and the current key of this log is ` +
          `${key.vkey} (checkpoints/origin.vkey and the rotation notes); the key of a signing command ` +
          'cannot be rotated',
      );
    }
    return { key, sign: (text) => this.#sign(key, text) };
  }

  exposureOf(): undefined {
    return undefined;
  }

  destroy(): string[] {
    return [];
  }

  /** @throws SigningCommandFailed if the program prints no valid signature of the text by the key. */
  async #sign({ publicKey, vkey }: NoteKey, text: string): Promise<Uint8Array> {
    const printed = await printedBy(this.program, 'sign', text, this.timeLimitMs);
    // base64(1) breaks its lines at 76 characters, and the signature has 88.
    const encoded = printed.replace(/\s/g, '');
    const signature = Buffer.from(encoded, 'base64');
    if (signature.length !== SIGNATURE_BYTES || signature.toString('base64') !== encoded) {
      throw new SigningCommandUnfit(
        `the signing command ${this.program} did not print the base64 of a signature of 64 bytes`,
      );
    }
    if (!verify(null, Buffer.from(text), publicKey, signature)) {
      throw new SigningCommandUnfit(
        `the signing command ${this.program} printed a signature that does not verify with ${vkey}`,
      );
    }
    return signature;
  }
}

function publicKeyIn(pem: string, program: string): KeyObject {
  const failed = new SigningCommandUnfit(
    `the signing command ${program} did not print an Ed25519 public key as SPKI PEM`,
  );
  // Node would also accept a private key, which must not be here.
  if (!pem.trimStart().startsWith('-----BEGIN PUBLIC KEY-----')) throw failed;
  let key: KeyObject;
  try {
    key = createPublicKey({ key: pem, format: 'pem' });
  } catch {
    throw failed;
  }
  if (key.asymmetricKeyType !== 'ed25519') throw failed;
  return key;
}

/** The output of the program, after it ended with 0. */
async function printedBy(program: string, verb: string, input: string, timeLimitMs: number): Promise<string> {
  try {
    return await outputOf(program, verb, input, timeLimitMs);
  } catch (error) {
    if (!(error instanceof ProgramFailed)) throw error;
    const Failure = error.isUnfit ? SigningCommandUnfit : SigningCommandFailed;
    throw new Failure(`the signing command ${error.message}`);
  }
}
