/**
 * Liveness and readiness. The collector is live while its threads answer: a restart solves no other problem,
 * least of all a full disk. It is ready when an event sent now would most likely be stored.
 */
import type { ErrorCode } from '@clinical-events/protocol';
import type { StorageReason } from '../ledger/ledger.js';
import type { Facts } from './snapshot.js';
import { isSigningStalled } from './warnings.js';

export interface HealthCheck {
  readonly name:
    'http_thread' | 'startup' | 'shutdown' | 'listener' | 'ledger_thread' | 'storage' | 'signing';
  /** The reason of a failure; undefined when the check passes. */
  readonly failure: Failure | undefined;
  /** Whether a restart would help. */
  readonly fatal: boolean;
}

interface Failure {
  readonly reason: string;
  /** The reason as a stable word. */
  readonly cause: HealthCause;
  readonly code: ErrorCode;
}

type HealthCause =
  | ('starting' | 'stopping' | 'not_listening' | 'silent_thread' | 'signing_stalled' | 'ledger_failed')
  | StorageReason;

const STORAGE_REASONS: Readonly<Record<StorageReason, string>> = {
  keys_unwritable: 'the payload keys cannot be written',
  index_unwritable: 'the index of ids cannot be written',
  disk_full: 'the disk is full',
  read_only: 'the file system is read-only',
  permission_denied: 'the collector may not write there',
  database_unavailable: 'the database does not accept them',
  write_failed: 'a write failed',
};

const LEDGER_STALLED_MS = 10_000;
const LEDGER_DEAD_MS = 60_000;
/** The event thread never waits for a disk, so it would have failed its own probe long before. */
const HTTP_DEAD_MS = 5000;

export function healthOf(facts: Facts): HealthCheck[] {
  const { phase, silentMs, listens, monotonic, ledgerLivedAt, ledger } = facts;
  const ledgerSilentMs = phase !== 'running' || ledgerLivedAt === undefined ? 0 : monotonic - ledgerLivedAt;
  return [
    threadCheck('http_thread', 'the HTTP thread', silentMs, HTTP_DEAD_MS, HTTP_DEAD_MS),
    check('startup', phase === 'starting', 'starting', 'the ledger is being opened'),
    check('shutdown', phase === 'stopping', 'stopping', 'the collector is stopping', 'shutting_down'),
    ...(listens
      ? []
      : [check('listener', true, 'not_listening', 'it was started with --no-listen and accepts no events')]),
    // A thread that waits for a slow disk needs no restart; a thread that is silent for long does.
    threadCheck('ledger_thread', "the ledger's thread", ledgerSilentMs, LEDGER_STALLED_MS, LEDGER_DEAD_MS),
    storageCheck(facts),
    ...(ledger.shared === undefined
      ? []
      : [
          check(
            'signing',
            isSigningStalled(ledger.shared),
            'signing_stalled',
            'nothing is signed: the oldest batch has waited to be sequenced for ' +
              `${Math.floor(ledger.shared.stalledMs / 1000)} seconds`,
          ),
        ]),
  ];
}

function check(
  name: HealthCheck['name'],
  fails: boolean,
  cause: HealthCause,
  reason: string,
  code: ErrorCode = 'storage_unavailable',
): HealthCheck {
  return { name, failure: fails ? { reason, cause, code } : undefined, fatal: false };
}

function threadCheck(
  name: HealthCheck['name'],
  whose: string,
  silentMs: number,
  stalledMs: number,
  deadMs: number,
): HealthCheck {
  const reason = `${whose} has not answered for ${Math.floor(silentMs / 1000)} seconds`;
  return { ...check(name, silentMs > stalledMs, 'silent_thread', reason), fatal: silentMs > deadMs };
}

/** The ledger probes the storage itself: a load balancer sends no event that would do so. */
function storageCheck({ storage: { state, reason = 'write_failed' } }: Facts): HealthCheck {
  return state === 'failed'
    ? check('storage', true, 'ledger_failed', 'the ledger has failed')
    : check('storage', state !== 'open', reason, `events cannot be stored: ${STORAGE_REASONS[reason]}`);
}

export function isLive(checks: readonly HealthCheck[]): boolean {
  return !checks.some(({ fatal }) => fatal);
}

export function isReady(checks: readonly HealthCheck[]): boolean {
  return checks.every(({ failure }) => failure === undefined);
}

/** A text with one line per check and a verdict, as Kubernetes' own health endpoints print it. */
export function healthText(endpoint: 'livez' | 'readyz', checks: readonly HealthCheck[]): string {
  const failed = (each: HealthCheck) => (endpoint === 'livez' ? each.fatal : each.failure !== undefined);
  const lines = checks.map((each) =>
    failed(each) ? `[-]${each.name} failed: ${each.failure?.reason ?? ''}` : `[+]${each.name} ok`,
  );
  return [...lines, `${endpoint} check ${checks.some(failed) ? 'failed' : 'passed'}`, ''].join('\n');
}
