/** Logins by OpenID Connect: authorization code with PKCE; groups are checked again during a session. */
import * as client from 'openid-client';
import { isObject } from '@clinical-events/protocol';
import type { Person } from '../contract.js';
import { isName } from './proxy.js';
import type { PeopleLog } from './roles.js';
import { isSame, sha256 } from './tokens.js';

const TRANSACTION_MS = 10 * 60_000;
const MOST_TRANSACTIONS = 1000;
const RECHECK_MS = 5 * 60_000;
const LONGEST_AWAY_MS = 15 * 60_000;
/** Between two attempts to reach a provider that is away. */
const RETRY_MS = 5000;
const REDISCOVER_MS = 3_600_000;
const TIMEOUT_SECONDS = 5;
const MOST_GROUPS = 1000;
/** A longer hint would not fit into an address. */
const LONGEST_HINT = 4000;
/** Entra ID gives a refresh token, by which groups are checked again, only for this scope. */
const ENTRA = 'https://login.microsoftonline.com';

export interface ProviderOptions {
  readonly issuer: URL;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly groupsClaim: string;
  readonly callerClaim: () => string;
  /** The address of the viewer. */
  readonly url: () => URL;
  readonly log: PeopleLog;
  readonly clock: () => number;
}

/** What a login gave, kept in memory with the session. */
export interface ProviderLogin {
  readonly subject: string;
  /** Claims other than groups, so that a later answer need not repeat them. */
  readonly claims: Claims;
  readonly groupsFrom: 'id token' | 'userinfo';
  access: { readonly token: string; readonly until: number };
  refreshToken: string | undefined;
  idToken: string | undefined;
  /** The time of the last answer of the provider about the person, and of the next attempt. */
  checkedAt: number;
  nextAt: number;
  checking: Promise<Checked> | undefined;
}

type Claims = Readonly<Record<string, unknown>>;

/** The person as the provider knows him now, or a sentence if the session ends. */
export type Checked = { readonly person: Person } | { readonly ended: string };

interface Transaction {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  /** SHA-256 of the cookie of the browser that began it. */
  readonly browser: string;
  readonly until: number;
}

/** A login that fails; the message is a sentence for the person, without text of the provider. */
export class LoginRefused extends Error {
  override name = 'LoginRefused';
  constructor(
    message: string,
    /** For the log. */
    readonly code: string,
    readonly status: 403 | 503 = 403,
  ) {
    super(message);
  }
}

const AWAY = 'The login provider cannot be reached now. Try again in a minute.';

export class Provider {
  readonly #options: ProviderOptions;
  readonly #transactions = new Map<string, Transaction>();
  #config: { readonly config: client.Configuration; readonly at: number } | undefined;
  #discovering: Promise<void> | undefined;
  #failedAt: number | undefined;
  #problem = AWAY;

  constructor(options: ProviderOptions) {
    this.#options = options;
  }

  /** The host of the provider, for people. */
  get host(): string {
    return this.#options.issuer.host;
  }

  /**
   * Finds the provider if it was not found yet, or some time ago.
   * @returns a sentence if it cannot be used now.
   */
  async prepare(): Promise<string | undefined> {
    const now = this.#options.clock();
    const known = this.#config !== undefined && Math.abs(now - this.#config.at) < REDISCOVER_MS;
    const waits = this.#failedAt !== undefined && Math.abs(now - this.#failedAt) < RETRY_MS;
    if (!known && !waits) {
      this.#discovering ??= this.#discover().finally(() => (this.#discovering = undefined));
      await this.#discovering;
    }
    return this.#config === undefined ? this.#problem : undefined;
  }

