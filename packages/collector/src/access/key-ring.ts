/**
 * The keys as the hot path asks for them: all rows in memory, kept current by polling the key store.
 *
 * Invariants:
 * - A presented key is distinguished from an unknown one only after its whole secret was proven. So a key id with a
 *   wrong secret gets the answer of an unknown key, even when that key has expired or was revoked.
 * - A reload replaces all rows or none. When the store cannot be read, the rows last read stay in force: a collector
 *   that refused all senders would lose events. The price is that a revocation is not seen until the store can be read
 *   again, which is why `onFailure` must reach someone.
 */
import { hash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ErrorCode } from '@clinical-events/protocol';
import type { ApiKey, KeyStore } from '../store/contract/keys.js';
import { Principal, sameGrants } from './principal.js';

/*
 * The text of an API key, the only form in which it ever leaves the collector:
 *
 *     cek_ <key id: 12 of a-z 2-7> _ <secret: 43 of A-Z a-z 0-9, 256 bits>
 *
 * The key id is public: it stands in logs, in the ledger and in `collector keys list`. The prefix lets secret
 * scanners recognise a key that was committed somewhere by mistake. A double click selects the whole secret, which
 * `-` would cut in two; keys made before this rule have it and `_` in their secret, and stay valid.
 */

const PREFIX = 'cek_';
const KEY_ID_LENGTH = 12;
/** The alphabet of base32 (RFC 4648 section 6) in lower case: no two of its characters look alike. */
const KEY_ID_ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const KEY_ID = /^[a-z2-7]{12}$/;
const SECRET_ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
/** The least with 256 bits: 62^43 > 2^256. */
const SECRET_LENGTH = 43;
const KEY_TEXT = /^cek_[a-z2-7]{12}_[A-Za-z0-9_-]{43}$/;

/** Every key text has this many characters. */
export const KEY_TEXT_LENGTH = 60;

/** A new key id: 60 random bits. */
export function newKeyId(): string {
  return Array.from(randomBytes(KEY_ID_LENGTH), (byte) => KEY_ID_ALPHABET.charAt(byte & 31)).join('');
}

/** @returns the text of a new key with this id and a fresh 256-bit secret. */
export function newKeyText(keyId: string): string {
  const secret = Array.from({ length: SECRET_LENGTH }, () => SECRET_ALPHABET.charAt(randomInt(62)));
  return `${PREFIX}${keyId}_${secret.join('')}`;
}

/** Whether this could be a key id. */
export function isKeyId(text: string): boolean {
  return KEY_ID.test(text);
}

/**
 * @returns the key id when the text has the form of a key, else undefined. Says nothing of whether there is such
 *   a key. The cost does not grow with the length of the text.
 */
export function keyIdOf(text: string): string | undefined {
  if (text.length !== KEY_TEXT_LENGTH || !KEY_TEXT.test(text)) return undefined;
  return text.slice(PREFIX.length, PREFIX.length + KEY_ID_LENGTH);
}

/**
 * What is stored instead of the key: SHA-256 of its whole text, 32 bytes. A slow password hash would protect
 * nothing more: a secret of 256 random bits cannot be guessed at any speed.
 */
export function hashKeyText(text: string): Uint8Array {
  return hash('sha256', text, 'buffer');
}

/** Why a key was refused: names of the protocol's error table. */
export type KeyRefusal = Extract<ErrorCode, 'key_missing' | 'key_invalid' | 'key_expired' | 'key_revoked'>;

/** How a {@link KeyRing} keeps itself current. */
export interface KeyRingOptions {
  /** Between two looks at the store, in milliseconds; 250 when not given. */
  readonly pollMs?: number;
  /** How many proven keys are found without hashing; 4096 when not given. */
  readonly cacheSize?: number;
  /** Called when a look at the store fails, once until one succeeds again. */
  readonly onFailure?: (error: unknown) => void;
  /** Called when a look succeeds after one that failed. */
  readonly onRecovery?: () => void;
}

interface Entry {
  key: ApiKey;
  principal: Principal;
  lastUsedAt: number | undefined;
  uses: number;
}

