/**
 * The log's signing keys, in files or behind a program, and the rotation of those in files.
 *
 * A key is made once, at the very first start, and its verifier key written beside the checkpoints before anything is
 * signed. A rotation makes another one and then a note, signed by both, that hands on to it: the appearance of the note
 * is the switch. The new key signs from then on; the old one signs too until the overlap ends, so that verifiers who
 * hold only the old key have that long to follow, and is destroyed after it.
 *
 * What a crash leaves is always one of two states that work, because the private key is durable before the text that
 * names it is. A private key that no text names was never trusted by anybody. The next first start takes it. A rotation
 * leaves it alone: it must not use it, because anyone who read the directory before may have it, and the new key may be
 * there to shut them out; and must not remove it, because it may be the newest key of the log, and the data directory
 * an older copy that someone has put back.
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
  /** Where the private keys are. */
  readonly directory: string;
  /** What holds them instead: then no file of a key is read or made. */
  readonly holder?: KeyHolder | undefined;
  /** Milliseconds since 1970 UTC. */
  readonly now?: () => number;
  /** Something is not as it should be; checkpoints are signed all the same. */
  readonly onTrouble: (what: string, error: unknown) => void;
  /** A rotation was followed, or the key that it retired destroyed. */
  readonly onNotice?: (message: string) => void;
}

export interface FirstStartOptions extends SigningKeysOptions {
  /** The name of the log; asked for at the very first start only. */
  readonly origin: () => string;
}

/**
 * The signer that `--signing-keys` names: a directory, or `command:PROGRAM`.
 * @throws SigningKeyFault as {@link SigningKeys.openOrCreate}; SigningCommandFailed as {@link KeyCommand.ask}.
 */
export async function openSigner({
  signingKeys,
  timeLimitMs,
  ...options
}: Omit<FirstStartOptions, 'directory'> & {
  readonly signingKeys: string;
  /** For an answer of the program. */
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

/** What a rotation did. */
export interface Rotated {
  readonly key: NoteKey;
  readonly before: NoteKey;
  /** Milliseconds since 1970 UTC: until then `before` signs too. */
  readonly until: number;
  /** Paths of the new private key and of the rotation note. */
  readonly keyFile: string;
  readonly note: string;
}

/** Those of the keys that sign, and what they stand on. */
interface Signing {
  readonly history: KeyHistory;
  readonly current: SigningKey;
  /** The key that the current one took over from, while it may sign too. */
  readonly before: SigningKey | undefined;
}

export class SigningKeys implements CheckpointSigner {
  readonly #options: SigningKeysOptions;
  readonly #now: () => number;
  readonly #holder: KeyHolder;
  #signing: Signing;
  /** How many keys of the chain, from its begin, are known to be destroyed or cannot be. */
  #retired = 0;
  /** The newest trouble in following a rotation: reported once, not each second. */
  #reported = '';

  private constructor(options: SigningKeysOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#holder = options.holder ?? new PrivateKeys(options.directory);
    this.#signing = this.#load();
  }

  /**
   * The keys of a log, and its first key when it has none yet. For the one process that holds the data directory.
   * @throws SigningKeyFault as {@link open}; and when the log did begin, but lost `origin.vkey`.
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
   * The keys of a log that has its first key. Never makes one.
   * @throws SigningKeyFault `no-log`, `broken` when the keys do not follow from each other, `key-missing` when the
   *   private key that should sign is not in the directory. The message names the file.
   */
  static open(options: SigningKeysOptions): SigningKeys {
    return new SigningKeys(options);
  }

  /**
   * Hands on to a new key, beside a running collector too, which follows at its next checkpoint. Durable on return.
   *
   * While an earlier overlap lasts, only `overlapMs` 0 is allowed, for a key that must be replaced immediately: it ends
   * that overlap with its own, because three keys that all sign would be one more state for every verifier to know.
   *
   * Of two rotations at once the note of one is there first; the other has changed nothing.
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
        `the overlap of the rotation before lasts until ${new Date(ends).toISOString()}; rotate after it, or with ` +
          'overlap 0 to end it now',
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
    // What a verifier would refuse must never be there.
    followHistory(dataDir, history.first, [...history.rotations, note]);
    const file = rotationPath(dataDir, history.rotations.length + 1);
    nodeFiles.makeDirectory(rotationDirectory(dataDir));
    try {
      createDurably(file, note, originKeyPath(dataDir));
    } catch (error) {
      // After any other error the note may be there, and then it needs its key.
      if (systemCode(error) !== 'EEXIST') throw error;
      files.destroy(made.key);
      throw new SigningKeyFault('overtaken', `another rotation came first: ${file} is there now`);
    }
    return { key: made.key, before: before.key, until, keyFile: files.pathOf(made.key), note: file };
  }

  get origin(): string {
    return this.#signing.history.origin;
  }

  get keys(): readonly NoteKey[] {
    return this.#signing.history.keys;
  }

  /** @returns the text, signed by the current key and, while the overlap lasts, by the one before. */
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

  /** Takes over what another process rotated. When it cannot, the keys that signed so far stay in use. */
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
   * @param followed keys that the log is known to have had.
   * @throws SigningKeyFault
   */
  #load(followed: readonly NoteKey[] = []): Signing {
    const { dataDir, onTrouble } = this.#options;
    const history = readHistory(dataDir);
    if (followed.some(({ vkey }, at) => vkey !== history.keys[at]?.vkey)) {
      throw new SigningKeyFault('broken', 'a rotation that was followed is no longer there');
    }
    // Anyone who made the note may not have come to this yet, and a checkpoint must not outlive the key it was signed by.
    if (history.rotations.length > 0) nodeFiles.syncDirectory(rotationDirectory(dataDir));
    const current = this.#holder.read(history.current);
    const previous = history.keys.at(-2);
    let before: SigningKey | undefined;
    if (previous !== undefined && this.#now() < (history.until.at(-1) ?? -Infinity)) {
      try {
        before = this.#holder.read(previous);
      } catch (error) {
        onTrouble('the key before the current one should sign too until the overlap ends, and cannot', error);
      }
    }
    for (const each of before === undefined ? [current] : [current, before]) {
      const exposure = this.#holder.exposureOf(each.key);
      if (exposure !== undefined) onTrouble('a signing key is open to other users', new Error(exposure));
    }
    return { history, current, before };
  }

  /** Destroys the first `count` keys of the chain, each once. A failure is reported, and the next start tries again. */
  #destroyBefore(count: number): void {
    for (; this.#retired < count; this.#retired++) {
      const key = this.keys[this.#retired];
      if (key === undefined) return;
      try {
        for (const file of this.#holder.destroy(key)) {
          this.#options.onNotice?.(`${file} was destroyed: its key signs no more`);
        }
      } catch (error) {
        this.#options.onTrouble('a signing key that was rotated cannot be destroyed', error);
      }
    }
  }
}
