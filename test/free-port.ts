import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';

/** The ports that the system assigns for port 0 begin here. */
function firstGiven(): number {
  try {
    return Number.parseInt(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8'), 10);
  } catch {
    // Not Linux.
    return 0;
  }
}

/** @returns whether it was free; with 0 a port that is. */
async function listened(port: number): Promise<number | undefined> {
  const server = net.createServer();
  try {
    await new Promise<void>((resolve, reject) =>
      server.once('error', reject).listen(port, '127.0.0.1', resolve),
    );
    return (server.address() as AddressInfo).port;
  } catch {
    return undefined;
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
}

/**
 * A port on which nothing listens, for a server whose port must be known before its start, or that restarts on it. No
 * connection and no server with port 0 can take it meanwhile, where the system leaves enough ports below those.
 */
export async function freePort(): Promise<number> {
  const end = firstGiven();
  for (;;) {
    const port = await listened(end > 16_384 ? randomInt(10_240, end) : 0);
    if (port !== undefined) return port;
  }
}
