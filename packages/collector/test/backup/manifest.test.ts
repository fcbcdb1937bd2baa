import { hash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  byAge,
  formatManifest,
  manifestName,
  parseManifest,
  readManifestName,
  type Manifest,
} from '../../src/backup/manifest.js';

const sha256 = fc.uint8Array({ maxLength: 4 }).map((bytes) => hash('sha256', bytes, 'hex'));
const noted = (file: string) => fc.record({ file: fc.constant(file), bytes: fc.maxSafeNat(), sha256 });

const instants = fc
  .date({ min: new Date('2020-01-01'), max: new Date('2099-12-31'), noInvalidDate: true })
  .map((date) => date.toISOString());

const manifests: fc.Arbitrary<Manifest> = fc.record({
  format: fc.constant('clinical-events-backup' as const),
  version: fc.constant(1 as const),
  tool: fc.string(),
  time: instants,
  ledger_id: fc.string(),
  origin: fc.string(),
  events: fc.maxSafeNat(),
  entries: fc.maxSafeNat(),
  signed_entries: fc.maxSafeNat(),
  root: fc.string(),
  last_received_at: fc.option(instants),
  checkpoint: fc.string({ unit: 'grapheme' }),
  cosigned: fc.dictionary(fc.constant('cosigned-0a1b2c3d'), fc.string(), { noNullPrototype: true }),
  catalogue: noted('files.sha256'),
  segment: noted('ledger/0000000000000001.segment'),
  access_log: fc.option(noted('access-log/0001')),
  keys: fc.option(sha256.map((hex) => `keys/${hex}.db`)),
  signing_keys: fc.array(fc.constant('signing-keys/0a1b2c3d.pem')),
});

test('[R-811] a manifest is read as it was written, and its name tells its time and its entries', () => {
  fc.assert(
    fc.property(manifests, (manifest) => {
      const name = manifestName(manifest);
      expect(parseManifest(formatManifest(manifest), name)).toEqual(manifest);
      expect(readManifestName(name)).toEqual({
        ...{ name, time: Date.parse(manifest.time), entries: manifest.entries },
      });
    }),
  );
});

test('[R-812] a manifest of which one bit has changed, or that has another name, is refused', () => {
  fc.assert(
    fc.property(manifests, fc.nat(), fc.nat(7), (manifest, place, bit) => {
      const name = manifestName(manifest);
      const bytes = Buffer.from(formatManifest(manifest));
      const at = place % bytes.length;
      bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << bit), at);
      expect(() => parseManifest(bytes.toString(), name)).toThrow(`manifests/${name}`);
      expect(() => parseManifest(formatManifest(manifest), `1${name}`)).toThrow('not as it was written');
    }),
  );
});

test('[R-812] no manifest leads out of a directory, and none of a later version is guessed at', () => {
  const [sample] = fc.sample(manifests, 1);
  if (sample === undefined) throw new Error('no sample');
  const refused = (change: object) => {
    const manifest = { ...sample, ...change };
    return expect(() => parseManifest(formatManifest(manifest), manifestName(manifest)));
  };
  for (const file of ['../keys.db', '/etc/passwd', 'ledger/../../x', 'keys.db']) {
    refused({ keys: file }).toThrow('not as it was written');
    refused({ segment: { ...sample.segment, file } }).toThrow('not as it was written');
    refused({ access_log: { ...sample.segment, file } }).toThrow('not as it was written');
    refused({ signing_keys: [file] }).toThrow('not as it was written');
    refused({ cosigned: { [file]: 'x' } }).toThrow('not as it was written');
  }
  refused({ events: -1 }).toThrow();
  refused({ entries: -1 }).toThrow();
  refused({ last_received_at: '\u001b[2J' }).toThrow();
  refused({ version: 2 }).toThrow('later version');
  for (const text of ['', 'null', '{}', '[]', '{"manifest":1}']) {
    expect(() => parseManifest(text, 'x')).toThrow('not as it was written');
  }
});

test('of two back-ups the one with more entries is the newer, whatever the clock said', () => {
  const names = ['20260101T000000000Z-7.json', '20250101T000000000Z-9.json', '20260102T000000000Z-7.json'];
  const read = names.flatMap((name) => readManifestName(name) ?? []).sort(byAge);
  expect(read.map(({ name }) => name)).toEqual([names[0], names[2], names[1]]);
  for (const name of ['x.json', '20260101T000000Z-7.json', '20260101T000000000Z-.json']) {
    expect(readManifestName(name)).toBeUndefined();
  }
});

test('[R-812] a manifest that is nested without end is called damaged', () => {
  const text = `{"manifest":${'['.repeat(1e6)}${']'.repeat(1e6)}}`;
  expect(() => parseManifest(text, '1.json')).toThrow('manifests/1.json is not as it was written');
});
