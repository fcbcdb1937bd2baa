import { expect, test } from 'vitest';
import { Capture } from '../src/capture.js';
import { EventMaker } from '../src/event.js';
import type { RefusedCapture } from '../src/listeners.js';
import { Run } from '../src/run.js';
import { Spool, SpoolFull } from '../src/spool/spool.js';

test('[R-861] events that share a fate are each told of it, and each is counted', async () => {
  const spool = await Spool.open({ directory: undefined, durability: 'memory' });
  let refuse: (error: Error) => void = () => undefined;
  const together = new Promise<'durable'>((_resolve, reject) => (refuse = reject));
  spool.append = () => together;
  const told: RefusedCapture[] = [];
  const capture = new Capture({
    ...{ maker: new EventMaker({}, 'minimum'), sampler: undefined, store: undefined },
    ...{ spool: Promise.resolve(spool), onRefused: (refused) => void told.push(refused) },
    ...{ writeAtEnd: () => ({ kept: 0, error: undefined }), onTrouble: () => undefined },
  });
  await Promise.resolve();
  const run = new Run(capture, {}, {});
  const invalid = run.output({ output_uri: 7 as unknown as string });
  const others = [run.output({ summary: '1' }), run.output({ summary: '2' })];
  await expect(invalid).rejects.toThrow('not valid');
  const error = new SpoolFull('full');
  refuse(error);
  for (const event of [run.started, ...others]) await expect(event).rejects.toBe(error);
  await capture.settled();
  expect(told.map(({ eventId }) => eventId).sort()).toEqual(
    [run.startEventId, invalid.eventId, ...others.map(({ eventId }) => eventId)].sort(),
  );
  expect(capture.refused).toBe(4);
  await spool.close();
});
