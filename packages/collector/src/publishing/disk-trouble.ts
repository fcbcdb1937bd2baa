import { systemCode } from '../system-code.js';
import { SinkTrouble } from './sink.js';

/** What the system's codes mean for a sink, and what to do. Where there is nothing to say, the code is enough. */
const MEANINGS: Readonly<Record<string, string>> = {
  ENOENT: 'is not there; it is not made either, because that would hide a mount that is missing',
  ENOTDIR: 'is no directory, or lies below something that is none',
  EISDIR: 'is a directory',
  ENOTREG: 'is no regular file',
  EACCES: "cannot be read or written: the collector's user may not",
  EPERM: 'cannot be read or written: its file system does not allow it',
  EROFS: 'cannot be written: its file system is read-only',
  ENOSPC: 'cannot be written: no space is left',
  EDQUOT: 'cannot be written: the quota is used up',
  EPIPE: 'could not be written: the process that writes it has ended, and is started again',
};

/** @param error of a call to the disk at `place`. */
export function diskTrouble(place: string, error: unknown): SinkTrouble {
  if (error instanceof SinkTrouble) return error;
  const code = systemCode(error) ?? 'UNKNOWN';
  const meaning = MEANINGS[code] ?? 'cannot be read or written';
  return new SinkTrouble(`${place} ${meaning} (${code})`, { cause: error });
}
