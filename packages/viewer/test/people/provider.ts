/** A real OpenID provider on loopback, with a login form that a browser or `fetch` fills. */
import { type KeyObject, generateKeyPairSync, sign } from 'node:crypto';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import { Provider } from 'oidc-provider';
import { freePort } from '../../../../test/free-port.js';

interface Account {
  groups: readonly string[];
  /** The provider no longer knows a disabled account. */
  disabled?: boolean;
  /** In place of, or in addition to, the claims that come from the name. */
  claims?: Readonly<Record<string, unknown>>;
}

export interface ProviderSettings {
  /** The address of the viewer. */
  readonly viewer: URL;
  /** By the name that is typed into the form; any password is accepted. */
  readonly accounts: Readonly<Record<string, Account>>;
  readonly refreshTokens?: boolean;
  /** Whether groups are in the ID token, and not in userinfo alone. */
  readonly groupsInIdToken?: boolean;
  readonly accessSeconds?: number;
  /** `localhost` is another site than the viewer's 127.0.0.1 for a browser. */
  readonly host?: 'localhost' | '127.0.0.1';
}

export interface TestProvider {
  readonly issuer: URL;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Changes take effect immediately. */
  readonly accounts: Record<string, Account>;
  /** Changes the claims of ID tokens, or signs them by another key. */
  forge: { readonly claims?: Readonly<Record<string, unknown>>; readonly otherKey?: boolean } | undefined;
  /** Answers of userinfo leave the groups out. */
  userinfoWithoutGroups: boolean;
  down(): Promise<void>;
  up(): Promise<void>;
  close(): Promise<void>;
}

const CLIENT = { clientId: 'viewer', clientSecret: 'secret-of-the-client-of-the-tests' };
const own = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const other = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;

export async function startProvider(settings: ProviderSettings): Promise<TestProvider> {
  const port = await freePort();
  const issuer = new URL(`http://${settings.host ?? '127.0.0.1'}:${port}/`);
  const accounts = structuredClone(settings.accounts) as Record<string, Account>;
  const provider = new Provider(issuer.origin, configurationOf(settings, accounts));
  let server: Server | undefined;
  const controls: TestProvider = {
    ...{ issuer, ...CLIENT, accounts, forge: undefined, userinfoWithoutGroups: false },
    async down() {
      const closing = server;
      server = undefined;
      closing?.closeAllConnections();
      await new Promise((resolve) => (closing === undefined ? resolve(undefined) : closing.close(resolve)));
    },
    async up() {
      const answer = provider.callback();
      const started = createServer((request, response) => {
        const [, uid] = /^\/interaction\/([\w-]+)$/.exec(request.url ?? '') ?? [];
        if (uid === undefined) answer(request, response);
        else interact(provider, request, response).catch(() => response.writeHead(500).end());
      });
      server = started;
      await new Promise<void>((resolve) => started.listen(port, '127.0.0.1', resolve));
    },
    close: () => controls.down(),
  };
  provider.use(async (context, next) => {
    await next();
    const body = context.body as Record<string, unknown> | undefined;
    if (
      context.oidc?.route === 'token' &&
      typeof body?.['id_token'] === 'string' &&
      controls.forge !== undefined
    )
      context.body = { ...body, id_token: forged(body['id_token'], controls.forge) };
    if (context.oidc?.route === 'userinfo' && controls.userinfoWithoutGroups && body !== undefined)
      context.body = Object.fromEntries(Object.entries(body).filter(([name]) => name !== 'groups'));
  });
  await controls.up();
  return controls;
}

function configurationOf(settings: ProviderSettings, accounts: Readonly<Record<string, Account>>) {
  const { viewer, refreshTokens = true, groupsInIdToken = false, accessSeconds = 3600 } = settings;
  return {
    clients: [
      {
        ...{ client_id: CLIENT.clientId, client_secret: CLIENT.clientSecret },
        redirect_uris: [new URL('/sign-in/callback', viewer).href],
        post_logout_redirect_uris: [new URL('/sign-in', viewer).href],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
      },
    ],
    jwks: { keys: [{ ...own.export({ format: 'jwk' }), kid: 'own', alg: 'RS256', use: 'sig' }] },
    cookies: { keys: ['of the tests'] },
    scopes: ['openid', 'profile', 'email', 'groups'],
    claims: { profile: ['preferred_username', '_claim_names'], email: ['email'], groups: ['groups'] },
    conformIdTokenClaims: !groupsInIdToken,
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_: unknown, { uid }: { readonly uid: string }) => `/interaction/${uid}` },
    issueRefreshToken: () => refreshTokens,
    ttl: {
      AccessToken: accessSeconds,
      IdToken: 3600,
      Session: 86_400,
      Grant: 86_400,
      RefreshToken: 86_400,
      Interaction: 600,
    },
    pkce: { required: () => true },
    findAccount: (_: unknown, sub: string) => {
      const account = accounts[sub];
      if (account === undefined || account.disabled === true) return undefined;
      return {
        accountId: sub,
        claims: () => ({
          ...{ sub, preferred_username: sub, email: `${sub}@example.org`, groups: account.groups },
          ...account.claims,
        }),
      };
    },
    // The viewer is a client of the same organisation: it asks for no consent.
    async loadExistingGrant({ oidc }: { readonly oidc: OidcContext }) {
      const grant = new oidc.provider.Grant({
        ...{ accountId: oidc.session.accountId, clientId: oidc.client.clientId },
      });
      grant.addOIDCScope(oidc.params['scope'] ?? 'openid');
      await grant.save();
      return grant;
    },
  };
}

interface OidcContext {
  readonly provider: Provider;
  readonly client: { readonly clientId: string };
  readonly session: { readonly accountId: string };
  readonly params: Readonly<Record<string, string>>;
}

/** The login form, and its answer; the button `abort` cancels. */
async function interact(
  provider: Provider,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method !== 'POST') {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(
      `<!doctype html><html lang="en"><title>Provider</title><form method="post">
<label>Name <input name="login" autofocus></label>
<label>Password <input name="password" type="password"></label>
<button>Sign in</button> <button name="abort" value="yes">Cancel</button></form></html>`,
    );
    return;
  }
  let body = '';
  for await (const part of request) body += String(part);
  const form = new URLSearchParams(body);
  await provider.interactionFinished(
    request,
    response,
    form.has('abort')
      ? { error: 'access_denied', error_description: 'the person <b>cancelled</b>' }
      : { login: { accountId: form.get('login') ?? '' } },
  );
}

function forged(token: string, { claims, otherKey }: NonNullable<TestProvider['forge']>): string {
  const [header = '', payload = ''] = token.split('.');
  const read = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>;
  return signed(
    `${header}.${base64(JSON.stringify({ ...read, ...claims }))}`,
    otherKey === true ? other : own,
  );
}

function signed(text: string, key: KeyObject): string {
  return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64url');
}
