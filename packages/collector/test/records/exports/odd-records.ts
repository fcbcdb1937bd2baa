/** Records with everything odd in them, for the tests of formats. */
import fc from 'fast-check';
import type { ClinicalRecord } from '@clinical-events/protocol';
import { assembleRecord } from '../../../src/records/assemble.js';
import type { FileFormat } from '../../../src/records/exports/record-encoder.js';
import { anyRun } from '../any-run.js';
import { event, fullRun, id } from '../run-events.js';

/** Some records, each of a run of any sort. */
export const anyRecords: fc.Arbitrary<ClinicalRecord[]> = fc.array(
  anyRun.map((sent) => assembleRecord(sent.map(({ event: each }) => each))),
  { maxLength: 6 },
);

/** A record whose texts would break a format that does not quote them. */
export function awkwardRecord(): ClinicalRecord {
  return assembleRecord([
    event({
      kind: 'inference-start',
      n: 1,
      more: {
        model_instance: { model_id: '=cmd|"/c calc"!A1', model_version: '1,2\r\n3' },
        inputs: { prompt: 'Line one\n"line two", and a comma', temperature: 0.1 },
      },
    }),
    event({
      kind: 'outcome',
      n: 2,
      parent: id(1),
      more: { outcome: { outcome_type: { code: 7 }, dose: 12 } },
    }),
    event({
      kind: 'user-feedback',
      n: 3,
      more: { feedback: { feedback_type: 'rating', rating_value: 4.5, comment: '-1+1, 护理 🩺' } },
    }),
  ]);
}

export function plainRecord(): ClinicalRecord {
  return assembleRecord(fullRun());
}

/** The file of these records, made of two pieces, as a large export is. */
export function fileOf(format: FileFormat, records: readonly ClinicalRecord[]): Buffer {
  const joiner = format.joiner();
  const pieces = [records.slice(0, 1), records.slice(1)].map((those) => {
    const builder = format.builder();
    for (const record of those) builder.add(record);
    // As it arrives from a thread.
    return joiner.join(structuredClone(builder.take()));
  });
  return Buffer.concat([...pieces, joiner.finish()]);
}
