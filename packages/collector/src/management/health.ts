/**
 * Whether the collector lives, and whether it should be sent events.
 *
 * It lives as long as its threads answer: a start anew helps against nothing else, least of all a full disk. It is
 * ready when an event sent now would most likely be stored.
 */
import type { ErrorCode } from '@clinical-events/protocol';
import type { Vitals } from './vitals.js';

export interface HealthCheck {
  readonly name: 'startup' | 'shutdown' | 'ledger_thread' | 'storage';
  /** Why it fails; undefined when it does not. */
  readonly failure: { readonly reason: string; readonly code: ErrorCode } | undefined;
  /** Whether a start anew would be the remedy. */
  readonly fatal: boolean;
}

/** A thread that waits for a slow disk is no reason to start anew; one that says nothing for so long is. */
const DEAD_AFTER_MS = 60_000;
const STALLED_AFTER_MS = 10_000;

/** @param now the monotonic clock, milliseconds. */
export function healthOf(
  vitals: Pick<Vitals, 'phase' | 'ingest' | 'ledgerLivedAt'>,
  now: number,
): HealthCheck[] {
  const phase = vitals.phase();
  const { state } = vitals.ingest.storage;
  const livedAt = vitals.ledgerLivedAt();
  const silent = livedAt === undefined || phase !== 'running' ? 0 : now - livedAt;
  const check = (
    name: HealthCheck['name'],
    fails: boolean,
    code: ErrorCode,
    reason: string,
    fatal = false,
  ): HealthCheck => ({ name, failure: fails ? { reason, code } : undefined, fatal: fails && fatal });
  return [
    check('startup', phase === 'starting', 'storage_unavailable', 'the ledger is being opened'),
    check('shutdown', phase === 'stopping', 'shutting_down', 'the collector is stopping'),
    check(
      'ledger_thread',
      silent > STALLED_AFTER_MS,
      'storage_unavailable',
      `the ledger's thread has said nothing for ${Math.floor(silent / 1000)} seconds`,
      silent > DEAD_AFTER_MS,
    ),
    check(
      'storage',
      // The ledger tries by itself whether it can store again: a load balancer lets no event through to show it.
      state !== 'open',
      'storage_unavailable',
      state === 'failed' ? 'the ledger has failed' : 'events cannot be stored',
    ),
  ];
}

export function isLive(checks: readonly HealthCheck[]): boolean {
  return !checks.some(({ fatal }) => fatal);
}

export function isReady(checks: readonly HealthCheck[]): boolean {
  return checks.every(({ failure }) => failure === undefined);
}

/** One line a check and a verdict, in the form that Kubernetes gives its own health endpoints. */
export function healthText(endpoint: 'livez' | 'readyz', checks: readonly HealthCheck[]): string {
  const failed = (check: HealthCheck) => (endpoint === 'livez' ? check.fatal : check.failure !== undefined);
  const lines = checks.map((check) =>
    failed(check) ? `[-]${check.name} failed: ${check.failure?.reason ?? ''}` : `[+]${check.name} ok`,
  );
  return [...lines, `${endpoint} check ${checks.some(failed) ? 'failed' : 'passed'}`, ''].join('\n');
}
