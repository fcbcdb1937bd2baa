/** The way into the spool for the rest of the client. */
import type { Spool as SpoolContract, SpoolOptions } from './contract.js';
import { DiskSpool } from './disk-spool.js';
import { MemorySpool } from './memory-spool.js';

export { SpoolClosed, SpoolFull, SpoolKeyWrong, SpoolUnwritable } from './contract.js';
export type { Durability, Refusal, SpooledEvent, SpoolOptions, SpoolState } from './contract.js';

export type Spool = SpoolContract;

export const Spool = {
  /**
   * Opens a spool. On return what processes that have ended left in the directory waits in it too.
   * @throws SpoolUnwritable for a directory that cannot be used, or may not be because others can write to it;
   * SpoolKeyWrong for events that the key does not open, and then nothing has been touched; RangeError for a key that
   * has not 32 bytes or a size that makes no sense.
   */
  open(options: SpoolOptions): Promise<Spool> {
    return options.durability === 'memory'
      ? Promise.resolve(new MemorySpool(options))
      : DiskSpool.open(options);
  },
};
