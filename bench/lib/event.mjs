/** The event that the bench sends: for wrk, for the filler, for single requests. */
import { randomUUID } from 'node:crypto';

export const KIND = 'internal-artifact';
export const EVENT_BYTES = 1200;
const RUN_ID = '0b2c5a3e-7f2d-4c58-9a52-0d5e3b1c9f10';

export const RUN_ID_BYTES = Buffer.from(RUN_ID.replaceAll('-', ''), 'hex');
export const ID_LENGTH = 36;

const PROSE =
  'The estimate rose with the lactate of the morning round and the oxygen need of the last two hours. ' +
  'Blood pressure and diuresis were within the range of the day before. The passage on early recognition ' +
  'was retrieved and weighed; the alternative explanation, recent surgery, was found less likely. ';

/**
 * The pieces of a body of exactly `bytes` bytes: `before`, an id of 36 characters, `middle`, as many `x` as
 * `padding` says, `after`.
 */
export function shapeOf(bytes = EVENT_BYTES) {
  const before = '{"event_id":"';
  const fields = {
    run_id: RUN_ID,
    parent_event_id: RUN_ID,
    timestamp: '2026-03-02T08:31:44.611Z',
    protocol_version: '0.0.1',
    system_metadata: {
      hostname: 'icu-inference-02',
      app_name: 'deterioration-watch',
      proc_id: '4711',
      latency_ms: 132,
    },
    artifact: {
      artifact_type: 'reasoning_trace',
      artifact_uri: 's3://traces/2026/03/02/deterioration-watch.jsonl',
      mime_type: 'application/jsonl',
      description: PROSE,
    },
  };
  const after = '"}}';
  const middle = `",${JSON.stringify(fields).slice(1, -after.length)}`;
  const padding = bytes - before.length - ID_LENGTH - middle.length - after.length;
  if (padding < 0) throw new Error(`an event has at least ${bytes - padding} bytes`);
  return { before, middle, padding, after };
}

/** One whole body with an id of its own. */
export function newEvent(shape = shapeOf()) {
  return `${shape.before}${randomUUID()}${shape.middle}${'x'.repeat(shape.padding)}${shape.after}`;
}
