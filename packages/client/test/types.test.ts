// The compiler is the test here: `tsc` checks these lines, Vitest only runs them.
import { expectTypeOf, test } from 'vitest';
import type { Captured, Client, Outcome, Run, RunHandle, RunStart, Sampling } from '../src/index.js';

type Written = (log: Client, full: Client<'full'>) => void;
const model = { model_id: 'm', model_version: '1' };

test('[R-861] the calls are typed by the schemas of the protocol', () => {
  const written: Written = (log) => {
    const run = log.startRun({ model, user: { caller_id: 'u' }, inputs: { prompt: 'p' } });
    expectTypeOf(run).toEqualTypeOf<Run>();
    expectTypeOf(run.startRun({})).toEqualTypeOf<Run>();
    expectTypeOf(log.run('id')).toEqualTypeOf<RunHandle>();
    expectTypeOf(run.output({ own_field: 1 })).toEqualTypeOf<Captured>();
    run.artifact({ artifact_type: 'tool_call', artifact_uri: 'urn:x:1', tool: 'lookup' });
    run.artifact({ artifact_type: 'tool_call' }, { content: 'stored by itself' });
    // @ts-expect-error An artifact has a type of the list.
    run.artifact({ artifact_type: 'thought', artifact_uri: 'urn:x:1' });
    // @ts-expect-error An artifact has a URI or content.
    run.artifact({ artifact_type: 'tool_call' });
    // @ts-expect-error A summary is a text.
    run.output({ summary: 5 });
    // @ts-expect-error A latency is a number.
    run.output({}, { latencyMs: '5' });
    // @ts-expect-error The model is an object.
    log.startRun({ model: 'm' });
  };
  expectTypeOf(written).toBeFunction();
});

test('[R-861] with the profile full, the calls require its members', () => {
  const written: Written = (_log, full) => {
    const run = full.startRun({
      ...{ model, inputs: {}, user: { caller_type: 'clinician' }, target: { target_type: 'patient' } },
    });
    run.output({ output_uri: 'urn:x:1', output_type: 'text' });
    run.output({ output_type: 'text' }, { content: 'stored by itself' });
    run.outcome({ outcome_type: 'validated' });
    run.feedback({ feedback_type: 'thumbs' });
    // @ts-expect-error The output has a URI or content.
    run.output({ summary: 's' });
    // @ts-expect-error The vocabulary is closed.
    run.outcome({ outcome_type: 'wonderful' });
    // @ts-expect-error All four members are required.
    full.startRun({ model });
  };
  expectTypeOf(written).toBeFunction();
  expectTypeOf<RunStart<'full'>['user']>().not.toBeNullable();
});

test('[R-861] a captured event can be awaited, and a run cannot', () => {
  expectTypeOf<Awaited<Captured>>().toEqualTypeOf<Outcome>();
  expectTypeOf<Captured['eventId']>().toBeString();
  expectTypeOf<Run>().not.toHaveProperty('then');
});

test('[R-863] the risk predicate is typed by the kind of its event', () => {
  const risk: NonNullable<Sampling['risk']> = ({ kind, payload }) =>
    kind === 'human-output' && payload.output['alarm'] === true;
  expectTypeOf(risk).returns.toBeBoolean();
});
