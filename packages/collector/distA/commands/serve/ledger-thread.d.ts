import type { Alarm } from '../../operate/status.js';
import type { PrivacyState } from '../../ledger/lifecycle.js';
import { type LedgerState } from '../../ledger/ledger.js';
import type { CheckpointTroubleState } from '../../transparency/state-files.js';
import type { StorageReason } from '../../store/contract/events.js';
import type { IdIndexStats } from '../../store/open-to-write.js';
import type { QueueEnd } from './http-side.js';
import { type LedgerSettings, type OpenedLog, type Refusal } from './open-ledger.js';
/** What the thread is started with. */
export interface LedgerThreadData extends LedgerSettings {
    readonly maxDepth: number;
    readonly queue: QueueEnd;
    /** What it counts (ledger/ledger-counters.ts). */
    readonly counters: SharedArrayBuffer;
}
/** What the thread is asked for: to end in order, or to say that it lives and how its index fares. */
export type LedgerThreadRequest = 'stop' | 'report';
/** What the thread says. `reason` is the text of an error: a place or a system's answer, never an event's content. */
export type LedgerThreadMessage = {
    readonly type: 'opened';
    readonly opened: OpenedLog;
} | {
    readonly type: 'refused';
    readonly because: Refusal;
    readonly reason: string;
} | {
    readonly type: 'state';
    readonly state: LedgerState;
    readonly reason: string;
    readonly because: StorageReason | undefined;
} | {
    readonly type: 'trouble';
    readonly what: string;
    readonly reason: string;
} | {
    readonly type: 'alarm';
    readonly about: Alarm;
    readonly what: string;
    readonly reason: string;
} | {
    readonly type: 'notice';
    readonly message: string;
} | {
    readonly type: 'checkpoint';
    readonly note: string;
} | {
    readonly type: 'checkpoint-trouble';
    readonly trouble: CheckpointTroubleState | undefined;
} | {
    readonly type: 'report';
    readonly index: IdIndexStats | undefined;
    readonly privacy: PrivacyState | undefined;
} | {
    readonly type: 'closed';
};
