/**
 * The log's signing keys, in files or managed by a program, and the rotation of keys in files.
 *
 * The first start makes the first key, and writes its verifier key beside the checkpoints before anything is
 * signed. A rotation makes another key and then a note, signed by both, that names it: the note takes effect
 * when it appears. The new key signs from then on. The old key signs too until the overlap ends, so that
 * verifiers can follow, and is then destroyed.
 *
 * A private key is durable before a text names it, so a crash leaves one of two valid states. No verifier
 * trusts a key that no text names. The next first start uses it. A rotation neither uses it, because someone
 * may have read the directory, nor removes it, because it may be the log's newest key while the data
 * directory is an older copy.
 */
import { formatNote, formatRotation } from '@clinical-events/protocol/verify';
import { createDurably, nodeFiles } from '../files.js';
import { messageOf, systemCode } from '../system-code.js';
import { KeyCommand } from './key-command.js';
import type { CheckpointSigner, NoteKey } from './note-signing.js';
import {
  PrivateKeys,
  type SigningKey,
  SigningKeyFault,
  assertNotBegun,
  beginHistory,
  checkOrigin,
  followHistory,
  hasHistory,
  type KeyHistory,
  originKeyPath,
  readHistory,
  rotationDirectory,
  rotationPath,
  rotationPaths,
  signingProgram,
  type KeyHolder,
} from './key-files.js';

export interface SigningKeysOptions {
  readonly dataDir: string;
  /** Directory of the private keys. */
  readonly directory: string;
  /** Replaces the directory: no key file is read or made. */
  readonly holder?: KeyHolder | undefined;
  /** Milliseconds since 1970 UTC. */
  readonly now?: () => number;
  /** Called for a fault that does not stop signing. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** Called when a rotation was followed, or a rotated key destroyed. */
  readonly onNotice?: (message: string) => void;
}

export interface FirstStartOptions extends SigningKeysOptions {
  /** Returns the name of the log; called at the first start only. */
  readonly origin: () => string;
}

/**
 * The signer that `--signing-keys` names: a directory, or `command:PROGRAM`.
 * @throws SigningKeyFault as {@link SigningKeys.openOrCreate}; SigningCommandFailed as {@link
 *   KeyCommand.ask}.
 */
export async function openSigner({
  signingKeys,
  timeLimitMs,
  ...options
}: Omit<FirstStartOptions, 'directory'> & {
  readonly signingKeys: string;
  /** Time limit for an answer of the program. */
  readonly timeLimitMs?: number;
}): Promise<SigningKeys> {
  const program = signingProgram(signingKeys);
  const { dataDir, onTrouble } = options;
  if (program === undefined) return SigningKeys.openOrCreate({ ...options, directory: signingKeys });
  const isNew = !hasHistory(dataDir);
  if (isNew) assertNotBegun(dataDir);
  const holder = await KeyCommand.ask(program, { mustAnswer: isNew, onTrouble, timeLimitMs });
  return SigningKeys.openOrCreate({ ...options, directory: dataDir, holder });
}

/** Result of a rotation. */
export interface Rotated {
  readonly key: NoteKey;
  readonly before: NoteKey;
  /** End of the overlap, in which `before` signs too: milliseconds since 1970 UTC. */
  readonly until: number;
  /** Paths of the new private key and of the rotation note. */
  readonly keyFile: string;
  readonly note: string;
}

/** The keys that sign, and their history. */
interface Signing {
  readonly history: KeyHistory;
  readonly current: SigningKey;
  /** The previous key, during the overlap. */
  readonly before: SigningKey | undefined;
}

export class SigningKeys implements CheckpointSigner {
  readonly #options: SigningKeysOptions;
  readonly #now: () => number;
  readonly #holder: KeyHolder;
  #signing: Signing;
  /** Number of keys, from the first one, that are destroyed or cannot be destroyed. */
  #destroyed = 0;
  /** The last reported reason why a rotation could not be followed. */
  #reported = '';

  private constructor(options: SigningKeysOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#holder = options.holder ?? new PrivateKeys(options.directory);
    this.#signing = this.#load();
  }

  /**
   * Opens the keys of a log, and makes the first one if needed. Only the process that holds the lock of the
   * data directory may call it.
   * @throws SigningKeyFault as {@link open}; also if the log exists, but lost `origin.vkey`.
   */
  static openOrCreate(options: FirstStartOptions): SigningKeys {
    if (!hasHistory(options.dataDir)) {
      assertNotBegun(options.dataDir);
      const holder = options.holder ?? new PrivateKeys(options.directory);
      const origin = options.origin();
      checkOrigin(origin);
      beginHistory(options.dataDir, holder.first(origin).key.vkey);
    }
    return SigningKeys.open(options);
  }

  /**
   * Opens the keys of a log that has its first key. Never makes a key.
   * @throws SigningKeyFault `no-log`, `broken` if the chain of keys is invalid, `key-missing` if the current
   *   private key is not in the directory. The message names the file.
   */
  static open(options: SigningKeysOptions): SigningKeys {
    return new SigningKeys(options);
  }

