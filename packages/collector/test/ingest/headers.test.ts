import { describe, expect, test } from 'vitest';
import { isJsonMediaType, readHeaders } from '../../src/ingest/request.js';
import { oneCollector } from '../running/one-collector.js';
import { send } from '../running/raw-http.js';
import { sampleEvent } from '../running/sample-events.js';

const collector = oneCollector();

const MEDIA_TYPES: readonly (readonly [type: string | undefined, accepted: boolean])[] = [
  ['application/json', true],
  ['Application/JSON', true],
  ['application/json;charset=utf-8', true],
  ['application/json; charset=utf-8', true],
  ['application/json ; charset=UTF-8', true],
  ['application/json;charset="utf-8"', true],
  ['application/json; charset=utf8', true],
  ['application/json; profile="urn:x"; charset=utf-8', true],
  ['application/json;', true],
  ['application/json; charset=iso-8859-1', false],
  ['application/json; charset=utf-16', false],
  ['application/json; charset=utf-8; charset=latin1', false],
  ['application/json; charset=', false],
  ['application/json; charset', false],
  ['application/jsonp', false],
  ['application/json-seq', false],
  ['application/ld+json', false],
  ['application/fhir+json', false],
  ['application/x-ndjson', false],
  ['application/*', false],
  ['application', false],
  ['application/', false],
  ['/json', false],
  ['json', false],
  ['text/json', false],
  ['text/plain', false],
  ['application/x-www-form-urlencoded', false],
  ['multipart/form-data; boundary=application/json', false],
  ['text/plain; application/json', false],
  ['application/json, application/json', false],
  ['application/json, text/plain', false],
  ['application/json text/plain', false],
  ['"application/json"', false],
  ['*/*', false],
  ['', false],
  [undefined, false],
];

describe('Content-Type', () => {
  test.each(MEDIA_TYPES)('%s: accepted %s [R-310]', async (type, accepted) => {
    expect(isJsonMediaType(type)).toBe(accepted);
    const body = JSON.stringify(sampleEvent());
    const answer = await send(collector.port, {
      key: collector.key,
      headers: { 'Content-Type': type },
      body,
    });
    expect(answer.status).toBe(accepted ? 201 : 415);
    if (!accepted) expect(answer.error().code).toBe('unsupported_media_type');
  });
});

describe('the headers that are used', () => {
  const NAMES = [
    ...['X-API-Key', 'Content-Type', 'Content-Encoding', 'Content-Length', 'Transfer-Encoding'],
    'X-Event-Door',
  ];

  test('are found in any case, and others are ignored', () => {
    const raw = [
      ...[
        ...['HOST', 'h', 'x-api-key', 'k', 'CONTENT-TYPE', 't', 'content-Encoding', 'e'],
        ...['content-length', '12'],
      ],
      ...[
        'Transfer-ENCODING',
        'chunked',
        'X-EVENT-door',
        'import',
        'X-Api-Kez',
        'no',
        'Hots',
        'no',
        'Content-Typo',
        'no',
        '',
        'no',
      ],
    ];
    expect(readHeaders(raw)).toEqual({
      host: 1,
      apiKey: 'k',
      repeated: false,
      contentType: 't',
      contentEncoding: 'e',
      contentLength: 12,
      transferEncoding: 'chunked',
      door: 'import',
    });
  });

  test('are undefined when they are not there', () => {
    const read = readHeaders(['Accept', '*/*']);
    expect([read.host, read.repeated]).toEqual([0, false]);
    expect([
      read.apiKey,
      read.contentType,
      read.contentEncoding,
      read.contentLength,
      read.transferEncoding,
    ]).toEqual(Array(5).fill(undefined));
  });

  test.each(NAMES)('%s twice is detected, in any case and place, and also when empty or the same', (name) => {
    for (const [first, second] of [
      ['1', '2'],
      ['1', '1'],
      ['', '1'],
      ['1', ''],
    ] as const) {
      expect(readHeaders([name, first, 'A', 'b', name.toUpperCase(), second]).repeated).toBe(true);
    }
    expect(readHeaders([name, '1', `${name}s`, '2']).repeated).toBe(false);
  });

  test('Host is counted', () => {
    expect(readHeaders(['Host', 'a', 'A', 'b', 'host', 'a', 'HOST', '']).host).toBe(3);
  });
});