  async #discover(): Promise<void> {
    const { issuer, clientId, clientSecret, clock, log } = this.#options;
    try {
      // Over TLS the library takes ID tokens unverified; these checks verify each signature.
      const execute = [client.enableNonRepudiationChecks];
      // The options permit http for loopback alone.
      // eslint-disable-next-line @typescript-eslint/no-deprecated -- deprecated only to stand out
      if (issuer.protocol === 'http:') execute.push(client.allowInsecureRequests);
      const options = { execute, timeout: TIMEOUT_SECONDS };
      const config = await client.discovery(issuer, clientId, clientSecret, undefined, options);
      const { issuer: found } = config.serverMetadata();
      // The library permits Entra ID's issuer for all tenants, by which anyone could sign in.
      if (!URL.canParse(found) || new URL(found).href !== issuer.href) {
        this.#problem =
          'The login provider has another address than the viewer expects. Ask the administrator.';
        throw new LoginRefused(this.#problem, 'issuer of the discovery differs');
      }
      this.#config = { config, at: clock() };
      this.#failedAt = undefined;
      this.#problem = AWAY;
    } catch (error) {
      this.#failedAt = clock();
      if (!(error instanceof LoginRefused)) this.#problem = AWAY;
      log.warn({ provider: this.host, code: codeOf(error) }, 'the login provider cannot be used');
    }
  }

  /**
   * Begins a login.
   * @param browser the value of the cookie that binds the login to the browser.
   * @returns the address at the provider.
   * @throws LoginRefused if the provider is away.
   */
  async begin(browser: string): Promise<URL> {
    const config = await this.#ready();
    const { url, clock, issuer, groupsClaim } = this.#options;
    const now = clock();
    for (const { state, until } of this.#transactions.values())
      if (now >= until || this.#transactions.size >= MOST_TRANSACTIONS) this.#transactions.delete(state);
      else break;
    const transaction: Transaction = {
      state: client.randomState(),
      nonce: client.randomNonce(),
      verifier: client.randomPKCECodeVerifier(),
      browser: sha256(browser),
      until: now + TRANSACTION_MS,
    };
    this.#transactions.set(transaction.state, transaction);
    const scopes = ['openid', 'profile', 'email'];
    if (config.serverMetadata().scopes_supported?.includes(groupsClaim)) scopes.push(groupsClaim);
    if (issuer.origin === ENTRA) scopes.push('offline_access');
    return client.buildAuthorizationUrl(config, {
      redirect_uri: new URL('/sign-in/callback', url()).href,
      scope: scopes.join(' '),
      state: transaction.state,
      nonce: transaction.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(transaction.verifier),
      code_challenge_method: 'S256',
    });
  }

  /**
   * Ends a login by the provider's answer. Each login ends once, whatever its end.
   * @param query of the callback, without its question mark.
   * @throws LoginRefused
   */
  async finish(
    query: string,
    browser: string | undefined,
  ): Promise<{ readonly person: Person; readonly login: ProviderLogin }> {
    const { state, nonce, verifier } = this.#transactionOf(
      new URLSearchParams(query).getAll('state'),
      browser,
    );
    const config = await this.#ready();
    const current = new URL(`/sign-in/callback?${query}`, this.#options.url());
    try {
      const tokens = await client.authorizationCodeGrant(config, current, {
        ...{ expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true },
      });
      return await this.#loginFrom(config, tokens);
    } catch (error) {
      throw refusedFrom(error);
    }
  }

  #transactionOf(states: readonly string[], browser: string | undefined): Transaction {
    const [state = ''] = states;
    const transaction = states.length === 1 ? this.#transactions.get(state) : undefined;
    this.#transactions.delete(state);
    if (transaction === undefined || this.#options.clock() >= transaction.until)
      throw new LoginRefused(
        'This login is too old, or it was used before. Sign in again.',
        transaction === undefined ? 'unknown state' : 'expired transaction',
      );
    if (browser === undefined || !isSame(sha256(browser), transaction.browser))
      throw new LoginRefused('This login was begun in another browser. Sign in again here.', 'other browser');
    return transaction;
  }

  async #ready(): Promise<client.Configuration> {
    const problem = await this.prepare();
    if (this.#config === undefined) throw new LoginRefused(problem ?? AWAY, 'no provider', 503);
    return this.#config.config;
  }

  async #loginFrom(
    config: client.Configuration,
    tokens: Tokens,
  ): Promise<{ person: Person; login: ProviderLogin }> {
    const claims = tokens.claims();
    if (claims === undefined) throw new LoginRefused(NOT_VALID, 'no id token');
    const { groupsClaim, clock } = this.#options;
    const inToken = groupsClaim in claims || hasOverage(claims, groupsClaim);
    let info: Claims | undefined;
    try {
      if (config.serverMetadata().userinfo_endpoint !== undefined)
        info = await client.fetchUserInfo(config, tokens.access_token, claims.sub);
    } catch (error) {
      // Some providers grant no userinfo; a token with the groups is enough.
      if (!inToken || !isAway(error)) throw error;
    }
    const groupsFrom = inToken && (info === undefined || !(groupsClaim in info)) ? 'id token' : 'userinfo';
    const all = { ...info, ...claims };
    const person = this.#personFrom(all, groupsFrom === 'userinfo' ? (info ?? {}) : claims);
    const now = clock();
    return {
      person,
      login: {
        ...{ subject: claims.sub, claims: without(all, groupsClaim), groupsFrom },
        access: accessOf(tokens, now),
        ...{ refreshToken: tokens.refresh_token, idToken: tokens.id_token },
        ...{ checkedAt: now, nextAt: now + RECHECK_MS, checking: undefined },
      },
    };
  }

  /** @throws LoginRefused if the groups are not stated as a list. */
  #personFrom(claims: Claims, ofGroups: Claims): Person {
    const { groupsClaim, callerClaim } = this.#options;
    if (hasOverage(ofGroups, groupsClaim)) throw new LoginRefused(OVERAGE, 'groups overage');
    const stated = ofGroups[groupsClaim] ?? [];
    const groups = [stated].flat();
    if (groups.length > MOST_GROUPS || !groups.every((group) => typeof group === 'string'))
      throw new LoginRefused(
        'The viewer cannot read your groups as the login provider states them. Ask the administrator.',
        'groups are not a list of texts',
      );
    const text = (claim: string) => {
      const value = claims[claim];
      return typeof value === 'string' && isName(value) ? value : undefined;
    };
    const name = text('preferred_username') ?? text('email') ?? text('sub');
    if (name === undefined) throw new LoginRefused(NOT_VALID, 'no name');
    return { kind: 'oidc', name, callerId: text(callerClaim()), groups };
  }

