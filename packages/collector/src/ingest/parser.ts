/**
 * What is used of Node's HTTP parser and not documented. Node is pinned, and the tests hold what is expected of it.
 */
import type { Socket } from 'node:net';

interface Parser {
  onIncoming: ((request: { upgrade: boolean }, keepAlive: boolean) => number) | null;
  /** A copy of the chunk that is being parsed. */
  getCurrentBuffer(): Buffer;
}
type Connection = Socket & { readonly parser?: Parser | null };

/** Returned by `onIncoming`, it has llhttp end, as for an upgrade, and Node drop the rest of the chunk. */
const END_PARSING = 2;

/**
 * Keeps the parser from handing on more requests: in one turn it parses all that was read, hundreds of requests,
 * whether the socket is paused or not.
 */
export class HeldParser {
  /** Whether a request came meanwhile. It is lost, and the connection of no more use. */
  lostRequest = false;
  readonly #parser: Parser | undefined;
  readonly #handOn: Parser['onIncoming'];
  readonly #drop = (request: { upgrade: boolean }): number => {
    this.lostRequest = true;
    // CONNECT and Upgrade would be handed on all the same.
    request.upgrade = false;
    return END_PARSING;
  };

  constructor({ parser }: Connection) {
    this.#parser = parser ?? undefined;
    this.#handOn = this.#parser?.onIncoming ?? null;
    if (this.#parser !== undefined) this.#parser.onIncoming = this.#drop;
  }

  /** A parser whose connection is closed serves another one by then. */
  letGo(): void {
    if (this.#parser?.onIncoming === this.#drop) this.#parser.onIncoming = this.#handOn;
  }
}

/** llhttp takes them for HTTP of the same version number, and Node does not say which it was. */
const OTHER_PROTOCOL = /^(?:\r\n)*[A-Z]+ \S+ (?:RTSP|ICE)\/\d/;

/**
 * Whether the request that is being handed on names another protocol than HTTP. To be asked for the first one of a
 * connection. One whose first line came in pieces is not recognised; it is then answered as HTTP.
 */
export function namesOtherProtocol({ parser }: Connection): boolean {
  return parser ? OTHER_PROTOCOL.test(parser.getCurrentBuffer().toString('latin1')) : false;
}
