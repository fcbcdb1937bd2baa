import { expect, test, vi } from 'vitest';
import { onStop } from '../../src/commands/exit-codes.js';

test('[R-1400] a Ctrl-C that npm passes on does not end a command which the terminal has interrupted', () => {
  const before = process.listenerCount('SIGINT');
  const stop = vi.fn();
  const remove = onStop(stop);
  process.emit('SIGINT', 'SIGINT');
  process.emit('SIGINT', 'SIGINT');
  expect(stop.mock.calls).toEqual([['SIGINT']]);
  // Without a handler the next signal would have its default action, which ends the process.
  expect(process.listenerCount('SIGINT')).toBe(before + 1);
  remove();
  expect(process.listenerCount('SIGINT')).toBe(before);
});
