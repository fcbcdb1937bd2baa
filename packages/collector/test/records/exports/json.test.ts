import type { ClinicalRecord } from '@clinical-events/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { json, ndjson } from '../../../src/records/exports/json.js';
import { schemaFaults } from '../record-schema.js';
import { anyRuns, fileOf } from './odd-runs.js';

test('each line of NDJSON is one record as its schema has it, and JSON has the same in an array [R-712]', () => {
  fc.assert(
    fc.property(anyRuns, (runs) => {
      const written = fileOf(ndjson, runs).toString().split('\n');
      expect(written.pop()).toBe('');
      expect(written.length).toBe(runs.length);
      for (const line of written) expect(schemaFaults(JSON.parse(line) as ClinicalRecord)).toEqual([]);
      const array = fileOf(json, runs).toString();
      expect(JSON.parse(array)).toEqual(written.map((line) => JSON.parse(line) as unknown));
      // To the last digit, which JSON.parse would have lost in both.
      if (runs.length > 0) expect(array).toBe(`[\n${written.join(',\n')}\n]\n`);
    }),
    { numRuns: 50 },
  );
});
