import { randomUUID } from 'node:crypto';
import { EVENT_KINDS, EVENT_PATHS } from '@clinical-events/protocol';
import { describe, expect, test } from 'vitest';
import { storedEvents } from '../running/collector-process.js';
import { issueKey } from '../running/issued-keys.js';
import { oneCollector } from '../running/one-collector.js';
import { send, type RawAnswer } from '../running/raw-http.js';
import { outcomeText, sampleEvent } from '../running/sample-events.js';
import { storedBodies } from '../running/stored-bodies.js';

const ACCEPTED = '{"status":"accepted"}';
/** Every header of a 201; none contains any of the event. */
const ACCEPTED_HEADERS = {
  'Content-Type': 'application/json',
  'Content-Length': String(ACCEPTED.length),
  'X-Request-Id': expect.stringMatching(/^[0-9a-f]{20}$/) as string,
  Date: expect.stringMatching(/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/) as string,
  Connection: 'keep-alive',
  'Keep-Alive': 'timeout=65',
};

let otherKey = '';
const collector = oneCollector([], async (dataDir) => {
  otherKey = (await issueKey(dataDir, { organisation: 'another-hospital' })).text;
});

function post(body: string, { key = collector.key, target = '/event/outcome' } = {}): Promise<RawAnswer> {
  return send(collector.port, { key, target, body });
}

async function expectAccepted(answer: Promise<RawAnswer>): Promise<void> {
  const { status, headers, body } = await answer;
  expect({ status, body }).toEqual({ status: 201, body: ACCEPTED });
  expect(Object.fromEntries(headers)).toEqual(ACCEPTED_HEADERS);
}

async function expectConflict(answer: Promise<RawAnswer>): Promise<void> {
  const { status, body } = await answer;
  expect({ status, body }).toEqual({
    status: 409,
    body: '{"message":"Another event has this event_id.","code":"event_id_conflict"}',
  });
}

function bodiesOf(eventId: string): string[] {
  return storedBodies(collector.dataDir, eventId);
}

describe('an accepted event', () => {
  test('of each kind is answered 201 with the acceptance and nothing else, and is stored as its kind [R-301] [R-302]', async () => {
    const sent = EVENT_KINDS.map((kind) => ({ kind, event: sampleEvent(kind) }));
    for (const { kind, event } of sent) {
      await expectAccepted(post(JSON.stringify(event), { target: EVENT_PATHS[kind] }));
    }
    const stored = await storedEvents(collector.dataDir);
    for (const { kind, event } of sent) {
      const found = stored.filter(({ event_id }) => event_id === event.event_id);
      expect(found.map((one) => [one.kind, one.body])).toEqual([[kind, JSON.stringify(event)]]);
    }
  });

  test('is answered with the same bytes whatever its content, apart from date and request id [R-302]', async () => {
    const small = await post(outcomeText('0'));
    const large = await post(outcomeText(JSON.stringify('patient-4711 '.repeat(5000))));
    const undated = (answer: RawAnswer) => answer.raw.replace(/(Date|X-Request-Id): .*\r\n/g, '');
    expect(undated(large)).toBe(undated(small));
  });
});

describe('a repeat', () => {
  const REPEATS: readonly (readonly [
    what: string,
    first: (id: string) => string,
    again: (id: string) => string,
  ])[] = [
    ['byte for byte', (i) => outcomeText('1', i), (i) => outcomeText('1', i)],
    [
      'with more white space',
      (i) => outcomeText('[1,{"a":2}]', i),
      (i) => `\r\n\t ${outcomeText('[ 1 ,\n{ "a" :\t2 } ]', i)} \n`,
    ],
    [
      'with its keys in another order',
      (i) => outcomeText('{"a":1,"b":{"c":2,"d":3}}', i),
      (i) => outcomeText('{"b":{"d":3,"c":2},"a":1}', i),
    ],
    ['with 1 spelt 1.0', (i) => outcomeText('1', i), (i) => outcomeText('1.0', i)],
    ['with 1 spelt 10e-1', (i) => outcomeText('1', i), (i) => outcomeText('10e-1', i)],
    ['with 1.10 spelt 1.1', (i) => outcomeText('1.10', i), (i) => outcomeText('1.1', i)],
    ['with 1e400 spelt 10E+399', (i) => outcomeText('1e400', i), (i) => outcomeText('10E+399', i)],
    ['with 0 spelt -0.00e7', (i) => outcomeText('0', i), (i) => outcomeText('-0.00e7', i)],
    [
      'with a letter escaped',
      (i) => outcomeText('"A/é😀"', i),
      (i) => outcomeText(String.raw`"\u0041\/\u00e9\ud83d\ude00"`, i),
    ],
    [
      'with a key escaped',
      (i) => outcomeText('{"key":1}', i),
      (i) => outcomeText(String.raw`{"\u006bey":1}`, i),
    ],
    [
      'with __proto__ among reordered keys',
      (i) => outcomeText('{"__proto__":1,"b":2}', i),
      (i) => outcomeText('{"b":2,"__proto__":1}', i),
    ],
  ];

  test.each(REPEATS)(
    '%s is answered 201 and stored once, as the first came [R-304]',
    async (_what, first, again) => {
      const eventId = randomUUID();
      await expectAccepted(post(first(eventId)));
      await expectAccepted(post(again(eventId)));
      expect(bodiesOf(eventId)).toEqual([first(eventId)]);
    },
  );

  test('that is sent at the same time on other connections is answered 201 and stored once [R-304]', async () => {
    const eventId = randomUUID();
    await Promise.all(
      Array.from({ length: 24 }, () => expectAccepted(post(outcomeText('"at once"', eventId)))),
    );
    expect(bodiesOf(eventId)).toHaveLength(1);
  });
});

