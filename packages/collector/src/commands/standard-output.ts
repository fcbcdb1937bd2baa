/** Standard output for answers of any length: waits for a reader that is slower. */
import { once } from 'node:events';

export class StandardOutput {
  #hasWritten = false;

  /** @param signal ends the waiting, by its reason. */
  constructor(private readonly signal: AbortSignal) {}

  /** What was written cannot be taken back. */
  get hasWritten(): boolean {
    return this.#hasWritten;
  }

  async write(piece: string | Uint8Array): Promise<void> {
    if (piece.length === 0) return;
    this.#hasWritten = true;
    if (process.stdout.write(piece)) return;
    try {
      await once(process.stdout, 'drain', { signal: this.signal });
    } catch (error) {
      this.signal.throwIfAborted();
      throw error;
    }
  }
}
