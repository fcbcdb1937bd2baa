/** Runs with all odd forms, for the tests of formats. */
import fc from 'fast-check';
import type { BaseEvent } from '@clinical-events/protocol';
import { assembleRun, type AssembledRun } from '../../../src/records/assemble.js';
import type { FileFormat } from '../../../src/records/exports/file-format.js';
import type { EventBody } from '../../../src/records/run-event.js';
import { anyRun } from '../any-run.js';
import { event, fullRun, id } from '../run-events.js';

/** Some runs of any sort. */
export const anyRuns: fc.Arbitrary<AssembledRun<BaseEvent>[]> = fc.array(
  anyRun.map((sent) => assembleRun(sent.map(({ event: each }) => each))),
  { maxLength: 6 },
);

/** A run whose texts would break a format that does not quote them. */
export function awkwardRun(): AssembledRun<BaseEvent> {
  return assembleRun([
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

export function plainRun(): AssembledRun<BaseEvent> {
  return assembleRun(fullRun());
}

/** The file of these runs, made of two pieces, as a large export is. */
export function fileOf<Body extends EventBody>(
  format: FileFormat<Body>,
  runs: readonly AssembledRun<Body>[],
): Buffer {
  const joiner = format.joiner();
  const pieces = [runs.slice(0, 1), runs.slice(1)].map((those) => {
    const builder = format.builder();
    for (const run of those) builder.add(run);
    // The form in which it arrives from a thread.
    return joiner.join(structuredClone(builder.take()));
  });
  return Buffer.concat([...pieces, joiner.finish()]);
}