  /**
   * The person as the provider knows him, asked again after five minutes.
   * @param person as known.
   */
  async check(login: ProviderLogin, person: Person): Promise<Checked> {
    const { clock } = this.#options;
    const now = clock();
    // A clock that was set back would delay the check.
    if (now < login.nextAt && now >= login.checkedAt) return { person };
    login.checking ??= this.#ask(login, person).finally(() => (login.checking = undefined));
    return await login.checking;
  }

  async #ask(login: ProviderLogin, person: Person): Promise<Checked> {
    const { clock, log } = this.#options;
    try {
      const config = await this.#ready();
      const claims = await this.#claimsAgain(config, login);
      const again = this.#personFrom(
        { ...login.claims, ...without(claims, this.#options.groupsClaim) },
        claims,
      );
      login.checkedAt = clock();
      login.nextAt = login.checkedAt + RECHECK_MS;
      return { person: again };
    } catch (error) {
      log.warn({ code: codeOf(error) }, 'the groups of a session could not be checked');
      if (!isAway(error)) return { ended: error instanceof LoginRefused ? error.message : ENDED };
      if (clock() - login.checkedAt >= LONGEST_AWAY_MS)
        return { ended: 'The login provider could not be reached for 15 minutes, so you are signed out.' };
      login.nextAt = clock() + RETRY_MS;
      return { person };
    }
  }

  /** The claims that state the groups, new from the provider. */
  async #claimsAgain(config: client.Configuration, login: ProviderLogin): Promise<Claims> {
    const { clock } = this.#options;
    const fromInfo = login.groupsFrom === 'userinfo';
    if (fromInfo && (clock() < login.access.until || login.refreshToken === undefined)) {
      try {
        return await client.fetchUserInfo(config, login.access.token, login.subject);
      } catch (error) {
        if (isAway(error) || login.refreshToken === undefined) throw error;
      }
    }
    if (login.refreshToken === undefined) throw new LoginRefused(UNCONFIRMED, 'no refresh token');
    const tokens = await client.refreshTokenGrant(config, login.refreshToken);
    login.refreshToken = tokens.refresh_token ?? login.refreshToken;
    login.idToken = tokens.id_token ?? login.idToken;
    login.access = accessOf(tokens, clock());
    const claims = tokens.claims();
    if (claims !== undefined && claims.sub !== login.subject) throw new LoginRefused(ENDED, 'other subject');
    if (fromInfo) return await client.fetchUserInfo(config, login.access.token, login.subject);
    if (claims === undefined) throw new LoginRefused(UNCONFIRMED, 'no id token at refresh');
    return claims;
  }

  /** Where the person signs out at the provider; undefined if there is no such place. */
  signOutUrl(login: ProviderLogin): URL | undefined {
    if (this.#config?.config.serverMetadata().end_session_endpoint === undefined) return undefined;
    const { idToken } = login;
    const to = client.buildEndSessionUrl(this.#config.config, {
      post_logout_redirect_uri: new URL('/sign-in', this.#options.url()).href,
      ...(idToken !== undefined && idToken.length <= LONGEST_HINT && { id_token_hint: idToken }),
    });
    return /^https?:$/.test(to.protocol) ? to : undefined;
  }
}

