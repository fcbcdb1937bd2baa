/** What every driver of the access log must do (src/store/contract.ts), as one suite. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { AccessLogStore, LineCursor } from '../../src/store/contract.js';

interface AccessLogPlace {
  /** As another process opens it. */
  open(): AccessLogStore;
  remove(): void | Promise<void>;
}

export interface AccessLogDriver {
  readonly name: string;
  makePlace(): AccessLogPlace | Promise<AccessLogPlace>;
}

async function textFrom(log: AccessLogStore, from?: LineCursor): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of log.lines(from)) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces).toString();
}

export function accessLogConformance(driver: AccessLogDriver): void {
  describe(driver.name, () => {
    let place: AccessLogPlace;
    beforeEach(async () => {
      place = await driver.makePlace();
    });
    afterEach(() => place.remove());

    test('[R-716] has every line that was appended, by any process, in order and whole', async () => {
      const [one, other] = [place.open(), place.open()];
      expect(await textFrom(one)).toBe('');
      await one.flush();
      const lines = Array.from({ length: 300 }, (_, i) => `${i} ${'x'.repeat(i * 7)}`);
      for (const [i, line] of lines.entries()) await (i % 3 === 0 ? one : other).append(line);
      await one.flush();
      expect(await textFrom(place.open())).toBe(lines.map((line) => `${line}\n`).join(''));
    });

    test('goes on behind the lines that were read', async () => {
      const log = place.open();
      await log.append('one');
      await log.append('two');
      const read = { lines: 2, at: Buffer.byteLength(await textFrom(log)) };
      expect(await textFrom(log, read)).toBe('');
      await log.append('three');
      expect(await textFrom(log, read)).toBe('three\n');
      expect(await textFrom(log)).toBe('one\ntwo\nthree\n');
    });
  });
}
