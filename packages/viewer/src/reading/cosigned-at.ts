/** The time of a checkpoint, as its witnesses state it (C2SP tlog-cosignature). */
import { keyIdText, parseNote } from '@clinical-events/protocol/verify';

const TIME_BYTES = 8;
/** Longer than this, a signature of a witness begins with a time; the signature of a log is shorter. */
const SIGNATURE_BYTES = 64;

/** @returns the latest time in RFC 3339; undefined without a cosignature, because a log states no time. */
export function cosignedAt(note: string, cosignedBy: readonly string[]): string | undefined {
  const times = parseNote(note).signatures.flatMap(({ name, keyId, signature }) => {
    const isWitness = cosignedBy.includes(`${name}+${keyIdText(keyId)}`);
    if (!isWitness || signature.length < TIME_BYTES + SIGNATURE_BYTES) return [];
    return Number(Buffer.from(signature).readBigUInt64BE(0));
  });
  const latest = Math.max(0, ...times);
  const time = new Date(latest * 1000);
  return latest === 0 || Number.isNaN(time.getTime()) ? undefined : time.toISOString();
}
