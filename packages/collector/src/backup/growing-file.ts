/**
 * A file of the back-up that goes on from run to run. What a manifest has noted of it is compared, and never written
 * again. What lies behind that was left by a run that was ended: it is kept as far as it is right, and else replaced.
 */
import { createHash, type Hash } from 'node:crypto';
import { BackupDamaged, LogDiffers } from './backup-fault.js';
import { DurableFile } from './durable.js';
import type { Noted } from './manifest.js';

export interface Grown {
  readonly bytes: number;
  readonly sha256: string;
  /** How many bytes had to be written. */
  readonly written: number;
}

export interface Growing {
  readonly path: string;
  /** What is noted of its beginning; undefined when nothing is. */
  readonly noted: Noted | undefined;
  readonly isThere: boolean;
  /** What it is to hold. */
  readonly pieces: Iterable<Uint8Array>;
  /** Told of each piece when it is there. */
  readonly onPiece: (bytes: number) => void;
}

/**
 * On return the file holds just the pieces, on stable storage; its name may not be yet.
 * @throws BackupDamaged or LogDiffers when it does not begin with what was noted, or the pieces do not.
 */
export function grow({ path, noted, isThere, pieces, onPiece }: Growing): Grown {
  const file = DurableFile.open(path, isThere ? 'there' : 'new', true);
  try {
    const held = file.bytes;
    const bound = noted?.bytes ?? 0;
    if (noted !== undefined && held < bound) {
      throw new BackupDamaged(`${noted.file} in the back-up has ${held} bytes, and ${bound} were written`);
    }
    const sha256 = createHash('sha256');
    let [position, written] = [0, 0];
    // Until the bound is reached nobody can tell whose fault it is.
    let altered = false;
    for (const piece of split(pieces, bound)) {
      const there =
        position < held ? file.read(position, Math.min(piece.length, held - position)) : undefined;
      const same = there === undefined ? 0 : commonBytes(there, piece);
      sha256.update(piece);
      if (position < bound) altered ||= same < piece.length;
      else if (same < piece.length) {
        file.write(piece.subarray(same), position + same);
        written += piece.length - same;
      }
      position += piece.length;
      if (position === bound && noted !== undefined) assertNoted(sha256, noted, altered);
      onPiece(piece.length);
    }
    if (noted !== undefined && position < bound) throw differs(noted);
    if (file.bytes > position) file.truncate(position);
    file.flush();
    return { bytes: position, sha256: sha256.digest('hex'), written };
  } finally {
    file.close();
  }
}

/** The pieces, one of which ends at the bound. */
function* split(pieces: Iterable<Uint8Array>, bound: number): Generator<Uint8Array> {
  let position = 0;
  for (const piece of pieces) {
    const until = bound - position;
    position += piece.length;
    if (until > 0 && until < piece.length) {
      yield piece.subarray(0, until);
      yield piece.subarray(until);
    } else yield piece;
  }
}

function commonBytes(there: Buffer, piece: Uint8Array): number {
  if (there.equals(piece.subarray(0, there.length))) return there.length;
  return there.findIndex((byte, i) => byte !== piece[i]);
}

function assertNoted(sha256: Hash, noted: Noted, altered: boolean): void {
  if (sha256.copy().digest('hex') !== noted.sha256) throw differs(noted);
  if (altered) throw new BackupDamaged(`${noted.file} in the back-up is not as it was written`);
}

function differs({ file, bytes }: Noted): LogDiffers {
  return new LogDiffers(`${file} does not begin with the ${bytes} bytes that were backed up before`);
}
