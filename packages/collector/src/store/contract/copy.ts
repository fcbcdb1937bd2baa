/** The contract of a log that is copied to a back-up. */

/** Thrown if the copy was made of another log or has diverged from it. The message names the difference. */
export class LogDiffers extends Error {
  override name = 'LogDiffers';
}

/** The result of a copy. */
export interface Copied {
  readonly segmentsCopied: number;
  readonly segmentsThere: number;
  readonly bytes: number;
}

/** The part of a log that can be read. */
export interface LogCopy {
  readonly ledgerId: string;
  readonly events: number;
  readonly entries: number;
  readonly lastReceivedAt: number | undefined;
  /** Whether at most the beginning of one entry follows the last whole one, as in a truncated file. */
  readonly endsWhole: boolean;
  /** Name of the current segment. */
  readonly growing: string;
  /**
   * Copies this log to `directory`, durably. Until the end `directory` keeps all that it contained.
   * @param grewIn the `growing` of the last complete copy there; earlier segments are not read again.
   * @throws LogDiffers before anything is written; StoreDamaged.
   */
  copyTo(directory: string, grewIn: string | undefined, onProgress: Progress): Copied;
  /**
   * Yields the adjacent leaf hashes from an entry on. Each result is valid until the next one.
   * @throws StoreDamaged
   */
  leaves(from: number): Generator<{ readonly hashes: Buffer; readonly count: number }>;
}

/** Called with the number of bytes done, and the total. */
export type Progress = (bytes: number, of: number) => void;
