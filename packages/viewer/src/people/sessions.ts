/** Sessions in memory: their cookies, their ends, form tokens, and break-glass. */
import { createHmac, randomBytes } from 'node:crypto';
import type { Person } from '../contract.js';
import type { ProviderLogin } from './oidc.js';
import { isSame, isToken, newToken, sha256 } from './tokens.js';

const IDLE_MS = 15 * 60_000;
const LONGEST_MS = 12 * 3_600_000;
const SET_BACK_MS = 60_000;
const MOST = 10_000;
const MOST_PER_PERSON = 20;

export const BREAK_GLASS_MINUTES = 15;
export const LEAST_REASON = 10;
export const MOST_REASON = 1000;

export interface Session {
  /** SHA-256 of the id in the cookie. */
  readonly key: string;
  person: Person;
  readonly begunAt: number;
  usedAt: number;
  breakGlass: { readonly reason: string; readonly until: number } | undefined;
  /** Tokens of the provider, to check the groups again. */
  readonly login: ProviderLogin | undefined;
  readonly ofPerson: string;
}

export class Sessions {
  readonly #clock: () => number;
  readonly #secret = randomBytes(32);
  /** The session that was used longest ago comes first. */
  readonly #sessions = new Map<string, Session>();
  readonly #ofPersons = new Map<string, Set<Session>>();

  /** @param clock milliseconds since 1970 UTC. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Begins a session; its id is for the cookie alone. */
  begin(person: Person, login?: ProviderLogin): { readonly id: string; readonly session: Session } {
    const now = this.#clock();
    const id = newToken();
    const ofPerson = `${person.kind} ${person.name}`;
    const session: Session = {
      ...{ key: sha256(id), person, begunAt: now, usedAt: now, breakGlass: undefined, login, ofPerson },
    };
    this.#makeRoom(ofPerson);
    this.#sessions.set(session.key, session);
    const own = this.#ofPersons.get(ofPerson) ?? new Set();
    this.#ofPersons.set(ofPerson, own.add(session));
    return { id, session };
  }

  /** The session of a cookie, whose idle time begins again. */
  use(id: string | undefined): Session | undefined {
    if (id === undefined || !isToken(id)) return undefined;
    const session = this.#sessions.get(sha256(id));
    if (session === undefined) return undefined;
    if (!this.#isLive(session)) {
      this.end(session);
      return undefined;
    }
    session.usedAt = this.#clock();
    this.#sessions.delete(session.key);
    this.#sessions.set(session.key, session);
    return session;
  }

  end(session: Session): void {
    this.#sessions.delete(session.key);
    const own = this.#ofPersons.get(session.ofPerson);
    own?.delete(session);
    if (own?.size === 0) this.#ofPersons.delete(session.ofPerson);
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** The hidden field of a form. @param purpose the path that the form posts to. */
  formToken(session: Session, purpose: string): string {
    return createHmac('sha256', this.#secret).update(`${session.key} ${purpose}`).digest('base64url');
  }

  isFormToken(session: Session, purpose: string, given: unknown): boolean {
    return typeof given === 'string' && isSame(given, this.formToken(session, purpose));
  }

  /** Grants break-glass from now on. @param reason as `reasonFrom` returns it. */
  grant(session: Session, reason: string): void {
    session.breakGlass = { reason, until: this.#clock() + BREAK_GLASS_MINUTES * 60_000 };
  }

  /** The grant of break-glass; use does not prolong it. */
  granted(session: Session): { readonly reason: string; readonly until: number } | undefined {
    const { breakGlass } = session;
    if (breakGlass === undefined) return undefined;
    const left = breakGlass.until - this.#clock();
    // More is left than was granted if the clock was set back.
    if (left > 0 && left <= BREAK_GLASS_MINUTES * 60_000) return breakGlass;
    session.breakGlass = undefined;
    return undefined;
  }

  #isLive({ usedAt, begunAt }: Session): boolean {
    const now = this.#clock();
    // A clock that was set back would prolong a session.
    return now - usedAt > -SET_BACK_MS && now - usedAt < IDLE_MS && now - begunAt < LONGEST_MS;
  }

  #makeRoom(ofPerson: string): void {
    for (const session of this.#sessions.values()) {
      if (this.#sessions.size < MOST && this.#isLive(session)) break;
      this.end(session);
    }
    const own = this.#ofPersons.get(ofPerson);
    for (const session of own ?? []) {
      if ((own?.size ?? 0) < MOST_PER_PERSON) break;
      this.end(session);
    }
  }
}

/** The stated reason of break-glass, or why it is not accepted, as a sentence. */
export function reasonFrom(given: unknown): { readonly reason: string } | { readonly problem: string } {
  const reason = typeof given === 'string' ? given.replaceAll(/\s*[\r\n]\s*/g, ' ').trim() : '';
  const visible = reason.replaceAll(/[\p{Default_Ignorable_Code_Point}\p{Cf}\s]+/gu, ' ').trim();
  if (/\p{Cc}/u.test(reason)) return { problem: 'Write the reason without control characters.' };
  if (Array.from(visible).length < LEAST_REASON)
    return { problem: `Write a reason of at least ${LEAST_REASON} characters.` };
  if (Array.from(reason).length > MOST_REASON)
    return { problem: `Write a reason of at most ${MOST_REASON.toLocaleString('en')} characters.` };
  return { reason };
}
