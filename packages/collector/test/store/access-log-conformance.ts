/** What every driver of the access log must do (src/store/contract.ts), as one suite. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { AccessLogStore, LineCursor } from '../../src/store/contract/access-log.js';

interface AccessLogPlace {
  /** As another process opens it. */
  open(): AccessLogStore;
  remove(): void | Promise<void>;
}

/** As commands write them. */
export function lineOf(command: string): string {
  const actor = { kind: 'os', name: 'ada', proven: true };
  const by = { reading: 'r', state: 'begun', actor, uid: 1000, user: 'ada', command, filter: {} };
  return JSON.stringify({ at: '2026-11-01T08:00:00.000Z', ...by });
}

export interface AccessLogDriver {
  readonly name: string;
  /** What it makes of a line. */
  readonly as: (line: string) => string;
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

    test('[R-702] has every line that was appended, by any process, in order and whole', async () => {
      const [one, other] = [place.open(), place.open()];
      expect(await textFrom(one)).toBe('');
      await one.flush();
      const lines = Array.from({ length: 300 }, (_, i) => lineOf(`${i} ${'x'.repeat(i * 7)}`));
      for (const [i, line] of lines.entries()) await (i % 3 === 0 ? one : other).append(line);
      await one.flush();
      expect(await textFrom(place.open())).toBe(lines.map((line) => `${driver.as(line)}\n`).join(''));
    });

    test('continues after the lines that were read', async () => {
      const log = place.open();
      const [one, two, three] = [lineOf('one'), lineOf('two'), lineOf('three')];
      await log.append(one);
      await log.append(two);
      const read = { lines: 2, at: Buffer.byteLength(await textFrom(log)) };
      expect(await textFrom(log, read)).toBe('');
      await log.append(three);
      expect(await textFrom(log, read)).toBe(`${driver.as(three)}\n`);
      // A new one finds the place as well.
      expect(await textFrom(place.open(), read)).toBe(`${driver.as(three)}\n`);
      expect(await textFrom(log)).toBe([one, two, three].map((line) => `${driver.as(line)}\n`).join(''));
    });
  });
}
