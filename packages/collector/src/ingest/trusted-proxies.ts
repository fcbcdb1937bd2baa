/**
 * Where a request came from, when a proxy that the operator trusts says so. For the log alone: nothing is permitted or
 * limited by it.
 *
 * A header is worth as much as who wrote it. The connection's address is known. While the address at hand is one of the
 * trusted, what it reports as the one before it is believed; so the headers are read from the right, and what a client
 * wrote itself, further left, is never reached. Whatever cannot be read ends the walk at the last address that is sure.
 */
import { isIP } from 'node:net';
import proxyAddr from '@fastify/proxy-addr';
import { Unusable } from '../unusable.js';

/** The part of a request that is read here. */
interface Received {
  readonly rawHeaders: readonly string[];
  readonly socket: { readonly remoteAddress?: string | undefined };
}

type Trust = (address: string, hop: number) => boolean;

const NETWORK = /^([0-9a-f:.]+)(?:\/(\d{1,3}))?$/i;
/** Private or of this link: RFC 1918, 3927, 4193, 4291 and 6598. None is wider than the first of its family. */
const NOT_PUBLIC = proxyAddr.compile([
  ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '127.0.0.0/8', '169.254.0.0/16', '100.64.0.0/10'],
  ...['fc00::/7', 'fe80::/10', '::1/128'],
]);
/** Public networks whose prefixes are as short or shorter are wider than those of any one operator. */
const WIDE_BITS = { ipv4: 9, ipv6: 16 };
const WIDEST_PRIVATE_BITS = { ipv4: 8, ipv6: 7 };

export class TrustedProxies {
  /** What is unwise: undefined unless the public addresses of a network are more than one operator can own. */
  readonly exposure: string | undefined;
  readonly #trusts: Trust;

  /**
   * @param text addresses and networks (`10.0.0.0/8`, `fd00::/8`) with commas between them; none when empty.
   * @throws {@link Unusable}
   */
  constructor(text: string) {
    const items = text === '' ? [] : text.split(',').map((item) => item.trim());
    const trusts = items.map(trustIn);
    this.#trusts = (address, hop) => trusts.some((trust) => trust(address, hop));
    if (items.some(isWide))
      this.exposure =
        'holds very many public addresses: anyone who has one of them can write any other into the log as the client';
  }

  /** The address of the client, as proven; undefined when the connection is gone. */
  clientOf(request: Received): string | undefined {
    let client = request.socket.remoteAddress;
    if (client === undefined || !this.#trusts(client, 0)) return client;
    for (const [hop, address] of reportedHops(request.rawHeaders).entries()) {
      if (address === undefined) break;
      client = address;
      if (!this.#trusts(client, hop + 1)) break;
    }
    return client;
  }
}

/** @throws {@link Unusable} */
function trustIn(item: string): Trust {
  const [, address = '', bits] = NETWORK.exec(item) ?? [];
  try {
    if (isIP(address) === 0) throw new TypeError('no address');
    if (Number(bits) > 0 || bits === undefined) return proxyAddr.compile(item);
    // The library takes no network of every address.
    return proxyAddr.compile(isIP(address) === 4 ? ['0.0.0.0/1', '128.0.0.0/1'] : ['::/1', '8000::/1']);
  } catch (error) {
    const message = `${JSON.stringify(item)} is neither an address nor a network such as 10.0.0.0/8`;
    throw new Unusable(message, { cause: error });
  }
}

function isWide(item: string): boolean {
  const [, address = '', bits = '128'] = NETWORK.exec(item) ?? [];
  const isMapped = /^::ffff:/i.test(address) && Number(bits) >= 96;
  const family = isMapped || isIP(address) === 4 ? 'ipv4' : 'ipv6';
  const length = isMapped ? Number(bits) - 96 : Number(bits);
  if (length < WIDEST_PRIVATE_BITS[family]) return true;
  return length <= WIDE_BITS[family] && !NOT_PUBLIC(address, 0);
}

/**
 * The addresses in Forwarded (RFC 7239) or X-Forwarded-For, from the right; undefined for what is not an address, such as
 * `unknown`. When a request has both they must agree in their last address. Otherwise a proxy that writes the one
 * would vouch for what a client has written into the other.
 */
function reportedHops(rawHeaders: readonly string[]): (string | undefined)[] {
  const forwarded: string[] = [];
  const forwardedFor: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase();
    if (name === 'forwarded') forwarded.push(rawHeaders[i + 1] ?? '');
    else if (name === 'x-forwarded-for') forwardedFor.push(rawHeaders[i + 1] ?? '');
  }
  // No value that is believed contains a comma, so quotes need not be minded: who puts a comma into quotes makes two
  // pieces that are no elements.
  const standard = partsFromRight(forwarded).map(forwardedNode);
  const usual = partsFromRight(forwardedFor).map(address);
  if (forwarded.length === 0) return usual;
  return forwardedFor.length === 0 || standard[0] === usual[0] ? standard : [];
}

/** No deployment has more proxies than that; a header that claims so is not read to its end. */
const MAX_HOPS = 16;

/** A list may be cut over several fields of the same name (RFC 9110 section 5.3). */
function partsFromRight(values: readonly string[]): string[] {
  return values.join(',').split(',').slice(-MAX_HOPS).reverse();
}

const PAIR =
  /\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([!#$%&'*+.^_`|~0-9A-Za-z-]+))\s*(;|$)/y;

/** The `for` of one element of Forwarded. */
function forwardedNode(element: string): string | undefined {
  let node: string | undefined;
  PAIR.lastIndex = 0;
  while (PAIR.lastIndex < element.length) {
    const [, name, quoted, token] = PAIR.exec(element) ?? [];
    if (name === undefined) return undefined;
    if (name.toLowerCase() !== 'for') continue;
    if (node !== undefined) return undefined;
    node = quoted ?? token;
  }
  // A bare IPv6 address has no place in Forwarded (RFC 7239 section 6), but does no harm either.
  return node === undefined ? undefined : address(node);
}

/** IPv4 or IPv6, in brackets or not, with a port or not. Without a zone, which means something on one host only. */
function address(text: string): string | undefined {
  const node = text.trim();
  const [, inBrackets, ipv4] = /^(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::\d{1,5})?$/.exec(node) ?? [];
  const found = inBrackets ?? ipv4 ?? node;
  if (found.length > 45 || found.includes('%')) return undefined;
  const version = isIP(found);
  return version === 0 || (inBrackets !== undefined && version === 4) ? undefined : found;
}
