/** Whatever people do, in whatever order, a page is shown only by a role that their groups give now. */
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { runs } from '../../../../test/property-runs.js';
import { ROLES, type Role } from '../../src/contract.js';
import { Browser } from './browser.js';
import { type TestProvider, startProvider } from './provider.js';
import { ROLES_FILE, type TestViewer, acts, read, startViewer } from './viewer.js';

const GROUPS = ['ai-safety', 'doctors', 'audit', 'on-call', 'porters'] as const;
const NAMES = ['ada', 'ben'] as const;
const MINUTE = 60_000;

const step = fc.oneof(
  fc.record({ does: fc.constant('login' as const), who: fc.constantFrom(...NAMES), tab: fc.nat(1) }),
  fc.record({ does: fc.constant('swap' as const), tab: fc.nat(1) }),
  fc.record({
    does: fc.constant('groups' as const),
    who: fc.constantFrom(...NAMES),
    groups: fc.subarray([...GROUPS]),
  }),
  fc.record({ does: fc.constant('disable' as const), who: fc.constantFrom(...NAMES), is: fc.boolean() }),
  fc.record({ does: fc.constant('wait' as const), minutes: fc.integer({ min: 1, max: 16 }) }),
  fc.record({ does: fc.constant('reason' as const), tab: fc.nat(1), isLong: fc.boolean() }),
  fc.record({ does: fc.constant('out' as const), tab: fc.nat(1) }),
  fc.record({ does: fc.constant('look' as const), tab: fc.nat(1) }),
);

type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never;

/** Has every role, whatever the other sequences have. */
const EVERY_ROLE: Step[] = [
  { does: 'login', who: 'ada', tab: 0 },
  { does: 'reason', tab: 0, isLong: true },
];

/** Roles that some sequence had: without them, the property would say nothing. */
const shown = new Set<Role>();
let provider: TestProvider | undefined;
let viewer: TestViewer | undefined;
afterAll(async () => {
  await viewer?.close();
  await provider?.close();
});

async function start(): Promise<{ provider: TestProvider; viewer: TestViewer }> {
  viewer ??= await startViewer(async (url) => {
    provider = await startProvider({ viewer: url, accounts: { ada: { groups: [] }, ben: { groups: [] } } });
    const { issuer, clientId, clientSecret } = provider;
    return { kind: 'oidc', issuer, clientId, clientSecret, groupsClaim: 'groups' };
  });
  if (provider === undefined) throw new Error('no provider');
  return { viewer, provider };
}

/** What the test knows about a browser: who signed in, the groups that may still count, the last reason. */
interface Known {
  browser: Browser;
  who: (typeof NAMES)[number] | undefined;
  reasonAt: number;
}

test('[R-2047] no sequence of requests gives a role that the groups do not give', async () => {
  const at = await start();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 25 }), async (steps) => {
      // The times at which a group was last given, by name and group; Infinity while it is given.
      const given = new Map<string, number>();
      const tabs: Known[] = [0, 1].map(() => ({
        browser: new Browser(),
        who: undefined,
        reasonAt: -Infinity,
      }));
      for (const who of NAMES) await take({ does: 'groups', who, groups: [...GROUPS] }, at, tabs, given);
      for (const who of NAMES) await take({ does: 'disable', who, is: false }, at, tabs, given);
      for (const each of steps) await take(each, at, tabs, given);
      for (const tab of [0, 1]) await take({ does: 'look', tab }, at, tabs, given);
    }),
    { numRuns: runs(300), examples: [[EVERY_ROLE]] },
  );
  expect([...shown].sort()).toEqual([...ROLES].sort());
});

async function take(
  each: Step,
  { viewer, provider }: { viewer: TestViewer; provider: TestProvider },
  tabs: readonly Known[],
  given: Map<string, number>,
): Promise<void> {
  const tab = 'tab' in each ? tabs[each.tab] : undefined;
  const account = 'who' in each ? provider.accounts[each.who] : undefined;
  switch (each.does) {
    case 'wait':
      viewer.now += each.minutes * MINUTE;
      return;
    case 'groups':
      for (const group of GROUPS) {
        const key = `${each.who} ${group}`;
        if (each.groups.includes(group)) given.set(key, Infinity);
        else if (given.get(key) === Infinity) given.set(key, viewer.now);
      }
      if (account !== undefined) account.groups = each.groups;
      return;
    case 'disable':
      if (account !== undefined) account.disabled = each.is;
      return;
  }
  if (tab === undefined) return;
  const page = (path: string) => new URL(path, viewer.url);
  if (each.does === 'login') {
    const fresh = new Browser();
    const got = await fresh.get(await fresh.callbackOf(viewer.url, each.who)).catch(() => undefined);
    if (got?.status !== 200) return;
    Object.assign(tab, { browser: fresh, who: each.who, reasonAt: -Infinity });
  } else if (each.does === 'swap') {
    // A cookie of the other browser under another's login cookie.
    tab.browser.cookies.set(`${viewer.cookie}-login`, 'A'.repeat(43));
  } else if (each.does === 'reason') {
    const shown = await tab.browser.get(page('/break-glass'));
    const token = shown.status === 200 ? String(read(shown)['formToken']) : 'none';
    const reason = each.isLong ? 'the patient cannot wait' : 'short';
    const got = await tab.browser.post(page('/break-glass'), { form_token: token, reason });
    if (got.status === 303) tab.reasonAt = viewer.now;
    expect(got.status === 303 && !each.isLong).toBe(false);
  } else if (each.does === 'out') {
    const root = await tab.browser.get(viewer.url);
    const only = root.headers.get('location');
    const got = only === null ? root : await tab.browser.get(page(`${only}/admitted`));
    const answer = (got.status === 200 ? read(got) : {}) as {
      readonly signOutToken?: string;
      readonly admitted?: { readonly signOutToken: string };
    };
    const token = answer.signOutToken ?? answer.admitted?.signOutToken ?? 'none';
    const out = await tab.browser.post(page('/sign-out'), { form_token: token });
    if (out.status === 200) tab.who = undefined;
  }
  for (const role of ROLES) await look(role, tab, viewer, given);
}

async function look(role: Role, tab: Known, viewer: TestViewer, given: Map<string, number>): Promise<void> {
  const answer = acts(await tab.browser.get(new URL(`/${role}/runs`, viewer.url)));
  if (answer.role === undefined) return;
  shown.add(role);
  expect(answer.role).toBe(role);
  expect(answer.person?.name).toBe(tab.who);
  const groups = ROLES_FILE.roles.find((each) => each.role === role)?.groups ?? [];
  // Groups are checked again after five minutes.
  const isGiven = groups.some(
    (group) => viewer.now - (given.get(`${tab.who ?? ''} ${group}`) ?? -Infinity) < 5 * MINUTE,
  );
  expect(isGiven, `${role} of ${tab.who ?? 'a stranger'}`).toBe(true);
  if (role === 'break-glass') expect(viewer.now - tab.reasonAt).toBeLessThan(15 * MINUTE);
}
