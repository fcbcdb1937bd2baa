/** What `check-proof` says of a proof that holds: to scripts, and to people. */
import { hash } from 'node:crypto';
import {
  keyIdText,
  parseNote,
  parseProof,
  parseVerifierKey,
  type ProofVerdict,
} from '@clinical-events/protocol/verify';
import type { NoteKey } from '../integrity/note-signing.js';
import { uuidText } from '../store/uuid-text.js';
import { printable } from './printable.js';

type Valid = Extract<ProofVerdict, { valid: true }>;

/** A witness that has cosigned the checkpoint, and when, by its own clock: seconds since 1970 UTC. */
export interface Cosigned {
  readonly witness: NoteKey;
  readonly time: number;
}

function instant(ms: number): string {
  const date = new Date(ms);
  // Dates end in the year 275760, and a log can sign any number.
  return Number.isNaN(date.getTime()) ? `${ms} ms after 1970` : date.toISOString();
}

function runIdIn({ envelope }: Valid): string | undefined {
  return envelope.runId.every((byte) => byte === 0) ? undefined : uuidText(envelope.runId);
}

/** For scripts; the names are a promise. */
export function describe(verdict: Valid, body: Buffer, cosigned: readonly Cosigned[]): object {
  const { envelope, index, checkpoint, signedBy } = verdict;
  return {
    valid: true,
    event_id: uuidText(envelope.eventId),
    run_id: runIdIn(verdict) ?? null,
    kind: envelope.kind,
    profile: envelope.profile,
    organisation: envelope.organisation,
    key_id: envelope.keyId,
    received_at: instant(envelope.receivedAt),
    sha256: hash('sha256', body),
    sequence: index + 1,
    index,
    tree_size: checkpoint.size,
    root: Buffer.from(checkpoint.root).toString('base64'),
    origin: checkpoint.origin,
    signed_by: signedBy,
    cosigned_by: cosigned.map(({ witness, time }) => ({ key: witness.vkey, at: instant(time * 1000) })),
  };
}

/** For people who have to rely on it, and may not know how it works. */
export function report(verdict: Valid, body: Buffer, proof: string, cosigned: readonly Cosigned[]): string {
  const { envelope, index, checkpoint, signedBy } = verdict;
  const run = runIdIn(verdict);
  const origin = printable(checkpoint.origin);
  return `VALID

Proved:
  The ${body.length} bytes given, exactly as they are (SHA-256 ${hash('sha256', body)}),
  are event ${index + 1} of the log ${origin}:
    event id      ${uuidText(envelope.eventId)}
    run           ${run ?? 'none'}
    kind          ${envelope.kind}, under the profile ${envelope.profile}
    received at   ${instant(envelope.receivedAt)}, according to the collector's clock
    from          API key ${printable(envelope.keyId)} of organisation ${printable(envelope.organisation)}
  The log had ${checkpoint.size} event${checkpoint.size === 1 ? '' : 's'} when it signed the tree that this one is in, with the key
    ${printable(signedBy)}
${cosigned.map(witnessed).join('')}
Not proved:
  That what the event says is true, who used the API key, and that the collector's clock was right.
  That the log shows this same tree to everybody: compare checkpoints that are held elsewhere.
${unchecked(proof, [signedBy, ...cosigned.map(({ witness }) => witness.vkey)])}`;
}

function witnessed({ witness, time }: Cosigned): string {
  return `  The witness ${printable(witness.name)} knew this tree, and no other history of the log, at ${instant(time * 1000)}
    by its own clock.
`;
}

/** Names of witnesses must not look as if they vouched for anything here. */
function unchecked(proof: string, checked: readonly string[]): string {
  const keys = checked.map(parseVerifierKey);
  const others = parseNote(parseProof(proof).checkpoint)
    .signatures.filter(({ name, keyId }) => !keys.some((key) => key.name === name && key.keyId === keyId))
    .map(({ name, keyId }) => `${printable(name)} (${keyIdText(keyId)})`);
  return others.length === 0
    ? ''
    : `  Nor were further signatures under the checkpoint checked: ${others.join(', ')}.\n`;
}