/** A key and what this ring has seen of it since it was opened. */
export interface KeyUse {
  readonly key: ApiKey;
  /** When it was last accepted, in milliseconds since 1970 UTC. */
  readonly lastUsedAt: number | undefined;
  /** How often it was accepted. */
  readonly uses: number;
  /** How many requests of it were over its rate, since its grants last changed. */
  readonly overRate: number;
}

/** Between two looks for keys that are not known, in milliseconds. */
const LOOK_AGAIN_MS = 20;
/** Compared against when there is no such key, so that an unknown key id costs what a known one does. */
const NO_HASH = new Uint8Array(32);

/** All API keys of a collector. */
export class KeyRing {
  readonly #store: KeyStore;
  readonly #options: KeyRingOptions;
  readonly #cacheSize: number;
  #entries = new Map<string, Entry>();
  /**
   * From the text of a proven key to its entry. Finding a text here takes a time that depends on it, but a prober
   * learns nothing from that: V8 compares texts only when their hashes agree, and seeds the hash again in each process.
   */
  readonly #proven = new Map<string, Entry>();
  /** The next look that {@link lookAgain} has waiting, until it begins. */
  #nextLook: Promise<void> | undefined;
  #lookedAt = -Infinity;
  #stopped = false;
  #version: string | undefined;
  #failing = false;
  #timer: NodeJS.Timeout | undefined;
  #refreshing: Promise<boolean> | undefined;

  private constructor(store: KeyStore, options: KeyRingOptions) {
    this.#store = store;
    this.#options = options;
    this.#cacheSize = options.cacheSize ?? 4096;
  }

  /**
   * Reads all keys once. Call {@link start} to follow later changes. The store stays the caller's to close, after
   * {@link stop}.
   * @throws KeyStoreError when the keys cannot be read.
   */
  static async open(store: KeyStore, options: KeyRingOptions = {}): Promise<KeyRing> {
    const ring = new KeyRing(store, options);
    await ring.#reload();
    return ring;
  }

  /**
   * @param presented the value of the X-API-Key header, or undefined when there is none.
   * @param nowMs the wall clock, in milliseconds since 1970 UTC.
   * @param counts whether it is a use: a request whose key is looked at twice is one.
   * @returns the principal of a valid key, else why it is refused. Never throws, whatever is presented.
   */
  authenticate(presented: string | undefined, nowMs: number, counts = true): Principal | KeyRefusal {
    if (presented === undefined || presented === '') return 'key_missing';
    // Before anything that reads the text: a header may hold many kilobytes of it.
    if (presented.length !== KEY_TEXT_LENGTH) return 'key_invalid';
    const proven = this.#proven.get(presented);
    const entry = proven ?? this.#prove(presented);
    if (entry === undefined) return 'key_invalid';
    const { expiresAt, revokedAt } = entry.key;
    if (revokedAt !== undefined || (expiresAt !== undefined && nowMs >= expiresAt)) {
      if (proven !== undefined) this.#proven.delete(presented);
      return revokedAt === undefined ? 'key_expired' : 'key_revoked';
    }
    if (proven === undefined) this.#remember(presented, entry);
    entry.lastUsedAt = nowMs;
    if (counts) entry.uses++;
    return entry.principal;
  }

