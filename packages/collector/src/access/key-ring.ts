/**
 * All API keys in memory for the hot path, kept current by polling the key store.
 *
 * Invariants:
 * - A presented key is treated differently from an unknown one only after its whole secret was proven. So a
 *   key id with a wrong secret gets the answer of an unknown key, even when that key has expired or was
 *   revoked.
 * - A reload replaces all rows or none. While the store cannot be read, the last rows stay in force, because
 *   a collector that refused all senders would lose events. A revocation then takes effect only when the
 *   store can be read again, so `onFailure` must reach an operator.
 */
import { hash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ErrorCode } from '@clinical-events/protocol';
import type { ApiKey, KeyStore } from '../store/contract/keys.js';
import { Principal, sameGrants } from './principal.js';

/*
 * The text of an API key, the only form in which it leaves the collector:
 *
 *     cek_ <key id: 12 of a-z 2-7> _ <secret: 43 of A-Z a-z 0-9, 256 bits>
 *
 * The key id is public: it appears in logs, in the ledger and in `collector keys list`. The prefix lets
 * secret scanners recognise a key that was committed by mistake. A double click selects the whole secret,
 * which `-` would split; older keys have `-` and `_` in their secrets and stay valid.
 */

const PREFIX = 'cek_';
const KEY_ID_LENGTH = 12;
/** The alphabet of base32 (RFC 4648 section 6) in lower case, without characters that look alike. */
const KEY_ID_ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const KEY_ID = /^[a-z2-7]{12}$/;
const SECRET_ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
/** The shortest length with 256 bits: 62^43 > 2^256. */
const SECRET_LENGTH = 43;
const KEY_TEXT = /^cek_[a-z2-7]{12}_[A-Za-z0-9_-]{43}$/;

/** The number of characters of every key text. */
export const KEY_TEXT_LENGTH = 60;

/** A new key id: 60 random bits. */
export function newKeyId(): string {
  return Array.from(randomBytes(KEY_ID_LENGTH), (byte) => KEY_ID_ALPHABET.charAt(byte & 31)).join('');
}

/** @returns the text of a new key with this id and a new 256-bit secret. */
export function newKeyText(keyId: string): string {
  const secret = Array.from({ length: SECRET_LENGTH }, () => SECRET_ALPHABET.charAt(randomInt(62)));
  return `${PREFIX}${keyId}_${secret.join('')}`;
}

/** Whether the text has the form of a key id. */
export function isKeyId(text: string): boolean {
  return KEY_ID.test(text);
}

/**
 * @returns the key id when the text has the form of a key, else undefined. The key need not exist. The cost
 *   does not grow with the length of the text.
 */
export function keyIdOf(text: string): string | undefined {
  if (text.length !== KEY_TEXT_LENGTH || !KEY_TEXT.test(text)) return undefined;
  return text.slice(PREFIX.length, PREFIX.length + KEY_ID_LENGTH);
}

/**
 * The value that is stored in place of the key: the SHA-256 of its text, 32 bytes. A slow password hash would
 * add nothing: a secret of 256 random bits cannot be guessed.
 */
export function hashKeyText(text: string): Uint8Array {
  return hash('sha256', text, 'buffer');
}

/** Why a key was refused: names of the protocol's error table. */
export type KeyRefusal = Extract<ErrorCode, 'key_missing' | 'key_invalid' | 'key_expired' | 'key_revoked'>;

/** How a {@link KeyRing} stays current. */
export interface KeyRingOptions {
  /** Interval between two reads of the store, in milliseconds; 250 by default. */
  readonly pollMs?: number;
  /** The number of proven keys that are found without hashing; 4096 by default. */
  readonly cacheSize?: number;
  /** Called when a read of the store fails, once until a read succeeds again. */
  readonly onFailure?: (error: unknown) => void;
  /** Called when a read succeeds after a failed one. */
  readonly onRecovery?: () => void;
}

interface Entry {
  key: ApiKey;
  principal: Principal;
  lastUsedAt: number | undefined;
  uses: number;
}

/** A key and its use since this ring was opened. */
export interface KeyUse {
  readonly key: ApiKey;
  /** When it was last accepted, in milliseconds since 1970 UTC. */
  readonly lastUsedAt: number | undefined;
  /** The number of accepted requests. */
  readonly uses: number;
  /** The number of requests over the key's rate since its grants last changed. */
  readonly overRate: number;
}

