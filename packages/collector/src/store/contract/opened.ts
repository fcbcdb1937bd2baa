/** What is opened together. */
import type { FindingList } from '../findings.js';
import type { AuditedLog, AuditedRoots, AuditOptions, HeadListener } from '../log-audit.js';
import type { EventLog } from './events.js';
import type { TreeReader } from './tree.js';
import type { AccessLogStore } from './access-log.js';
import type { SharedPublicKeys } from './keys.js';
import type { HoldRecords } from './requests.js';

/** What is stored in a data directory, for reading, beside a collector or without one. */
export interface OpenStore {
  /** To be closed by anyone who has read events or looked for some. */
  readonly events: EventLog;
  /** To be closed by anyone who has read hashes. */
  readonly tree: TreeReader;
  readonly accessLog: AccessLogStore;
}

/** Of a log that several collectors write to. */
export interface OpenSharedStore extends OpenStore {
  /** The database of the keys of its payloads; undefined where these are not encrypted. */
  readonly encryptionKeys: string | undefined;
  readonly publicKeys: SharedPublicKeys;
  readonly holdRecords: HoldRecords;
  /** What names in derived files are encrypted by on every mirror; undefined where keys are not opened. */
  namesKey(): Buffer | undefined;
  /** Checkpoints that stay when newer ones come, by their size. */
  checkpoints(): Promise<{ readonly size: number; readonly note: string }[]>;
  /** The reading of the whole log for `verify`. */
  audit(
    signed: AuditedRoots,
    accessLog: HeadListener,
    options: Omit<AuditOptions, 'dataDir' | 'files'>,
  ): { tell(findings: FindingList): Promise<AuditedLog> };
  /** To be called once. */
  close(): Promise<void>;
}