  /**
   * Looks at the store, and reads the keys again when they may have changed. Calls during a look share its result.
   * @returns whether the ring is current; when it is not, `onFailure` was called with the reason. Never rejects.
   */
  refresh(): Promise<boolean> {
    this.#refreshing ??= this.#look().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  /**
   * Looks at the store for a key that was refused as `key_invalid`: it may have been made since the last look. All
   * calls share the next look, which is at most {@link LOOK_AGAIN_MS} away, so that no sender can use looks up.
   * @returns once a look that began after this call has ended. Never rejects.
   */
  lookAgain(): Promise<void> {
    this.#nextLook ??= this.#lookInTurn();
    return this.#nextLook;
  }

  async #lookInTurn(): Promise<void> {
    await sleep(Math.max(0, this.#lookedAt + LOOK_AGAIN_MS - performance.now()));
    // One that has begun may have read the store before the key was there.
    await this.#refreshing;
    this.#lookedAt = performance.now();
    this.#nextLook = undefined;
    if (!this.#stopped) await this.refresh();
  }

  /** Looks at the store from now on every `pollMs`, without keeping the process alive for it. */
  start(): void {
    this.#timer ??= setInterval(() => {
      this.refresh().catch((error: unknown) => this.#options.onFailure?.(error));
    }, this.#options.pollMs ?? 250).unref();
  }

  /** Ends all looking. On return no look at the store is under way, so that it can be closed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#refreshing;
  }

  /** Whether the keys could be read the last time that someone looked. */
  get current(): boolean {
    return !this.#failing;
  }

  /** Every key, the revoked and expired among them, in the order of creation. */
  *uses(): Generator<KeyUse> {
    for (const { key, principal, lastUsedAt, uses } of this.#entries.values())
      yield { key, lastUsedAt, uses, overRate: principal.bucket?.refused ?? 0 };
  }

  #prove(presented: string): Entry | undefined {
    const keyId = keyIdOf(presented);
    if (keyId === undefined) return undefined;
    const entry = this.#entries.get(keyId);
    const equal = timingSafeEqual(hashKeyText(presented), entry?.key.hash ?? NO_HASH);
    return equal ? entry : undefined;
  }

  #remember(presented: string, entry: Entry): void {
    if (this.#proven.size >= this.#cacheSize) {
      for (const oldest of this.#proven.keys()) {
        this.#proven.delete(oldest);
        break;
      }
    }
    this.#proven.set(presented, entry);
  }

  async #look(): Promise<boolean> {
    try {
      if ((await this.#store.version()) !== this.#version) await this.#reload();
    } catch (error) {
      if (!this.#failing) this.#options.onFailure?.(error);
      this.#failing = true;
      return false;
    }
    if (this.#failing) this.#options.onRecovery?.();
    this.#failing = false;
    return true;
  }

  async #reload(): Promise<void> {
    const version = await this.#store.version();
    const keys = await this.#store.list();
    const entries = new Map<string, Entry>();
    for (const key of keys) {
      const known = this.#entries.get(key.keyId);
      if (known === undefined) {
        entries.set(key.keyId, { key, principal: new Principal(key), lastUsedAt: undefined, uses: 0 });
      } else {
        if (!sameGrants(known.key, key)) known.principal = new Principal(key);
        known.key = key;
        entries.set(key.keyId, known);
      }
    }
    this.#entries = entries;
    this.#version = version;
    // A key that is no longer stored must not live on here; the others pay one hash each to come back.
    this.#proven.clear();
  }
}

/* Keys as they are shown to operators. */

/** A key and its use since the start, without its hash. */
export type KeyState = Pick<
  ApiKey,
  'keyId' | 'organisation' | 'note' | 'createdAt' | 'expiresAt' | 'revokedAt' | 'replacedBy'
> &
  Omit<KeyUse, 'key'>;

/** More lines would help no one, and would cost the monitoring system more than all other metrics. */
export const MOST_KEYS = 1000;

/** Those that can be used before those that cannot, each in the order of creation; at most {@link MOST_KEYS}. */
export function shownKeys(uses: Iterable<KeyUse>, now: number): KeyState[] {
  const all = Array.from(uses, stateOfKey);
  const usable = all.filter((key) => isUsable(key, now));
  if (usable.length >= MOST_KEYS) return usable.slice(0, MOST_KEYS);
  const others = all.filter((key) => !isUsable(key, now));
  return [...usable, ...others.slice(-(MOST_KEYS - usable.length))];
}

function stateOfKey({ key, lastUsedAt, uses, overRate }: KeyUse): KeyState {
  const { keyId, organisation, note, createdAt, expiresAt, revokedAt, replacedBy } = key;
  return {
    ...{ keyId, organisation, note, createdAt, expiresAt, revokedAt, replacedBy },
    ...{ lastUsedAt, uses, overRate },
  };
}

export function isUsable({ revokedAt, expiresAt }: KeyState, now: number): boolean {
  return revokedAt === undefined && (expiresAt === undefined || now < expiresAt);
}

/** A sender that was given another key would have changed by now. */
const IN_USE_MS = 60 * 60_000;

/** Whether someone sent with it within the last hour. */
export function isInUse({ lastUsedAt }: KeyState, now: number): boolean {
  return lastUsedAt !== undefined && now - lastUsedAt < IN_USE_MS;
}
