import fs from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Body } from '../../src/ingest/request.js';
import { oneCollector } from '../running/one-collector.js';
import { RawConnection } from '../running/raw-http.js';

const collector = oneCollector();

test('a body equals its chunks, one after another, however it is cut', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 50 })), (chunks) => {
      const body = new Body();
      let length = 0;
      for (const chunk of chunks) {
        length += chunk.length;
        // Reservations grow by doubling, and are never smaller than what has come.
        body.add(Buffer.from(chunk), 2 ** Math.ceil(Math.log2(Math.max(length, 1))));
      }
      expect(body.length).toBe(length);
      expect(body.bytes.equals(Buffer.concat(chunks))).toBe(true);
    }),
  );
});

function residentBytes(): number {
  return (
    Number(/VmRSS:\s+(\d+) kB/.exec(fs.readFileSync(`/proc/${collector.pid}/status`, 'utf8'))?.[1]) * 1024
  );
}

test('[R-803] bodies cut into single bytes take no more memory than others', async () => {
  const before = residentBytes();
  const head =
    `POST /event/outcome HTTP/1.1\r\nHost: x\r\nX-API-Key: ${collector.key}\r\n` +
    'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
  const connections = await Promise.all([1, 2, 3, 4].map(() => RawConnection.open(collector.port)));
  for (const connection of connections) {
    connection.write(head);
    connection.write('1\r\n \r\n'.repeat(1_000_000));
  }
  // Each byte kept as a chunk of its own would take 400 bytes: 1.6 GB for these four.
  await expect.poll(() => connections.every(({ socket }) => socket.bytesWritten > 5_900_000)).toBe(true);
  expect(residentBytes() - before).toBeLessThan(256 << 20);
  for (const connection of connections) connection.socket.destroy();
});
