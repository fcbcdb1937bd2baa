// The events that both sides get: those of the demonstration, and odd ones. Each is one request, in groups; between two
// groups the clock advances. Odd events are sent one at a time, so that their places in the log are certain.
import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { createHash } from 'node:crypto';

/** Lines of `collector demo --out` as requests. */
export function demoRequests(lines) {
  return lines.map((line) => {
    const { kind, body } = JSON.parse(line);
    const text = body ?? line.slice(line.indexOf('"event":') + '"event":'.length, -1);
    return { kind, body: Buffer.from(text) };
  });
}

const KINDS = ['inference-start', 'internal-artifact', 'human-output', 'outcome', 'user-feedback'];
const AT = '2026-01-15T10:00:00.000Z';
const TIMES =
  `2026-01-15T10:00:00 2026-01-15T10:00:00+14:00 2026-01-15t10:00:00z 2026-01-15T10:00:00.123456789Z
  2016-12-31T23:59:60Z 9999-12-31T23:59:59Z 0001-01-01T00:00:00Z 2026-02-30T00:00:00Z 2026-01-15
  1969-12-31T23:59:59.999-00:00`.split(/\s+/);
const NO_EVENTS = [
  '',
  ' ',
  ...'{} [] null "text" {"a":1,} {"a":NaN} \ufeff{} {"a":"\u0001"}'.split(' '),
  '{'.repeat(70),
];
/** Texts with a meaning for a spreadsheet, a terminal or a database. */
const TRICKY = ['=1+1', '@a', '-1', '+1', '\t=1', 'a,"b"\nc', '\u202eabc', "'quoted", '\u0000', '🩺'];

/** A UUID that belongs to a text. */
export function idOf(text) {
  const hex = createHash('sha256').update(text).digest('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** A valid event of a kind. @param name of the event, from which its id comes; `run` of its run. */
export function event(kind, name, run, more = {}) {
  const base = {
    event_id: idOf(name),
    ...(run !== undefined && { run_id: idOf(run) }),
    timestamp: AT,
    protocol_version: '0.0.1',
    system_metadata: { app_name: 'net', hostname: 'net-1', latency_ms: 12 },
  };
  const payload = {
    'inference-start': {
      model_instance: { model_id: 'net-model', model_version: '1.0' },
      user_identity: { caller_id: 'clinician-1', caller_type: 'clinician' },
      target_identity: { target_id: `patient-${run}`, target_type: 'patient' },
      inputs: { prompt: 'a prompt' },
    },
    'internal-artifact': { artifact: { artifact_type: 'note', artifact_uri: 's3://net/note.txt' } },
    'human-output': { output: { output_type: 'text', output_uri: 's3://net/output.txt' } },
    outcome: { outcome: { outcome_type: 'validated', occurred_at: AT } },
    'user-feedback': { feedback: { feedback_type: 'thumbs', direction: 'up' } },
  }[kind];
  return { ...base, ...payload, ...more };
}

const request = (kind, value, more = {}) => ({
  kind,
  body: Buffer.isBuffer(value)
    ? value
    : Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)),
  ...more,
});

/** @param how it is sent. */
const sent = (kind, name, run, more = {}, how = {}) => request(kind, event(kind, name, run, more), how);

const coded = (coding, compress, value) =>
  request('inference-start', compress(JSON.stringify(value)), {
    ...{ id: value.event_id, headers: { 'Content-Encoding': coding } },
  });

/** @returns how many events are stored: each id once for each key's organisation. */
export function storedOf(requests, answers, organisationOf) {
  const stored = requests.flatMap(({ id, body, key }, at) =>
    answers[at].status !== 201
      ? []
      : [`${organisationOf(key)} ${(id ?? JSON.parse(body).event_id).toLowerCase()}`],
  );
  return new Set(stored).size;
}