describe('a conflict', () => {
  const CONFLICTS: readonly (readonly [what: string, first: string, other: string])[] = [
    ['another value', '1', '2'],
    ['a number that differs in its last digit', '12345678901234567890', '12345678901234567891'],
    ['a number beyond the range of doubles', '1e400', '1e401'],
    ['a number for its string', '1', '"1"'],
    ['null for a missing member', '{}', '{"a":null}'],
    ['an array in another order', '[1,2]', '[2,1]'],
    ['an empty object for an empty array', '{}', '[]'],
    ['another prototype member', '{"__proto__":1}', '{"__proto__":2}'],
    ['a string of another normal form', String.raw`"\u00e9"`, String.raw`"e\u0301"`],
    ['another lone surrogate', String.raw`"\ud800"`, String.raw`"\ud801"`],
  ];

  test.each(CONFLICTS)(
    'by %s is answered 409, and the first event is kept [R-305]',
    async (_what, first, other) => {
      const eventId = randomUUID();
      await expectAccepted(post(outcomeText(first, eventId)));
      await expectConflict(post(outcomeText(other, eventId)));
      await expectAccepted(post(outcomeText(first, eventId)));
      expect(bodiesOf(eventId)).toEqual([outcomeText(first, eventId)]);
    },
  );

  test('is also the same content at another endpoint [R-305]', async () => {
    const event = sampleEvent('outcome', { feedback: {}, output: {} });
    const body = JSON.stringify(event);
    await expectAccepted(post(body));
    await expectConflict(post(body, { target: '/event/user-feedback' }));
    await expectConflict(post(body, { target: '/event/human-output' }));
    expect(bodiesOf(event.event_id)).toEqual([body]);
  });

  test('depends on the id and not on its spelling in upper case [R-305] [R-1416]', async () => {
    const eventId = randomUUID();
    await expectAccepted(post(outcomeText('1', eventId)));
    await expectAccepted(post(outcomeText('1', eventId.toUpperCase())));
    await expectConflict(post(outcomeText('2', eventId.toUpperCase())));
    expect(bodiesOf(eventId)).toEqual([outcomeText('1', eventId)]);
  });

  test('between concurrent events leaves exactly one of them accepted [R-305]', async () => {
    const eventId = randomUUID();
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, i) => post(outcomeText(String(i), eventId))),
    );
    const accepted = answers.flatMap(({ status }, i) => (status === 201 ? [i] : []));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array<number>(15).fill(409)]);
    expect(bodiesOf(eventId)).toEqual(accepted.map((i) => outcomeText(String(i), eventId)));
  });
});

test('the same id in another organisation is another event, and neither reveals the other [R-306]', async () => {
  const eventId = randomUUID();
  await expectAccepted(post(outcomeText('"ours"', eventId)));
  await expectAccepted(post(outcomeText('"theirs"', eventId), { key: otherKey }));
  await expectConflict(post(outcomeText('"theirs"', eventId)));
  expect(bodiesOf(eventId)).toEqual([outcomeText('"ours"', eventId), outcomeText('"theirs"', eventId)]);
  const theirs = await storedEvents(collector.dataDir, '--organisation', 'another-hospital');
  expect(theirs.map((event) => [event.event_id, event.organisation])).toEqual([
    [eventId, 'another-hospital'],
  ]);
});

