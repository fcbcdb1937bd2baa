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
import { spawn } from 'node:child_process';
import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import fs from 'node:fs';
import { formatNote } from '@clinical-events/protocol/verify';
import { type NoteKey, verifierKeyOf, type CheckpointSigner } from './note-signing.js';
import { systemCode } from '../system-code.js';
import { assertNotBegun, beginHistory, checkOrigin, hasHistory, readHistory } from './key-files.js';

const TIME_LIMIT_MS = 10_000;
const MOST_OUTPUT_BYTES = 64 << 10;
const SIGNATURE_BYTES = 64;
/** What the system says of a file that is no program, or names an interpreter that is not there. */
const UNSTARTABLE: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ENOTDIR', 'EACCES', 'ENOEXEC']);

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

export interface CommandSignerOptions {
  /** Its path. */
  readonly program: string;
  readonly dataDir: string;
  /** The name of the log; asked for at the very first start only. */
  readonly origin: () => string;
  readonly onTrouble: (what: string, error: unknown) => void;
  readonly timeLimitMs?: number;
}

export class CommandSigner implements CheckpointSigner {
  readonly origin: string;

  private constructor(
    private readonly program: string,
    private readonly timeLimitMs: number,
    /** The last of them is the program's. */
    readonly keys: readonly NoteKey[],
    private readonly key: NoteKey,
  ) {
    this.origin = key.name;
  }

  /**
   * Asks the program for its public key. At the very first start of a log that becomes the key which the log began
   * with, durably; later it has to be the one that the log has, or, while no one answers, is taken to be.
   * @throws SigningCommandUnfit when there is no such program, or it gives something else than an Ed25519 public key,
   *   or another key than that of the log.
   * @throws SigningCommandFailed when the program gives nothing at the very first start, as it may when what it asks
   *   is down.
   * @throws SigningKeyFault when the log's keys are broken.
   */
  static async open(options: CommandSignerOptions): Promise<CommandSigner> {
    const { program, dataDir, origin, onTrouble, timeLimitMs = TIME_LIMIT_MS } = options;
    if (!hasHistory(dataDir)) assertNotBegun(dataDir);
    const fault = programFault(program);
    if (fault !== undefined) throw new SigningCommandUnfit(fault);
    let publicKey: KeyObject;
    try {
      publicKey = publicKeyIn(await outputOf(program, 'public-key', '', timeLimitMs), program);
    } catch (error) {
      if (error instanceof SigningCommandUnfit || !hasHistory(dataDir)) throw error;
      // What it asks is down, and events cannot wait for that. Every signature is verified before it is believed.
      onTrouble('the signing command does not answer; events are stored, and it is asked again', error);
      const { keys, current } = readHistory(dataDir);
      return new CommandSigner(program, timeLimitMs, keys, current);
    }
    if (!hasHistory(dataDir)) {
      const name = origin();
      checkOrigin(name);
      beginHistory(dataDir, verifierKeyOf(name, publicKey));
    }
    const { keys, current } = readHistory(dataDir);
    if (!current.publicKey.equals(publicKey)) {
      throw new SigningCommandUnfit(
        `it gives the key ${verifierKeyOf(current.name, publicKey)}, and this log signs with its current key ` +
          `${current.vkey} (checkpoints/origin.vkey and the rotation notes); a key behind a command cannot be ` +
          'rotated yet',
      );
    }
    return new CommandSigner(program, timeLimitMs, keys, current);
  }

  /** @throws SigningCommandFailed when there is no signature, or not one of this text by the log's key. */
  async sign(text: string): Promise<string> {
    const printed = await outputOf(this.program, 'sign', text, this.timeLimitMs);
    // base64(1) breaks its lines at 76 characters, and the signature has 88.
    const encoded = printed.replace(/\s/g, '');
    const signature = Buffer.from(encoded, 'base64');
    if (signature.length !== SIGNATURE_BYTES || signature.toString('base64') !== encoded) {
      throw new SigningCommandUnfit(
        `the signing command ${this.program} did not print the base64 of a signature of 64 bytes`,
      );
    }
    if (!verify(null, Buffer.from(text), this.key.publicKey, signature)) {
      throw new SigningCommandUnfit(
        `the signing command ${this.program} printed a signature that does not verify with ${this.key.vkey}`,
      );
    }
    const { name, keyId } = this.key;
    return formatNote(text, [{ name, keyId, signature }]);
  }
}

/**
 * @returns why there is no program to start at this path, in words that follow the option's name; undefined when there
 *   is one, which is not started.
 */
export function programFault(program: string): string | undefined {
  // Anyone who gave it arguments may have given it a secret among them.
  const [first = '', ...more] = program.split(/\s/);
  const shown = more.length === 0 ? first : `${first} ...`;
  try {
    if (!fs.statSync(program).isFile()) return `${program} is no program`;
    fs.accessSync(program, fs.constants.X_OK);
    return undefined;
  } catch (error) {
    const code = systemCode(error) ?? 'UNKNOWN';
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      return `there is no such program: ${shown}; it takes a path, without arguments`;
    }
    return `${shown} is not executable, or lies where the collector's user may not look (${code})`;
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
function outputOf(program: string, verb: string, input: string, timeLimitMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    // A process group of its own: a wrapper's client has to end with it, and must not hold the pipe open.
    const child = spawn(program, [verb], {
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
      windowsHide: true,
    });
    const printed: Buffer[] = [];
    let size = 0;
    const fail = (how: string, Failure = SigningCommandFailed) => {
      clearTimeout(timer);
      child.stdout.destroy();
      reject(new Failure(`the signing command ${program} ${how} (${verb})`));
    };
    const stop = (why: string, Failure = SigningCommandFailed) => {
      endGroup(child.pid);
      fail(why, Failure);
    };
    const timer = setTimeout(() => stop(`did not end within ${timeLimitMs / 1000} s`), timeLimitMs);
    child.on('error', (error: NodeJS.ErrnoException) =>
      fail(
        `cannot be started: ${error.code ?? error.name}`,
        UNSTARTABLE.has(error.code) ? SigningCommandUnfit : SigningCommandFailed,
      ),
    );
    // A program may end without reading what it is given: its output tells.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
    child.stdout.on('data', (piece: Buffer) => {
      size += piece.length;
      if (size > MOST_OUTPUT_BYTES) stop('prints more than any key or signature needs', SigningCommandUnfit);
      else printed.push(piece);
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (code === 0) resolve(Buffer.concat(printed).toString('utf8'));
      else fail(signal === null ? `ended with exit code ${code ?? -1}` : `was ended by ${signal}`);
    });
  });
}

/** Ends the process and whatever it started: its group's id is not given to another while one of them lives. */
function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    // There are no process groups on Windows.
    process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
