/** A log on its way into a back-up: what a driver promises of it. */

/** The log is another one than the copy was made of, or continued differently. The message says how it shows. */
export class LogDiffers extends Error {
  override name = 'LogDiffers';
}

/** What was copied by one call. */
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
  /** Whether nothing but the beginning of one entry stands after the last whole one, as where a file was cut. */
  readonly endsWhole: boolean;
  /** Name of the segment that the log grows in. */
  readonly growing: string;
  /**
   * On return `directory` holds this log, on stable storage. Until then it holds at least what it held.
   * @param grewIn the `growing` of the last copy that was finished there; segments before it are not read again.
   * @throws LogDiffers before anything is written; StoreDamaged.
   */
  copyTo(directory: string, grewIn: string | undefined, onProgress: Progress): Copied;
  /**
   * The leaf hashes of the log, side by side, from an entry on. Valid until the next are asked for.
   * @throws StoreDamaged
   */
  leaves(from: number): Generator<{ readonly hashes: Buffer; readonly count: number }>;
}

/** Called with how many bytes are done, and of how many. */
export type Progress = (bytes: number, of: number) => void;
