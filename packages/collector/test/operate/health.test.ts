import { expect, test } from 'vitest';
import type { LedgerState } from '../../src/ledger/ledger.js';
import { healthOf, healthText, isLive, isReady } from '../../src/operate/state.js';
import type { Phase } from '../../src/operate/status.js';

const NOW = 1e6;

interface Given {
  readonly phase?: Phase;
  readonly state?: LedgerState;
  /** For so long the ledger's thread has said nothing; undefined: it was never open. */
  readonly silent?: number | undefined;
}

function health(given: Given = {}): ReturnType<typeof healthOf> {
  const { phase, state, silent }: Given = {
    ...{ phase: 'running', state: 'open', silent: 100 },
    ...given,
  };
  return healthOf(
    {
      phase: () => phase,
      ledgerLivedAt: () => (silent === undefined ? undefined : NOW - silent),
      ingest: { storage: { state } } as never,
    },
    NOW,
  );
}

function failing(checks: ReturnType<typeof healthOf>): string[] {
  return checks.flatMap(({ name, failure }) => (failure ? [name] : []));
}

test('[R-832] it is ready when nothing fails', () => {
  const checks = health();
  expect([isLive(checks), isReady(checks)]).toEqual([true, true]);
  expect(healthText('readyz', checks)).toBe(
    '[+]startup ok\n[+]shutdown ok\n[+]ledger_thread ok\n[+]storage ok\nreadyz check passed\n',
  );
});

test.each([
  [{ phase: 'starting', silent: undefined }, 'startup'],
  [{ phase: 'stopping' }, 'shutdown'],
  [{ silent: 10_001 }, 'ledger_thread'],
  [{ state: 'refusing' }, 'storage'],
  [{ state: 'failed' }, 'storage'],
] as const)('[R-610] [R-832] with %o it lives, and is not ready because of %s', (facts, name) => {
  const checks = health(facts);
  expect([isLive(checks), isReady(checks)]).toEqual([true, false]);
  expect(failing(checks)).toEqual([name]);
  expect(healthText('livez', checks)).toContain('livez check passed');
  expect(healthText('readyz', checks)).toContain(`[-]${name} failed: `);
});

test('[R-832] a thread that says nothing for a minute wants a new start', () => {
  expect(isLive(health({ silent: 60_000 }))).toBe(true);
  const checks = health({ silent: 60_001 });
  expect(isLive(checks)).toBe(false);
  expect(healthText('livez', checks)).toContain('[-]ledger_thread failed');
  // While it is being opened, or closes, no one asks it.
  expect(isLive(health({ phase: 'stopping', silent: 60_001 }))).toBe(true);
  expect(isLive(health({ phase: 'starting', silent: 60_001 }))).toBe(true);
});
