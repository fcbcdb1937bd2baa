/** Why there is no catalogue to ask, and what SQLite and the disk say of it, in words. */
import { systemCode } from '../system-code.js';

export class CatalogueFault extends Error {
  override name = 'CatalogueFault';
}

/** The file holds what SQLite or the catalogue cannot have written. Rebuilt, it is right. */
export class CatalogueDamaged extends CatalogueFault {
  override name = 'CatalogueDamaged';
}

/** Another process is writing the catalogue. */
export class CatalogueBusy extends CatalogueFault {
  override name = 'CatalogueBusy';
}

/** Why a question is refused while an update is on its way. */
export const UNFINISHED = 'the catalogue is being brought up to date: its update has not come to its end';

/** Result codes of SQLite without their extended parts: https://www.sqlite.org/rescode.html */
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

/** What SQLite says went wrong; undefined for what it did not say. */
function sqliteCode(error: unknown): number | undefined {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  return typeof code === 'number' ? code & 0xff : undefined;
}

/** @returns a fault of the catalogue in words, where SQLite or the disk says so; another error as it is. */
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
    return new CatalogueFault(
      `the catalogue in ${directory} cannot be read or written: look after the disk`,
      { cause: error },
    );
  }
  const isDenied = ['EACCES', 'EPERM', 'EROFS', 'ENOENT', 'ENOTDIR'].includes(systemCode(error) ?? '');
  if (isDenied || code === CODE.readOnly || code === CODE.cannotOpen) {
    return new CatalogueFault(`the catalogue in ${directory} cannot be written: run as its owner`, {
      cause: error,
    });
  }
  return error;
}

/** True for an error that says that another connection holds what is asked for. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === CODE.busy || code === CODE.locked;
}