/** Interval between two reads for unknown keys, in milliseconds. */
const LOOK_AGAIN_MS = 20;
/**
 * The hash to compare with if no such key exists, so that an unknown key id costs as much as a known one.
 */
const NO_HASH = new Uint8Array(32);

/** All API keys of a collector. */
export class KeyRing {
  readonly #store: KeyStore;
  readonly #options: KeyRingOptions;
  readonly #cacheSize: number;
  #entries = new Map<string, Entry>();
  /**
   * Maps the text of a proven key to its entry. The time of a look-up depends on the text, but reveals
   * nothing: V8 compares texts only when their hashes are equal, and seeds the hash per process.
   */
  readonly #proven = new Map<string, Entry>();
  /** The next read that callers of {@link lookAgain} wait for, until it begins. */
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
   * Reads all keys once. Call {@link start} to follow later changes. The caller closes the store, after
   * {@link stop}.
   * @throws KeyStoreError when the keys cannot be read.
   */
  static async open(store: KeyStore, options: KeyRingOptions = {}): Promise<KeyRing> {
    const ring = new KeyRing(store, options);
    await ring.#reload();
    return ring;
  }

  /**
   * @param presented the value of the X-API-Key header; undefined without the header.
   * @param nowMs the wall clock, in milliseconds since 1970 UTC.
   * @param counts whether this is a use: a request whose key is checked twice counts once.
   * @returns the principal of a valid key, or the reason for the refusal. Never throws, for any input.
   */
  authenticate(presented: string | undefined, nowMs: number, counts = true): Principal | KeyRefusal {
    if (presented === undefined || presented === '') return 'key_missing';
    // The length is checked first, because the text may have many kilobytes.
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
   * Reads the keys again if the store has changed. Calls during a read share its result.
   * @returns whether the ring is current; if not, `onFailure` was called with the reason. Never rejects.
   */
  refresh(): Promise<boolean> {
    this.#refreshing ??= this.#look().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  /**
   * Reads the store for a key that was refused as `key_invalid`: it may be newer than the last read. All
   * calls share the next read, which is at most {@link LOOK_AGAIN_MS} away, so that a sender cannot exhaust
   * reads.
   * @returns when a read that began after this call has ended. Never rejects.
   */
  lookAgain(): Promise<void> {
    this.#nextLook ??= this.#lookInTurn();
    return this.#nextLook;
  }

  async #lookInTurn(): Promise<void> {
    await sleep(Math.max(0, this.#lookedAt + LOOK_AGAIN_MS - performance.now()));
    // A read that has begun may have missed the key.
    await this.#refreshing;
    this.#lookedAt = performance.now();
    this.#nextLook = undefined;
    if (!this.#stopped) await this.refresh();
  }

  /** Reads the store every `pollMs` from now on, without keeping the process alive. */
  start(): void {
    this.#timer ??= setInterval(() => {
      this.refresh().catch((error: unknown) => this.#options.onFailure?.(error));
    }, this.#options.pollMs ?? 250).unref();
  }

  /** Stops reading. On return no read is in progress, so the store can be closed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#refreshing;
  }

  /** Whether the last read of the keys succeeded. */
  get current(): boolean {
    return !this.#failing;
  }

  /** Every key, including revoked and expired ones, in the order of creation. */
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
    // A key that is no longer stored must be dropped here; the others return at the cost of one hash each.
    this.#proven.clear();
  }
}

/* Keys as operators see them. */

/** A key and its use since the start, without its hash. */
export type KeyState = Pick<
  ApiKey,
  'keyId' | 'organisation' | 'note' | 'createdAt' | 'expiresAt' | 'revokedAt' | 'replacedBy'
> &
  Omit<KeyUse, 'key'>;

/**
 * Maximum number of keys that are shown. More lines would be of no use and would cost the monitoring system
 * more than all other metrics.
 */
export const MOST_KEYS = 1000;

/** Usable keys before unusable ones, each in the order of creation; at most {@link MOST_KEYS}. */
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

/** A key counts as in use for this time after its last use. Senders change to a new key sooner. */
const IN_USE_MS = 60 * 60_000;

/** Whether the key was used within the last hour. */
export function isInUse({ lastUsedAt }: KeyState, now: number): boolean {
  return lastUsedAt !== undefined && now - lastUsedAt < IN_USE_MS;
}
