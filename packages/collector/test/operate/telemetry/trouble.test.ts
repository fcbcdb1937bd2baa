import { expect, test } from 'vitest';
import { Trouble } from '../../../src/operate/telemetry/exporter.js';

test('[R-846] that an export fails is told once a minute, and once that it works again', () => {
  const lines: unknown[] = [];
  const line = (fields: object) => lines.push(fields);
  const trouble = new Trouble('traces', { debug: line, info: line, warn: line, error: line });
  trouble.worked();
  for (let second = 0; second < 120; second++) trouble.failed('HTTP 503', second * 1000);
  expect(lines).toEqual([
    { signal: 'traces', reason: 'HTTP 503', failures: 1 },
    { signal: 'traces', reason: 'HTTP 503', failures: 60 },
  ]);
  lines.length = 0;
  // What comes and goes is told no more often.
  for (let second = 120; second < 240; second++) {
    trouble.worked();
    trouble.failed('ECONNREFUSED', second * 1000);
  }
  trouble.worked();
  expect(lines).toEqual([
    { signal: 'traces' },
    { signal: 'traces', reason: 'ECONNREFUSED', failures: 60 },
    { signal: 'traces' },
    { signal: 'traces', reason: 'ECONNREFUSED', failures: 60 },
    { signal: 'traces' },
  ]);
});
