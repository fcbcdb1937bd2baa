/** Faults of the catalogue, and the errors of SQLite and the disk in words. */
import { systemCode } from '../system-code.js';

export class CatalogueFault extends Error {
  override name = 'CatalogueFault';
}

/** Thrown if the file has contents that neither SQLite nor the catalogue writes. A rebuild repairs it. */
export class CatalogueDamaged extends CatalogueFault {
  override name = 'CatalogueDamaged';
}

/** Thrown if another process is writing the catalogue. */
export class CatalogueBusy extends CatalogueFault {
  override name = 'CatalogueBusy';
}

/** The refusal of a question during an update. */
export const UNFINISHED = 'the catalogue is being updated and is not complete yet';

/** Primary result codes of SQLite: https://www.sqlite.org/rescode.html */
const CODE = {
  error: 1,
  busy: 5,
  locked: 6,
  readOnly: 8,
  ioError: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  notADb: 26,
};

/** The primary result code; undefined if the error is not SQLite's. */
function sqliteCode(error: unknown): number | undefined {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  return typeof code === 'number' ? code & 0xff : undefined;
}

/** @returns a CatalogueFault for an error of SQLite or the disk; other errors unchanged. */
export function faultOf(error: unknown, directory: string): unknown {
  if (error instanceof CatalogueFault) return error;
  if (isBusy(error))
    return new CatalogueBusy(`another process holds the catalogue in ${directory}`, { cause: error });
  const code = sqliteCode(error);
  if (code === CODE.error && (error as Error).message.startsWith('no such index')) {
    return new CatalogueFault(UNFINISHED, { cause: error });
  }
  if (code === CODE.corrupt || code === CODE.notADb) {
    return new CatalogueDamaged(`the catalogue in ${directory} is damaged`, { cause: error });
  }
  if (code === CODE.full || systemCode(error) === 'ENOSPC') {
    return new CatalogueFault(`no room for the catalogue in ${directory}: make room`, {
      cause: error,
    });
  }
  if (code === CODE.ioError) {
    return new CatalogueFault(`the catalogue in ${directory} cannot be read or written: check the disk`, {
      cause: error,
    });
  }
  const isDenied = ['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '');
  if (isDenied || code === CODE.readOnly || code === CODE.cannotOpen) {
    return new CatalogueFault(`the catalogue in ${directory} cannot be written: run as its owner`, {
      cause: error,
    });
  }
  return error;
}

/** Whether another connection holds the lock. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === CODE.busy || code === CODE.locked;
}