type Tokens = client.TokenEndpointResponse & client.TokenEndpointResponseHelpers;

const UNKNOWN_VIEWER =
  'The login provider does not accept the viewer’s own id or secret. Ask the administrator.';
const NOT_VALID = 'The answer of the login provider is not valid, so you are not signed in. Try again.';
const ENDED = 'The login provider no longer confirms your login, so you are signed out. Sign in again.';
const UNCONFIRMED = 'Your groups could not be checked again, so you are signed out. Sign in again.';
const OVERAGE =
  'You are in more groups than the login provider sends. The administrator can use app roles, or send ' +
  'only the groups that are assigned to the application.';

function accessOf(tokens: Tokens, now: number): ProviderLogin['access'] {
  const seconds = tokens.expiresIn();
  return { token: tokens.access_token, until: seconds === undefined ? Infinity : now + seconds * 1000 };
}

/** Entra ID sends a reference in place of more than 200 groups. */
function hasOverage(claims: Claims, groupsClaim: string): boolean {
  const names = claims['_claim_names'];
  return isObject(names) && groupsClaim in names;
}

function without(claims: Claims, name: string): Claims {
  return Object.fromEntries(
    Object.entries(claims).filter(([each]) => each !== name && each !== '_claim_names'),
  );
}

/** Whether the provider did not answer, or not about the person. */
function isAway(error: unknown): boolean {
  if (error instanceof LoginRefused) return error.status === 503;
  if (error instanceof client.ResponseBodyError)
    return error.status >= 500 || error.error === 'invalid_client';
  if (error instanceof client.WWWAuthenticateChallengeError)
    return error.status >= 500 || error.status === 429;
  if (error instanceof client.ClientError) return error.code === undefined || AWAY_CODES.includes(error.code);
  return !(error instanceof client.AuthorizationResponseError);
}

const AWAY_CODES = [
  'OAUTH_TIMEOUT',
  'OAUTH_ABORT',
  'OAUTH_RESPONSE_IS_NOT_CONFORM',
  'OAUTH_RESPONSE_IS_NOT_JSON',
];

function refusedFrom(error: unknown): LoginRefused {
  if (error instanceof LoginRefused) return error;
  const code = codeOf(error);
  if (error instanceof client.AuthorizationResponseError)
    return error.error === 'access_denied'
      ? new LoginRefused('The login provider did not let you sign in.', code)
      : new LoginRefused(
          `The login provider refused the login${isWord(error.error) ? ` (${error.error})` : ''}.`,
          code,
        );
  if (code === 'invalid_client') return new LoginRefused(UNKNOWN_VIEWER, code, 503);
  return isAway(error) ? new LoginRefused(AWAY, code, 503) : new LoginRefused(NOT_VALID, code);
}

function isWord(text: string): boolean {
  return /^[a-z_]{1,40}$/.test(text);
}

/** A fixed word about an error: no text of a provider, no token. */
function codeOf(error: unknown): string {
  if (error instanceof LoginRefused) return error.code;
  if (error instanceof client.ResponseBodyError || error instanceof client.AuthorizationResponseError)
    return isWord(error.error) ? error.error : error.code;
  for (let each = error; each instanceof Error; each = each.cause)
    if ('code' in each && typeof each.code === 'string') return each.code;
  return error instanceof Error ? error.name : 'unknown';
}
