import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { OperatorToken } from '../../src/operate/operator-token.js';
import { scratchDirectory } from '../access/scratch-keys.js';

test('[R-831] a token matches only itself, whatever ends its line', () => {
  const token = 'correct-horse-battery-staple-0123456789';
  const file = scratchDirectory('token');
  for (const end of ['', '\n', '\r\n']) {
    writeFileSync(file, token + end, { mode: 0o600 });
    const read = OperatorToken.read(file);
    expect(read.matches(token)).toBe(true);
    fc.assert(fc.property(fc.string(), (other) => read.matches(other) === (other === token)));
    expect(read.matches(`${token}\n`)).toBe(false);
    expect(JSON.stringify(read)).not.toContain('horse');
  }
});

test('[R-831] a token is not read from a pipe, which would block a start', () => {
  const pipe = scratchDirectory('pipe');
  execFileSync('mkfifo', [pipe]);
  expect(() => OperatorToken.read(pipe)).toThrow(/is not a regular file/);
});
