/**
 * The places for connections, and who gets one when all are taken. Node's own limit refuses the newcomer, whoever it is,
 * so that anybody could keep all senders out by connections on which next to nothing is sent: that needs no key.
 *
 * A connection on which a request came with a valid key keeps its place until it is closed. Any other may lose it to a
 * newcomer: of the network that has the most of those the oldest. So a flood from elsewhere displaces its own
 * connections; and one from the sender's own network has to fill all the places anew before the sender has sent its
 * headers. Who has a key can take all places: it can be revoked.
 *
 * A request on a connection that keeps its place costs the reading of one property. A newcomer costs a look at each
 * network, and only when all places are taken.
 */
import type { Duplex } from 'node:stream';
import type { Socket } from 'node:net';

/** On a connection that may lose its place: what has it keep it. */
const KEEP = Symbol('keep the place');
type Connection = Duplex & { [KEEP]?: (() => void) | undefined };

/** A valid key was shown on this connection. */
export function keepPlace(connection: Connection): void {
  const keep = connection[KEEP];
  if (keep === undefined) return;
  connection[KEEP] = undefined;
  keep();
}

/** Whether no valid key was shown on this connection yet. */
export function isUnproven(connection: Connection): boolean {
  return connection[KEEP] !== undefined;
}

/** What is shown on the one connection, as TLS, counts for the other, which carries it. */
export function standsFor(secured: Connection, carrier: Connection): void {
  secured[KEEP] = carrier[KEEP];
}

/**
 * Why a connection was closed when all were taken: `displaced` by a newcomer before a key was shown on it, or
 * `no_place`, a newcomer itself, because on each of the others a key was shown.
 */
export type LostPlace = 'displaced' | 'no_place';

export class Places {
  readonly #taken = new Set<Socket>();
  /** Of those the ones that may lose their places, by the network they come from, the oldest first. None of the sets is empty. */
  readonly #unproven = new Map<string, Set<Socket>>();

  /**
   * @param limit so many connections at most; a lower one that is set later closes none of those there are.
   * @param onLost called for each connection that is closed here, with the address that it comes from.
   */
  constructor(
    public limit: number,
    private readonly onLost: (reason: LostPlace, remote: string | undefined) => void,
  ) {}

  /** Whether the connection has a place. One that has none, or loses it later, is closed. */
  admit(socket: Socket & Connection): boolean {
    if (this.#taken.size >= this.limit && !this.#makeRoom()) {
      this.onLost('no_place', socket.remoteAddress);
      socket.destroy();
      return false;
    }
    const network = networkOf(socket.remoteAddress ?? '');
    const those = this.#unproven.get(network);
    if (those === undefined) this.#unproven.set(network, new Set([socket]));
    else those.add(socket);
    this.#taken.add(socket);
    socket[KEEP] = () => this.#keep(network, socket);
    socket.once('close', () => this.#free(network, socket));
    return true;
  }

  #makeRoom(): boolean {
    let [most, size] = ['', 0];
    for (const [network, those] of this.#unproven)
      if (those.size > size) [most, size] = [network, those.size];
    const [oldest] = this.#unproven.get(most) ?? [];
    if (oldest === undefined) return false;
    // At once and not when it is closed, which is after others have come.
    this.#free(most, oldest);
    this.onLost('displaced', oldest.remoteAddress);
    oldest.destroy();
    return true;
  }

  #free(network: string, socket: Socket): void {
    this.#taken.delete(socket);
    this.#keep(network, socket);
  }

  #keep(network: string, socket: Socket): void {
    const those = this.#unproven.get(network);
    those?.delete(socket);
    if (those?.size === 0) this.#unproven.delete(network);
  }
}

/** An IPv4 address, or the first 64 bits of an IPv6 one: of the rest a host has as many as it likes (RFC 4291). */
export function networkOf(address: string): string {
  // IPv4 in the form of IPv6 has dots.
  if (!address.includes(':') || address.includes('.')) return address;
  const [left = [], right = []] = address.split('::').map((part) => part.split(':').filter(Boolean));
  const zeros = Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0');
  return [...left, ...zeros, ...right].slice(0, 4).join(':');
}