/** @param known requests that both sides have accepted. @returns requests in groups, each with a name. */
export function oddRequests(known) {
  const text = (kind, name, change) => {
    const made = JSON.stringify(event(kind, name, name));
    const changed = change(made);
    if (changed === made) throw new Error(`nothing was changed for ${name}`);
    return request(kind, changed);
  };
  const withText = (name, value) => event('inference-start', name, name, { inputs: { prompt: value } });
  return {
    repeats: known.slice(100, 140).map((one) => ({ ...one })),
    respelt: known.slice(140, 170).map(({ kind, body }) => {
      const entries = Object.entries(JSON.parse(body)).reverse();
      return request(kind, JSON.stringify(Object.fromEntries(entries), undefined, 2));
    }),
    conflicts: known.slice(170, 200).map(({ kind, body }) => {
      return request(kind, { ...JSON.parse(body), timestamp: '2020-01-01T00:00:00Z' });
    }),
    'odd JSON': [
      ...NO_EVENTS.map((body) => request('outcome', body)),
      request('outcome', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])),
      text('outcome', 'twice the same key', (made) =>
        made.replace('{', '{"timestamp":"2020-01-01T00:00:00Z",'),
      ),
      text('outcome', 'white space', (made) => ` \t\r\n${made.replaceAll(',', ' ,\n\t')}\r\n`),
      text('outcome', 'escapes', (made) => made.replace('"outcome"', '"\\u006futcome"')),
      text('outcome', 'numbers', (made) =>
        made.replace('{', '{"a":[1e400,-0,1E2,0.1e-7,12345678901234567890],'),
      ),
      text('outcome', 'unknown names', (made) =>
        made.replace('{', '{"__proto__":{"a":1},"constructor":2,"":3,'),
      ),
      ...[60, 63, 64, 65].map((depth) =>
        text('outcome', `depth ${depth}`, (made) =>
          made.replace('{', `{"deep":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)},`),
        ),
      ),
    ],
    'lone surrogates': ['\\ud800', '\\udc00', 'a\\ud83d', '\\ud83d\\ude00', '\\udc00\\ud800'].flatMap(
      (escape) => [
        text('inference-start', `surrogate ${escape}`, (made) =>
          made.replace('a prompt', `a ${escape} prompt`),
        ),
        text('inference-start', `name ${escape}`, (made) => made.replace('"net-model"', `"net${escape}"`)),
        text('outcome', `key ${escape}`, (made) => made.replace('{', `{"${escape}":1,`)),
      ],
    ),
    'text for tables': TRICKY.map((value) => {
      return request('inference-start', {
        ...withText(`table ${value}`, value),
        model_instance: { model_id: value, model_version: value },
        target_identity: { target_id: value, target_type: 'patient' },
      });
    }),
    'upper-case ids': [
      ...KINDS.map((kind) => {
        const made = event(kind, `upper ${kind}`, 'upper run');
        return request(kind, {
          ...made,
          event_id: made.event_id.toUpperCase(),
          run_id: made.run_id.toUpperCase(),
        });
      }),
      sent('outcome', 'lower again', 'upper run'),
      request('outcome', {
        ...event('outcome', 'lower again', 'upper run'),
        event_id: idOf('lower again').toUpperCase(),
      }),
      request('outcome', { ...event('outcome', 'braces', 'upper run'), event_id: `{${idOf('braces')}}` }),
      request('outcome', { ...event('outcome', 'urn', 'upper run'), event_id: `urn:uuid:${idOf('urn')}` }),
    ],
    'no run_id': [
      sent('inference-start', 'opens its run'),
      sent('human-output', 'names the run', 'opens its run'),
      sent('human-output', 'names the parent', undefined, { parent_event_id: idOf('opens its run') }),
      sent('outcome', 'names a grandparent', undefined, { parent_event_id: idOf('names the parent') }),
      sent('outcome', 'names an unknown one', undefined, { parent_event_id: idOf('never sent') }),
      sent('outcome', 'comes before its parent', undefined, { parent_event_id: idOf('comes late') }),
      sent('inference-start', 'comes late'),
      sent('outcome', 'names itself', undefined, { parent_event_id: idOf('names itself') }),
      ...['a', 'b'].map((name) =>
        sent('outcome', `circle ${name}`, undefined, {
          parent_event_id: idOf(`circle ${name === 'a' ? 'b' : 'a'}`),
        }),
      ),
      sent('outcome', 'null parent', undefined, { parent_event_id: null }),
      sent('outcome', 'null run', undefined, { run_id: null }),
    ],
    'late outcomes': known
      .filter(({ kind }) => kind === 'inference-start')
      .slice(0, 60)
      .map(({ body }, at) => {
        const start = JSON.parse(body);
        const occurred = new Date(Date.UTC(2026, at % 12, 1 + (at % 28))).toISOString();
        return request('outcome', {
          ...event('outcome', `late ${at}`),
          ...{ run_id: start.run_id ?? start.event_id, timestamp: occurred },
          outcome: {
            outcome_type: ['validated', 'contradicted', 'partial', 'unknown', 'own words'][at % 5],
            occurred_at: occurred,
          },
        });
      }),
    'nested runs': [
      ...[1, 2, 3, 4].map((depth) =>
        sent('inference-start', `nested start ${depth}`, `nested ${depth}`, {
          parent_event_id: depth === 1 ? null : idOf(`nested start ${depth - 1}`),
          target_identity: {
            target_id: depth === 4 ? 'patient-other' : 'patient-nested',
            target_type: 'patient',
          },
        }),
      ),
      ...[1, 2, 3].map((call) =>
        sent('inference-start', `call ${call}`, 'nested 1', {
          model_instance: { model_id: `other-${call}`, model_version: '2' },
          target_identity: {
            target_id: call === 3 ? 'patient-third' : 'patient-nested',
            target_type: 'patient',
          },
        }),
      ),
      ...KINDS.slice(1).map((kind) =>
        sent(kind, `of call 2 ${kind}`, 'nested 1', { parent_event_id: idOf('call 2') }),
      ),
    ],
    thumbs: [
      ...['up', 'down', 'UP', 'sideways', '', null, 1].map((direction) => ({ direction })),
      ...[-1, 0, 1, 2, 2.99, 3, 4.5, 5, 6, 1e9, '4', null, true].map((rating) => ({ rating_value: rating })),
      { direction: 'up', rating_value: 0 },
      { direction: 'down', rating_value: 5 },
      { comment: 'only a comment' },
      ...['rating', 'text', 'survey', 'Thumbs', 'own words', '', 3, null, undefined].map((type) => {
        return { feedback_type: type, rating_value: 4, comment: 'c' };
      }),
      {},
    ].map((more, at) => {
      const feedback = { feedback_type: 'thumbs', ...more };
      return sent('user-feedback', `thumb ${at}`, `thumb ${at % 20}`, { feedback });
    }),
    'times and latencies': [
      ...[...TIMES, 0, null].map((timestamp) => ({ timestamp })),
      ...[-1, 0, 1.5, 2147483647, 2147483648, '12', null].map((latency) => ({
        system_metadata: { latency_ms: latency },
      })),
      { system_metadata: null },
      { system_metadata: { status: 'error', status_code: 500, error: 'model failed' } },
      { protocol_version: '' },
      { protocol_version: '9.9' },
      { event_id: 'no uuid' },
      { parent_event_id: 7 },
    ].map((more, at) => sent('inference-start', `time ${at}`, `time ${at}`, more)),
    'missing parts': KINDS.flatMap((kind) => {
      const whole = event(kind, `missing of ${kind}`, 'missing');
      return Object.keys(whole).map((name) => request(kind, { ...whole, [name]: undefined }));
    }),
    'large bodies': [
      ...[1000, 65_536, 300_000, 1_048_000].map((size) =>
        request('inference-start', withText(`size ${size}`, 'x'.repeat(size))),
      ),
      request('inference-start', withText('too large', 'x'.repeat(1_100_000))),
      ...Object.entries({ gzip: gzipSync, br: brotliCompressSync, zstd: zstdCompressSync }).flatMap(
        ([coding, compress]) =>
          [2000, 900_000, 1_100_000].map((size) =>
            coded(coding, compress, withText(`${coding} ${size}`, 'word '.repeat(size / 5))),
          ),
      ),
    ],
    'not an event': [
      ...Object.entries({
        'no key': { key: null },
        'unknown key': { key: `cek_aaaaaaaaaaaa_${'a'.repeat(43)}` },
        'plain text': { headers: { 'Content-Type': 'text/plain' } },
        latin: { headers: { 'Content-Type': 'application/json; charset=latin1' } },
        coding: { headers: { 'Content-Encoding': 'compress' } },
        'another method': { method: 'PUT' },
        'of another key': { key: 'outcomes' },
        revoked: { key: 'revoked' },
        rotated: { key: 'rotated' },
      }).map(([name, how]) => sent('outcome', name, name, {}, how)),
      sent('inference-start', 'not allowed', 'not allowed', {}, { key: 'outcomes' }),
      request('nothing', event('outcome', 'no such kind', 'no such kind')),
      ...KINDS.map((kind) => sent(kind, `full ${kind}`, 'full', {}, { key: 'full' })),
      sent('outcome', 'not full', 'full', { outcome: { outcome_type: 'own words' } }, { key: 'full' }),
      ...known.slice(0, 20).map((one) => ({ ...one, key: 'ward' })),
    ],
  };
}
