/** What a data directory has that is backed up: the contract between a back-up and the driver that stores the log. */
import type { Checkpoint } from '@clinical-events/protocol/verify';

interface BackedUpSegment {
  /** In the data directory and in the back-up: `ledger/…`. */
  readonly file: string;
  /** How many are to be copied, its header among them. */
  readonly bytes: number;
  /**
   * These bytes in order, in pieces that are valid until the next is asked for.
   * @throws StoreDamaged at the first place that does not hold what was written there.
   */
  readonly pieces: () => Iterable<Uint8Array>;
}

/** A small file that never changes. */
export interface BackedUpFile {
  readonly file: string;
  /** @throws when it is not what it should be. */
  readonly read: () => Uint8Array;
}

/** What there was when the back-up began. It is durable there, and stays as it is. */
export interface BackedUpLog {
  readonly ledgerId: string;
  readonly origin: string;
  readonly events: number;
  /** With the log's own. */
  readonly entries: number;
  /** Milliseconds since 1970 UTC. */
  readonly lastReceivedAt: number | undefined;
  /** The newest signed one. */
  readonly checkpoint: Checkpoint;
  readonly note: string;
  readonly cosigned: Readonly<Record<string, string>>;
  /** Oldest first; to the last one events are still being added. */
  readonly segments: readonly BackedUpSegment[];
  readonly files: readonly BackedUpFile[];
  /** Only when they were asked for. */
  readonly signingKeys: readonly BackedUpFile[];
  /** Up to its last whole line: at least what the log has heads of. Undefined when there is none. */
  readonly accessLog: () => Pick<BackedUpSegment, 'bytes' | 'pieces'> | undefined;
  /** Writes the API keys as they are now to a new file. @returns false when there are none. */
  readonly copyKeys: (file: string) => Promise<boolean>;
}
