/** `GET /console/state.json`: all that the console shows, in one piece (console/console-state.ts). */
import { type ErrorCode } from '@clinical-events/protocol';
import type { StorageReason } from '../ledger/ledger.js';
import type { ConsoleState } from './console/console-state.js';
import { type CollectorStatus, type Watch } from './status.js';
import { type Facts } from './warnings.js';
export interface HealthCheck {
    readonly name: 'startup' | 'shutdown' | 'listener' | 'ledger_thread' | 'storage' | 'signing';
    /** Why it fails; undefined when it does not. */
    readonly failure: {
        readonly reason: string;
        /** The reason in a word that stays the same. */
        readonly cause: HealthCause;
        readonly code: ErrorCode;
    } | undefined;
    /** Whether a start again would be the remedy. */
    readonly fatal: boolean;
}
type HealthCause = ('starting' | 'stopping' | 'not_listening' | 'silent_thread' | 'signing_stalled' | 'ledger_failed') | StorageReason;
/** @param now the monotonic clock, milliseconds. */
export declare function healthOf(collectorStatus: Pick<CollectorStatus, 'phase' | 'ingest' | 'ledgerLivedAt'> & Partial<Pick<CollectorStatus, 'ledger' | 'listens'>>, now: number): HealthCheck[];
export declare function isLive(checks: readonly HealthCheck[]): boolean;
export declare function isReady(checks: readonly HealthCheck[]): boolean;
/** One line a check and a verdict, in the form that Kubernetes gives its own health endpoints. */
export declare function healthText(endpoint: 'livez' | 'readyz', checks: readonly HealthCheck[]): string;
export interface Hint {
    readonly id: 'no_checkpoint_sink' | 'keys_without_mirror' | 'no_backup_yet' | 'not_verified_yet';
    readonly title: string;
    readonly what_to_do: string;
}
/** In the order in which they are best done. Each goes away by itself, within a second of being done. */
export declare function hintsOf(facts: Facts): Hint[];
export declare function stateOf(collectorStatus: CollectorStatus, watch: Watch): ConsoleState;
export declare function factsOf(collectorStatus: CollectorStatus, watch: Watch, now: number): Facts;
export {};