test.each(['GET', 'HEAD', 'PUT', 'DELETE', 'PATCH'])(
  'nothing can be read or changed by %s [R-307]',
  async (method) => {
    const event = sampleEvent('outcome', { note: 'patient-4711' });
    await expectAccepted(post(JSON.stringify(event)));
    for (const target of ['/event/outcome', `/event/outcome/${event.event_id}`, '/event', '/', '/events']) {
      const answer = await send(collector.port, { method, target, key: collector.key });
      expect(answer.status).toBe(target === '/event/outcome' ? 405 : 404);
      expect(answer.raw).not.toContain(event.event_id);
      expect(answer.raw).not.toContain('patient-4711');
    }
    expect(bodiesOf(event.event_id)).toEqual([JSON.stringify(event)]);
  },
);

describe('an unknown member', () => {
  const KEPT: readonly (readonly [what: string, text: string])[] = [
    ['a number beyond doubles', '1e400'],
    ['an integer beyond doubles', '12345678901234567890'],
    ['trailing zeros', '1.10'],
    ['a negative zero', '-0'],
    ['a power of ten in odd spelling', '1E+002'],
    ['equal keys in different objects', '[{"a":{"a":1}},{"a":{"a":1}}]'],
    ['__proto__', '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}'],
    ['names of object methods', '{"toString":1,"hasOwnProperty":null,"valueOf":[],"length":-1}'],
    ['emoji', '"👩🏽‍⚕️ \u2028 \u2029 \ufeff"'],
    ['escapes', String.raw`"\u0000\b\f\n\r\t\"\\\/\u00E9\uD83D\uDE00"`],
    ['lone surrogates', String.raw`["\ud800","\udfff\ud800"]`],
    ['empty names', '{"":{"":""}}'],
    ['integer-like names out of order', '{"2":0,"1":0,"01":0}'],
    ['white space and CRLF', '[ 1 ,\r\n\t2\r\n]'],
    ['null', 'null'],
  ];

  test.each(KEPT)('is kept byte for byte: %s [R-112] [R-120]', async (_what, text) => {
    const eventId = randomUUID();
    const body = `\r\n\t ${outcomeText(text, eventId)} \r\n\r\n`;
    await expectAccepted(post(body));
    expect(bodiesOf(eventId)).toEqual([body]);
  });

  test('is kept in the base, in the payload, and beside known members [R-112]', async () => {
    const event = sampleEvent('inference-start', { x_top: { deep: [null] } });
    const body = JSON.stringify({
      ...event,
      system_metadata: { x_meta: 1, hostname: 'h' },
      inputs: { x_inputs: true, prompt: 'p' },
      output: 'not this kind',
      received_at: 'not ours',
    });
    await expectAccepted(post(body, { target: '/event/inference-start' }));
    expect(bodiesOf(event.event_id)).toEqual([body]);
  });
});

describe('no event is refused', () => {
  test.each(['0001-01-01T00:00:00Z', '1970-01-01T00:00:00+14:00', '9999-12-31T23:59:59.999999-12:00'])(
    '[R-119] for a clock that shows %s: it is stored beside the time of its arrival',
    async (timestamp) => {
      const event = sampleEvent('outcome', { timestamp });
      const before = Date.now();
      await expectAccepted(post(JSON.stringify(event)));
      const stored = (await storedEvents(collector.dataDir)).find(
        ({ event_id }) => event_id === event.event_id,
      );
      expect(JSON.parse(stored?.body ?? '')).toMatchObject({ timestamp });
      expect(Date.parse(stored?.received_at ?? '')).toBeGreaterThanOrEqual(before);
      expect(Date.parse(stored?.received_at ?? '')).toBeLessThanOrEqual(Date.now());
    },
  );

  test('[R-202] because it comes before the start of its run, or names an unknown run and parent', async () => {
    const runId = randomUUID();
    const late = sampleEvent('inference-start', { run_id: runId });
    const kinds = ['outcome', 'user-feedback', 'human-output', 'internal-artifact'] as const;
    for (const kind of kinds) {
      const event = sampleEvent(kind, { run_id: runId, parent_event_id: randomUUID() });
      await expectAccepted(post(JSON.stringify(event), { target: EVENT_PATHS[kind] }));
    }
    await expectAccepted(post(JSON.stringify(late), { target: EVENT_PATHS['inference-start'] }));
    const stored = await storedEvents(collector.dataDir, '--run', runId);
    expect(stored.map(({ kind }) => kind)).toEqual([...kinds, 'inference-start']);
  });
});
