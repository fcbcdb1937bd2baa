import { expect, test } from 'vitest';
import type { LedgerState } from '../../src/ledger/ledger.js';
import { NotCommitted, type StorageReason } from '../../src/store/contract/events.js';
import { healthOf, healthText, isLive, isReady } from '../../src/operate/health.js';
import type { Phase } from '../../src/operate/snapshot.js';
import { holding, SHARED, WELL } from './well.js';

interface Given {
  readonly phase?: Phase;
  readonly state?: LedgerState;
  readonly reason?: StorageReason;
  /** How long the thread of the ledger has been silent; undefined: it was never open. */
  readonly silent?: number | undefined;
}

function health(given: Given = {}): ReturnType<typeof healthOf> {
  const { phase, state, reason, silent }: Given = {
    ...{ phase: 'running', state: 'open', silent: 100 },
    ...given,
  };
  return healthOf({
    ...WELL,
    phase,
    ledgerLivedAt: silent === undefined ? undefined : WELL.monotonic - silent,
    storage: { state, reason },
  });
}

function failing(checks: ReturnType<typeof healthOf>): string[] {
  return checks.flatMap(({ name, failure }) => (failure ? [name] : []));
}

test('[R-832] a collector is ready when nothing fails', () => {
  const checks = health();
  expect([isLive(checks), isReady(checks)]).toEqual([true, true]);
  expect(healthText('readyz', checks)).toBe(
    '[+]http_thread ok\n[+]startup ok\n[+]shutdown ok\n[+]ledger_thread ok\n[+]storage ok\nreadyz check passed\n',
  );
});

test.each([
  [{ phase: 'starting', silent: undefined }, 'startup'],
  [{ phase: 'stopping' }, 'shutdown'],
  [{ silent: 10_001 }, 'ledger_thread'],
  [{ state: 'refusing' }, 'storage'],
  [{ state: 'failed' }, 'storage'],
] as const)('[R-604] [R-832] with %o it is live, and not ready because of %s', (facts, name) => {
  const checks = health(facts);
  expect([isLive(checks), isReady(checks)]).toEqual([true, false]);
  expect(failing(checks)).toEqual([name]);
  expect(healthText('livez', checks)).toContain('livez check passed');
  expect(healthText('readyz', checks)).toContain(`[-]${name} failed: `);
});

test('[R-1323] each reason has a fixed cause', () => {
  const causes = (given: Given) => health(given).flatMap(({ failure }) => failure?.cause ?? []);
  expect(causes({ phase: 'starting', silent: undefined })).toEqual(['starting']);
  expect(causes({ phase: 'stopping' })).toEqual(['stopping']);
  expect(causes({ silent: 10_001 })).toEqual(['silent_thread']);
  expect(causes({ state: 'failed' })).toEqual(['ledger_failed']);
  expect(causes({ state: 'refusing' })).toEqual(['write_failed']);
  expect(causes({ state: 'refusing', reason: 'disk_full' })).toEqual(['disk_full']);
  const code = (name: string) =>
    new NotCommitted('x', { cause: Object.assign(new Error('x'), { code: name }) });
  expect(['ENOSPC', 'EROFS', 'EACCES', 'EIO'].map((name) => code(name).reason)).toEqual([
    ...['disk_full', 'read_only', 'permission_denied', 'write_failed'],
  ]);
});

test('[R-1435] it is live and not ready while nothing can be signed', () => {
  const at = (stalledMs: number) => healthOf({ ...WELL, ...holding({ shared: { ...SHARED, stalledMs } }) });
  expect(isReady(at(4999))).toBe(true);
  expect([isLive(at(7300)), failing(at(7300))]).toEqual([true, ['signing']]);
  expect(healthText('readyz', at(7300))).toContain(
    '[-]signing failed: nothing is signed: the oldest batch has waited to be sequenced for 7 seconds',
  );
});

test('[R-832] a thread that is silent for a minute fails /livez', () => {
  expect(isLive(health({ silent: 60_000 }))).toBe(true);
  const checks = health({ silent: 60_001 });
  expect(isLive(checks)).toBe(false);
  expect(healthText('livez', checks)).toContain('[-]ledger_thread failed');
  // While it is being opened or closed, it is not checked.
  expect(isLive(health({ phase: 'stopping', silent: 60_001 }))).toBe(true);
  expect(isLive(health({ phase: 'starting', silent: 60_001 }))).toBe(true);
});

test('[R-832] the thread that takes events is checked too: silent for five seconds, it fails /livez', () => {
  const silent = (silentMs: number) => healthOf({ ...WELL, silentMs });
  expect([isLive(silent(5000)), isReady(silent(5000))]).toEqual([true, true]);
  expect([isLive(silent(5001)), failing(silent(5001))]).toEqual([false, ['http_thread']]);
});
