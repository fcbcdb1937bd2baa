/** The seam to whatever holds the log's signing key: a file, a command, a KMS. */
import type { NoteKey } from './note-signing.js';

export interface CheckpointSigner {
  /** The name of the log and of each of its keys. */
  readonly origin: string;
  /** Every key that may have signed for this log, in the order in which they took over. May grow at a rotation. */
  readonly keys: readonly NoteKey[];
  /**
   * The text as a signed note, by the current key and, while an overlap lasts, by the one before.
   * Rejects when there is no signature to be had now; it may be asked again.
   */
  sign(text: string): Promise<string>;
}
