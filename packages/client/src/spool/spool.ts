/** The way into the spool for the rest of the client. */
import {
  type Spool as SpoolContract,
  SpoolClosed,
  SpoolFull,
  SpoolKeyWrong,
  type SpoolOptions,
  SpoolUnwritable,
} from './contract.js';
import { type UnspooledEvent, crashFlush } from './crash-flush.js';
import { DiskSpool, MAX_BYTES } from './disk-spool.js';
import { MemorySpool } from './memory-spool.js';

export type { UnspooledEvent };
export { SpoolClosed, SpoolFull, SpoolKeyWrong, SpoolUnwritable };
export type { Durability, Refusal, SpooledEvent, SpoolOptions, SpoolState } from './contract.js';

export type Spool = SpoolContract;

export const Spool = {
  /**
   * Opens a spool. On return what processes that have ended left in the directory waits in it too.
   * @throws SpoolUnwritable for a directory that cannot be used, or may not be because others can write to it;
   * SpoolKeyWrong for a key that has not 32 bytes, and for events that the key does not open, and then nothing has been
   * touched; RangeError for a size that makes no sense.
   */
  open(options: SpoolOptions): Promise<Spool> {
    if (options.durability !== 'memory') return DiskSpool.open(options);
    const { maxBytes = 1 } = options;
    if (!(maxBytes >= 1)) return Promise.reject(new RangeError('the size of a spool is from 1 byte on'));
    return Promise.resolve(new MemorySpool(options));
  },

  /**
   * At the end of the process: writes events that no open spool has, for the next one on the directory. Waits for the
   * disk, and does not throw.
   * @returns how many, from the first, are kept, and why not all.
   */
  crashFlush({ maxBytes = MAX_BYTES, ...options }: SpoolOptions, events: readonly UnspooledEvent[]) {
    if (options.durability !== 'memory') return crashFlush({ ...options, maxBytes }, events);
    return { kept: 0, error: new SpoolUnwritable('the spool is in memory only') };
  },
};
