/** A relay on loopback between a client and a server of TCP, which can be made to fail. */
import net from 'node:net';

export class Relay {
  readonly port: number;
  /** The bytes of a client, and of the server, that are passed on. */
  toServer = (bytes: Buffer): Buffer => bytes;
  toClient = (bytes: Buffer): Buffer => bytes;
  /** How many bytes of the server are passed to the client from now on; then the connections are cut. */
  #left = Infinity;
  #stalls = false;
  #refuses = false;
  readonly #server: net.Server;
  readonly #sockets = new Set<net.Socket>();

  private constructor(server: net.Server, port: number) {
    this.#server = server;
    this.port = port;
  }

  /** @param host of loopback, to which clients connect. */
  static async to(target: number, host = '127.0.0.1', port = 0): Promise<Relay> {
    const server = net.createServer();
    await new Promise<void>((resolve) => server.listen(port, host, resolve));
    const relay = new Relay(server, (server.address() as net.AddressInfo).port);
    server.on('connection', (client) => relay.#pass(client, target));
    return relay;
  }

  /** Cuts every connection after this number of further bytes of the server. */
  cutAfter(bytes: number): void {
    this.#left = bytes;
  }

  /** From now on nothing passes, and no connection ends. */
  stall(): void {
    this.#stalls = true;
  }

  /** From now on connections are cut and none is accepted. */
  refuse(): void {
    this.#refuses = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Everything passes again. Stalled connections are cut. */
  heal(): void {
    if (this.#stalls) for (const socket of this.#sockets) socket.destroy();
    this.#stalls = this.#refuses = false;
    this.#left = Infinity;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pass(client: net.Socket, target: number): void {
    const server = net.connect(target, '127.0.0.1');
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    if (this.#refuses) client.destroy();
    client.on('data', (bytes) => {
      if (!this.#stalls) server.write(this.toServer(bytes));
    });
    server.on('data', (bytes) => {
      if (this.#stalls) return;
      const passed = this.toClient(bytes).subarray(0, this.#left);
      this.#left -= passed.length;
      if (this.#left > 0) client.write(passed);
      else client.write(passed, () => client.destroy());
    });
  }
}
