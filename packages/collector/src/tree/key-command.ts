/**
 * A signing key that this host never holds: a program of the operator's signs, around a KMS or Vault client for one.
 *
 *   PROGRAM public-key    prints the Ed25519 public key as SPKI PEM
 *   PROGRAM sign          is given the text on standard input, prints the base64 of the 64 bytes of its signature
 *
 * It is started without a shell, with no other argument and the collector's environment, has ten seconds and 64 KiB,
 * and ends with 0. Its standard error goes nowhere, and nothing that it prints is ever part of an error: a text that
 * was signed, or a token that it complains about, is nothing for a log. A signature is believed when it verifies.
 */
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { outputOf, ProgramFailed } from '../programs.js';
import type { KeyHolder, SigningKey } from './key-files.js';
import { type NoteKey, noteKey, verifierKeyOf } from './note-signing.js';
import { programFault } from './program.js';

const TIME_LIMIT_MS = 10_000;
const SIGNATURE_BYTES = 64;

/**
 * The signing command did not do what it is for. The message is for the operator, and holds nothing but the program's
 * path and public keys.
 */
export class SigningCommandFailed extends Error {
  override name = 'SigningCommandFailed';
}

/** The command cannot be the one that is meant: another try would come to the same. */
export class SigningCommandUnfit extends SigningCommandFailed {
  override name = 'SigningCommandUnfit';
}

/** Holds one key, which cannot be rotated yet. */
export class KeyCommand implements KeyHolder {
  private constructor(
    private readonly program: string,
    private readonly timeLimitMs: number,
    /** Undefined while the program does not answer: then each key is taken to be its own, until a signature shows. */
    private readonly publicKey: KeyObject | undefined,
  ) {}

  /**
   * Asks the program for its public key.
   * @param options with `mustAnswer` one that gives none is refused: a log cannot begin without its key.
   * @throws SigningCommandUnfit when there is no such program, or it gives something else than an Ed25519 public key.
   * @throws SigningCommandFailed when it gives nothing and must, as when what it asks is down.
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
      // What it asks is down, and events cannot wait for that. Every signature is verified before it is believed.
      onTrouble('the signing command does not answer; events are stored, and it is asked again', error);
    }
    return new KeyCommand(program, timeLimitMs, publicKey);
  }

  first(origin: string): SigningKey {
    if (this.publicKey === undefined) throw new SigningCommandFailed(`${this.program} gave no key`);
    return this.read(noteKey(verifierKeyOf(origin, this.publicKey)));
  }

  /** @throws SigningCommandUnfit when the program has given another key. */
  read(key: NoteKey): SigningKey {
    if (this.publicKey?.equals(key.publicKey) === false) {
      throw new SigningCommandUnfit(
        `it gives the key ${verifierKeyOf(key.name, this.publicKey)}, and this log signs with its current key ` +
          `${key.vkey} (checkpoints/origin.vkey and the rotation notes); a key behind a command cannot be ` +
          'rotated yet',
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

  /** @throws SigningCommandFailed when there is no signature, or not one of this text by the key. */
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
  // Node would derive the public key from a private one, which has no business here.
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

/** What the program prints, once it has ended with 0. */
async function printedBy(program: string, verb: string, input: string, timeLimitMs: number): Promise<string> {
  try {
    return await outputOf(program, verb, input, timeLimitMs);
  } catch (error) {
    if (!(error instanceof ProgramFailed)) throw error;
    const Failure = error.isUnfit ? SigningCommandUnfit : SigningCommandFailed;
    throw new Failure(`the signing command ${error.message}`);
  }
}
