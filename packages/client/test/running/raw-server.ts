/** A server that answers with exactly the bytes of a test, without additions of HTTP. */
import net from 'node:net';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export interface RawServer {
  readonly url: string;
  /** In the order in which they came. */
  readonly sockets: net.Socket[];
}

/** @param onRequest called for each whole request, which is answered by what it writes. */
export async function rawServer(
  onRequest: (socket: net.Socket, request: string, connection: number) => void,
): Promise<RawServer> {
  const sockets: net.Socket[] = [];
  const server = net.createServer((socket) => {
    const connection = sockets.push(socket);
    socket.on('error', () => undefined);
    let come = '';
    socket.setEncoding('latin1').on('data', (text: string) => {
      come += text;
      for (;;) {
        const head = come.indexOf('\r\n\r\n') + 4;
        const length = Number(/\r\nContent-Length: (\d+)/.exec(come)?.[1]);
        if (head < 4 || come.length < head + length) return;
        const request = come.slice(0, head + length);
        come = come.slice(head + length);
        onRequest(socket, request, connection);
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets };
}
