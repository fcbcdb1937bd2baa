import { describe, expect, it, vi } from 'vitest';
import { formatCheckpoint, formatProof, formatVerifierKey } from '../../src/verify/index.js';
import { checkProof, CryptographyMissing, parseProof, parseVerifierKey } from '../../src/verify/index.js';
import {
  ORIGIN,
  sampleCheckpoint,
  sampleEvent,
  sampleEvents,
  sampleKey,
  sampleProof,
  sampleRotation,
  signSample,
} from './sample-log.js';
import { mth as treeRoot, path as auditPath } from './rfc-tree.js';

const SIZE = 11;
const INDEX = 6;
const events = sampleEvents(SIZE);
const event = sampleEvent(INDEX);
const [key, nextKey, stranger] = [sampleKey(), sampleKey(), sampleKey()];
const checkpoint = sampleCheckpoint(events, key);
const proof = sampleProof(events, INDEX, checkpoint);
const extra = Buffer.concat([event.encoded, event.salt]);
const { body } = event;
const keys = [key.vkey];

describe('checkProof', () => {
  it('[R-908] proves every event of a log, and returns its envelope and index', async () => {
    for (const [index, logged] of events.entries()) {
      const verdict = await checkProof({
        proof: sampleProof(events, index, checkpoint),
        body: logged.body,
        keys,
      });
      const root = new Uint8Array(treeRoot(events.map(({ leafHash }) => leafHash)));
      expect(verdict).toEqual({
        valid: true,
        content: 'body',
        envelope: {
          ...logged.envelope,
          eventId: new Uint8Array(logged.envelope.eventId),
          runId: new Uint8Array(16),
          parentId: new Uint8Array(16),
        },
        index,
        checkpoint: { origin: ORIGIN, size: SIZE, root },
        signedBy: key.vkey,
      });
    }
  });

  it('[R-908] proves the only event of a log, whose path is empty', async () => {
    const [only] = [sampleEvents(1)];
    const alone = sampleProof(only, 0, sampleCheckpoint(only, key));
    expect(await checkProof({ proof: alone, body: sampleEvent(0).body, keys })).toMatchObject({
      valid: true,
    });
  });

  it('[R-908] accepts the event id in either case', async () => {
    const shouted = [...events, sampleEvent(SIZE, (id) => id.toUpperCase())];
    const verdict = await checkProof({
      proof: sampleProof(shouted, SIZE, sampleCheckpoint(shouted, key)),
      body: shouted[SIZE]?.body ?? body,
      keys,
    });
    expect(verdict).toMatchObject({ valid: true, index: SIZE });
  });

  it('[R-908] reports that the body is not the logged one if one byte differs', async () => {
    const changed = Buffer.from(body.toString().replace('09:31:44', '09:31:45'));
    expect(await checkProof({ proof, body: changed, keys })).toEqual({
      valid: false,
      reason: 'event-differs',
      message:
        'The body and the proof do not lead to the signed root: the body is not the one that ' +
        'was logged, byte for byte, or the envelope, salt, index or path in the proof was changed.',
    });
  });

  it('[R-908] reports that the body is of another event, with both ids', async () => {
    const another = sampleEvent(INDEX + 1);
    expect(await checkProof({ proof, body: another.body, keys })).toEqual({
      valid: false,
      reason: 'other-event',
      message: `The proof is of the event ${event.eventId}, and the body is of the event ${another.eventId}.`,
    });
  });

  it.each([
    ['empty', ''],
    ['not JSON', 'event'],
    ['not UTF-8', Buffer.from(body.toString().replace('Z', '\u00ff'), 'latin1')],
    ['after a byte order mark', Buffer.concat([Buffer.from('\ufeff'), body])],
    ['null', 'null'],
    ['a number', '7'],
    ['an array', '["event_id"]'],
    ['without an event_id', '{}'],
    ['with an event_id that is not a UUID', '{"event_id":"six"}'],
    ['with a number for an event_id', '{"event_id":7}'],
    ['nested too deeply', '['.repeat(500_000)],
  ])('[R-908] refuses a body that is %s', async (_, content) => {
    expect(await checkProof({ proof, body: Buffer.from(content), keys })).toEqual({
      valid: false,
      reason: 'event-differs',
      message: `The body is not the event ${event.eventId} that was logged: it is not JSON with an event_id.`,
    });
  });

  it.each([
    ['the salt', () => Buffer.concat([event.encoded, sampleEvent(1).salt])],
    ['the door [R-1880]', () => Buffer.from(extra).fill(1, 3, 4)],
    ['the time of arrival', () => Buffer.from(extra).fill(0x77, 13, 14)],
    [
      'the organisation',
      () => Buffer.concat([extra.subarray(0, 62), Buffer.from('south'), extra.subarray(67)]),
    ],
  ])('[R-908] detects a change of %s in the proof', async (_, changed) => {
    const forged = sampleProof(events, INDEX, checkpoint, changed());
    expect(await checkProof({ proof: forged, body, keys })).toMatchObject({ reason: 'event-differs' });
  });

  it('[R-908] refuses the index of another leaf', async () => {
    const moved = proof.replace(`index ${INDEX}`, 'index 4');
    expect(await checkProof({ proof: moved, body, keys })).toMatchObject({ reason: 'event-differs' });
  });

  it.each([
    [
      'an index beyond the tree',
      proof.replace(`index ${INDEX}`, 'index 11'),
      'index 11 with a path of 4 hashes',
    ],
    [
      'a path that is too short',
      formatProof({ ...parseProof(proof), path: parseProof(proof).path.slice(1) }),
      'index 6 with a path of 3 hashes',
    ],
    [
      'a path that is too long',
      formatProof({ ...parseProof(proof), path: [...parseProof(proof).path, new Uint8Array(32)] }),
      'index 6 with a path of 5 hashes',
    ],
  ])('[R-908] refuses %s', async (_, changed, place) => {
    expect(await checkProof({ proof: changed, body, keys })).toEqual({
      valid: false,
      reason: 'not-in-tree',
      message: `A tree of 11 leaves cannot have a leaf at ${place}.`,
    });
  });

  it('[R-908] refuses an earlier checkpoint, although it is signed', async () => {
    const earlier = sampleCheckpoint(events.slice(0, 5), key);
    const swapped = formatProof({ ...parseProof(proof), checkpoint: earlier });
    expect(await checkProof({ proof: swapped, body, keys })).toMatchObject({ reason: 'not-in-tree' });
  });

  it('[R-908] refuses the tree of a rewritten log with the same key', async () => {
    const others = [...sampleEvents(INDEX), sampleEvent(77), ...events.slice(INDEX + 1)];
    const rewritten = formatProof({
      ...parseProof(proof),
      path: auditPath(
        INDEX,
        others.map(({ leafHash }) => leafHash),
      ),
      checkpoint: sampleCheckpoint(others, key),
    });
    expect(await checkProof({ proof: rewritten, body, keys })).toMatchObject({ reason: 'event-differs' });
  });

  it('[R-908] refuses a checkpoint that another key has signed, and names that key', async () => {
    const signed = sampleProof(events, INDEX, sampleCheckpoint(events, stranger));
    const id = stranger.keyId.toString(16).padStart(8, '0');
    expect(await checkProof({ proof: signed, body, keys })).toEqual({
      valid: false,
      reason: 'untrusted-key',
      message: `No trusted key has signed the checkpoint. It names the key ids ${id}.`,
    });
    expect(await checkProof({ proof, body, keys: [] })).toMatchObject({ reason: 'untrusted-key' });
  });

  it('[R-908] refuses a checkpoint that was changed after it was signed', async () => {
    const changed = proof.replace(`\n${SIZE}\n`, `\n${SIZE - 1}\n`);
    const id = key.keyId.toString(16).padStart(8, '0');
    expect(await checkProof({ proof: changed, body, keys })).toEqual({
      valid: false,
      reason: 'signature-forged',
      message: `The checkpoint is forged or damaged: a signature in the note is not by the key ${id} that it names.`,
    });
  });

  it('[R-908] refuses a checkpoint of another log that the key of this one has signed', async () => {
    const root = treeRoot(events.map(({ leafHash }) => leafHash));
    const foreign = signSample(formatCheckpoint({ origin: 'other.example', size: SIZE, root }), key);
    const verdict = await checkProof({ proof: sampleProof(events, INDEX, foreign), body, keys });
    expect(verdict).toMatchObject({ valid: false, reason: 'origin-differs' });
  });

  it('[R-908] accepts a key as a file has it, with a line break at its end', async () => {
    for (const vkey of [`${key.vkey}\n`, `${key.vkey}\r\n`, ` ${key.vkey}`])
      expect(await checkProof({ proof, body, keys: [vkey] })).toMatchObject({
        valid: true,
        signedBy: key.vkey,
      });
  });

  it.each([
    ['not a verifier key', 'key'],
    ['a key with a wrong id', formatVerifierKey({ ...parseVerifierKey(key.vkey), keyId: 1 })],
    ['a key of a witness', formatVerifierKey({ ...parseVerifierKey(key.vkey), type: 4 })],
  ])('[R-908] reports that a key cannot be used if it is %s', async (_, vkey) => {
    const verdict = await checkProof({ proof, body, keys: [key.vkey, vkey] });
    expect(verdict).toMatchObject({ valid: false, reason: 'key-unusable' });
  });

  describe('after the log has changed its key', () => {
    const rotations = [sampleRotation(key, nextKey)];
    const later = sampleProof(events, INDEX, sampleCheckpoint(events, nextKey));

    it('[R-908] follows the rotation from the key that the caller holds', async () => {
      const verdict = await checkProof({ proof: later, body, keys, rotations });
      expect(verdict).toMatchObject({ valid: true, signedBy: nextKey.vkey });
    });

    it('[R-908] does not trust the new key without the rotation note', async () => {
      expect(await checkProof({ proof: later, body, keys })).toMatchObject({ reason: 'untrusted-key' });
    });

    it('[R-908] accepts a checkpoint of the overlap by either key', async () => {
      const both = sampleProof(events, INDEX, sampleCheckpoint(events, key, nextKey));
      expect(await checkProof({ proof: both, body, keys })).toMatchObject({ signedBy: key.vkey });
      expect(await checkProof({ proof: both, body, keys: [nextKey.vkey] })).toMatchObject({
        signedBy: nextKey.vkey,
      });
    });

    it('[R-908] refuses a rotation that the trusted key has not signed', async () => {
      const stolen = [sampleRotation(key, stranger, stranger)];
      expect(await checkProof({ proof, body, keys, rotations: stolen })).toEqual({
        valid: false,
        reason: 'rotation-refused',
        message: 'A key rotation cannot be followed: rotation note 1: the old key has not signed it.',
      });
    });
  });

  it.each([
    ['nothing', '', 'no empty line'],
    ['no extra data', proof.replace(/extra .*\n/, ''), 'cut short'],
    [
      'extra data that is cut short',
      sampleProof(events, INDEX, checkpoint, extra.subarray(0, 50)),
      'cut short',
    ],
    [
      'a salt of 15 bytes',
      sampleProof(events, INDEX, checkpoint, extra.subarray(0, -1)),
      'a salt of 16 bytes',
    ],
    [
      'a byte after the salt',
      sampleProof(events, INDEX, checkpoint, Buffer.concat([extra, Buffer.of(0)])),
      'a salt of 16 bytes',
    ],
    ['a checkpoint that was cut short', proof.slice(0, -20), 'end with a newline'],
    ['a checkpoint without a signature', proof.slice(0, proof.indexOf('—')), 'no signature'],
    [
      'a key rotation for a checkpoint',
      formatProof({ ...parseProof(proof), checkpoint: sampleRotation(key, nextKey) }),
      'that of a key rotation',
    ],
  ])('[R-908] reports a malformed proof if it has %s', async (_, malformed, message) => {
    const verdict = await checkProof({ proof: malformed, body, keys });
    expect(verdict).toMatchObject({ valid: false, reason: 'proof-malformed' });
    expect(verdict.valid ? '' : verdict.message).toContain(message);
  });

  it('throws where there is no cryptography', async () => {
    vi.stubGlobal('crypto', {});
    try {
      await expect(checkProof({ proof, body, keys })).rejects.toThrow(CryptographyMissing);
    } finally {
      vi.unstubAllGlobals();
    }
  });
});