  /**
   * Makes a new key and its rotation note, durably. A running collector follows at its next checkpoint.
   *
   * During an earlier overlap only `overlapMs` 0 is allowed, for a key that must be replaced immediately: it
   * ends that overlap, so that at most two keys sign.
   *
   * If two rotations are concurrent, one creates its note first; the other changes nothing.
   * @throws SigningKeyFault with the reasons of {@link open}, `overlapping` or `overtaken`.
   */
  static rotate(options: {
    readonly dataDir: string;
    readonly directory: string;
    readonly overlapMs: number;
    readonly now?: () => number;
  }): Rotated {
    const { dataDir, directory, overlapMs } = options;
    const files = new PrivateKeys(directory);
    const history = readHistory(dataDir);
    const nowMs = (options.now ?? Date.now)();
    const ends = history.until.at(-1) ?? -Infinity;
    if (nowMs < ends && overlapMs > 0) {
      throw new SigningKeyFault(
        'overlapping',
        `the overlap of the previous rotation lasts until ${new Date(ends).toISOString()}; rotate ` +
          'after it, or with overlap 0 to end it now',
      );
    }
    const before = files.read(history.current);
    const until = nowMs + overlapMs;
    const made = files.make(history.origin, before.key);
    const text = formatRotation({
      origin: history.origin,
      oldKey: before.key.vkey,
      newKey: made.key.vkey,
      until: new Date(until).toISOString(),
    });
    const note = formatNote(
      text,
      [before, made].map(({ key: { name, keyId }, sign }) => ({ name, keyId, signature: sign(text) })),
    );
    // A note that a verifier would refuse must never be written.
    followHistory(dataDir, history.first, [...history.rotations, note]);
    const file = rotationPath(dataDir, history.rotations.length + 1);
    nodeFiles.makeDirectory(rotationDirectory(dataDir));
    try {
      createDurably(file, note, originKeyPath(dataDir));
    } catch (error) {
      // After any other error the note may exist, and then it needs its key.
      if (systemCode(error) !== 'EEXIST') throw error;
      files.destroy(made.key);
      throw new SigningKeyFault('overtaken', `another rotation came first: ${file} exists`);
    }
    return { key: made.key, before: before.key, until, keyFile: files.pathOf(made.key), note: file };
  }

  get origin(): string {
    return this.#signing.history.origin;
  }

  get keys(): readonly NoteKey[] {
    return this.#signing.history.keys;
  }

  /** @returns the text, signed by the current key and, during the overlap, by the previous one. */
  async sign(text: string): Promise<string> {
    this.#follow();
    const { history, current, before } = this.#signing;
    const overlapping = this.#now() < (history.until.at(-1) ?? -Infinity);
    const signers = overlapping && before !== undefined ? [current, before] : [current];
    const signatures = signers.map(async ({ key: { name, keyId }, sign }) => ({
      ...{ name, keyId },
      signature: await sign(text),
    }));
    const note = formatNote(text, await Promise.all(signatures));
    if (!overlapping) this.#signing = { history, current, before: undefined };
    this.#destroyBefore(history.keys.length - (overlapping ? 2 : 1));
    return note;
  }

  /** Follows a rotation by another process. If it cannot, the previous keys stay in use. */
  #follow(): void {
    const { history } = this.#signing;
    try {
      if (rotationPaths(this.#options.dataDir).length === history.rotations.length) {
        this.#reported = '';
        return;
      }
      this.#signing = this.#load(history.keys);
      this.#reported = '';
      this.#options.onNotice?.(`${this.#signing.current.key.vkey} signs the checkpoints from now on`);
    } catch (error) {
      const reason = messageOf(error);
      if (reason === this.#reported) return;
      this.#reported = reason;
      this.#options.onTrouble(
        'a rotation of the signing key cannot be followed; the old key stays in use',
        error,
      );
    }
  }

  /**
   * @param followed keys that the log had at the last load.
   * @throws SigningKeyFault
   */
  #load(followed: readonly NoteKey[] = []): Signing {
    const { dataDir, onTrouble } = this.#options;
    const history = readHistory(dataDir);
    if (followed.some(({ vkey }, at) => vkey !== history.keys[at]?.vkey)) {
      throw new SigningKeyFault('broken', 'the note of a rotation that was followed is missing');
    }
    // The process that made the note may not have flushed it, and a checkpoint must not outlive its key's
    // note.
    if (history.rotations.length > 0) nodeFiles.syncDirectory(rotationDirectory(dataDir));
    const current = this.#holder.read(history.current);
    const previous = history.keys.at(-2);
    let before: SigningKey | undefined;
    if (previous !== undefined && this.#now() < (history.until.at(-1) ?? -Infinity)) {
      try {
        before = this.#holder.read(previous);
      } catch (error) {
        onTrouble('the previous key should sign until the overlap ends, and cannot', error);
      }
    }
    for (const each of before === undefined ? [current] : [current, before]) {
      const exposure = this.#holder.exposureOf(each.key);
      if (exposure !== undefined) onTrouble('a signing key is open to other users', new Error(exposure));
    }
    return { history, current, before };
  }

  /**
   * Destroys the first `count` keys of the chain, each once. A failure is reported, and the next start tries
   * again.
   */
  #destroyBefore(count: number): void {
    for (; this.#destroyed < count; this.#destroyed++) {
      const key = this.keys[this.#destroyed];
      if (key === undefined) return;
      try {
        for (const file of this.#holder.destroy(key)) {
          this.#options.onNotice?.(`${file} was destroyed: its key no longer signs`);
        }
      } catch (error) {
        this.#options.onTrouble('a signing key that was rotated cannot be destroyed', error);
      }
    }
  }
}
