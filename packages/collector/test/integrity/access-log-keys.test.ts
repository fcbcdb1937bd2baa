import { generateKeyPairSync } from 'node:crypto';
import { formatCheckpoint } from '@clinical-events/protocol/verify';
import { describe, expect, test } from 'vitest';
import { accessLogCheckpoint, accessLogKey, accessLogOrigin } from '../../src/integrity/access-log-keys.js';
import { EMPTY_ROOT } from '../../src/integrity/merkle.js';
import { noteKey, signNote, verifierKeyOf } from '../../src/integrity/note-signing.js';

const ORIGIN = 'log.example/ward-7';
const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const key = noteKey(verifierKeyOf(ORIGIN, publicKey));

function signed(origin: string, name: string): string {
  return signNote(formatCheckpoint({ origin, size: 0, root: EMPTY_ROOT }), [{ name, privateKey }]);
}

describe('a key of a log, for its readings', () => {
  test('[R-718] is the same key under the name of their log, with another key id', () => {
    const ofReadings = accessLogKey(key);
    expect(accessLogOrigin(ORIGIN)).toBe('log.example/ward-7/access-log');
    expect(ofReadings.name).toBe('log.example/ward-7/access-log');
    expect(ofReadings.publicKey.equals(key.publicKey)).toBe(true);
    expect(ofReadings.keyId).not.toBe(key.keyId);
  });

  test('[R-718] takes no checkpoint of the log for one of its readings, nor the other way about', () => {
    const [keys, readings] = [[accessLogKey(key)], accessLogOrigin(ORIGIN)];
    expect(accessLogCheckpoint(signed(readings, readings), keys)).toMatchObject({
      origin: readings,
      size: 0,
    });
    expect(() => accessLogCheckpoint(signed(ORIGIN, ORIGIN), keys)).toThrow('none of the known keys');
    expect(() => accessLogCheckpoint(signed(readings, ORIGIN), keys)).toThrow('none of the known keys');
    expect(() => accessLogCheckpoint(signed(ORIGIN, readings), keys)).toThrow(`it is of ${ORIGIN}`);
    expect(() => accessLogCheckpoint(signed(readings, readings), [key])).toThrow('none of the known keys');
  });
});
