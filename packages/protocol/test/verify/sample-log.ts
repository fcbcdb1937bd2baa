/**
 * A log as the tests need it: keys, leaves, a tree and signed checkpoints, made with Node's cryptography from
 * the specifications, without the tested code, except for the texts of notes.
 */
import { generateKeyPairSync, sign } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { encodeEnvelope, encodeLeaf, envelopeSize } from '../../src/leaf.js';
import type { Envelope } from '../../src/leaf.js';
import { formatCheckpoint } from '../../src/verify/checkpoint.js';
import { formatRotation } from '../../src/verify/rotation.js';
import { formatNote, formatVerifierKey } from '../../src/verify/signed-note.js';
import { formatProof } from '../../src/verify/tlog-proof.js';
import { leafOf, mth, path as auditPath, sha256 } from './rfc-tree.js';

export const ORIGIN = 'log.example/ward-7';

export interface SampleKey {
  readonly vkey: string;
  readonly name: string;
  readonly keyId: number;
  readonly privateKey: KeyObject;
}

export function sampleKey(name = ORIGIN): SampleKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const raw = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
  const keyId = sha256(Buffer.from(`${name}\n`), Buffer.of(1), raw).readUInt32BE(0);
  return { vkey: formatVerifierKey({ name, keyId, type: 1, publicKey: raw }), name, keyId, privateKey };
}

export function signSample(text: string, ...keys: readonly SampleKey[]): string {
  const signatures = keys.map(({ name, keyId, privateKey }) => ({
    name,
    keyId,
    signature: sign(null, Buffer.from(text), privateKey),
  }));
  return formatNote(text, signatures);
}

export function sampleRotation(from: SampleKey, to: SampleKey, ...signers: readonly SampleKey[]): string {
  const text = formatRotation({
    origin: from.name,
    oldKey: from.vkey,
    newKey: to.vkey,
    until: '2026-03-09T00:00:00Z',
  });
  return signSample(text, ...(signers.length > 0 ? signers : [from, to]));
}

export interface SampleEvent {
  readonly eventId: string;
  readonly body: Buffer;
  readonly envelope: Envelope;
  readonly encoded: Buffer;
  readonly salt: Buffer;
  readonly leafHash: Buffer;
}

/** @param spell how the body writes the event id. */
export function sampleEvent(index: number, spell = (id: string) => id): SampleEvent {
  const eventId = `6f1c7a52-93de-4c1b-a9e0-${(0xb3d84f21e000 + index).toString(16)}`;
  const body = Buffer.from(
    `{"event_id":"${spell(eventId)}","timestamp":"2026-03-02T09:31:44Z","score":0.${index}}`,
  );
  const envelope: Envelope = {
    kind: 'inference-start',
    profile: 'minimum',
    door: 'endpoint',
    organisation: 'north-ward',
    keyId: 'k1a2b3c4',
    receivedAt: 1_772_443_904_000 + index,
    eventId: Buffer.from(eventId.replaceAll('-', ''), 'hex'),
    runId: Buffer.alloc(16),
    parentId: Buffer.alloc(16),
  };
  const encoded = Buffer.alloc(envelopeSize(envelope));
  encodeEnvelope(encoded, 0, envelope);
  const salt = sha256(Buffer.from(`salt ${index}`)).subarray(0, 16);
  const leaf = Buffer.alloc(73);
  encodeLeaf(leaf, 0, encoded, sha256(encoded), sha256(salt, body));
  return { eventId, body, envelope, encoded, salt, leafHash: leafOf(leaf) };
}

export function sampleEvents(count: number): SampleEvent[] {
  return Array.from({ length: count }, (_, index) => sampleEvent(index));
}

export function sampleCheckpoint(events: readonly SampleEvent[], ...keys: readonly SampleKey[]): string {
  const root = mth(events.map(({ leafHash }) => leafHash));
  return signSample(
    formatCheckpoint({ origin: keys[0]?.name ?? ORIGIN, size: events.length, root }),
    ...keys,
  );
}

/** The proof file of the event at `index` in the tree of all of them. */
export function sampleProof(
  events: readonly SampleEvent[],
  index: number,
  checkpoint: string,
  extra?: Uint8Array,
): string {
  const event = events[index];
  if (event === undefined) throw new RangeError('no such event');
  return formatProof({
    extra: extra ?? Buffer.concat([event.encoded, event.salt]),
    index,
    path: auditPath(
      index,
      events.map(({ leafHash }) => leafHash),
    ),
    checkpoint,
  });
}
