/**
 * The origin of a request as stated by trusted proxies. Only the log has it: no permission or limit depends
 * on it.
 *
 * The address of the connection is known. While the current address is a trusted one, the address that it
 * reports is believed. So headers are read from the right, and what a client wrote itself, further left, is
 * never reached. An unreadable element ends the walk at the last address that is certain.
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
/**
 * Private and link-local networks: RFC 1918, 3927, 4193, 4291 and 6598. The first of each family is the
 * widest.
 */
const NOT_PUBLIC = proxyAddr.compile([
  ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '127.0.0.0/8', '169.254.0.0/16', '100.64.0.0/10'],
  ...['fc00::/7', 'fe80::/10', '::1/128'],
]);
/** A public network with a prefix this short or shorter is wider than any operator owns. */
const WIDE_BITS = { ipv4: 9, ipv6: 16 };
const WIDEST_PRIVATE_BITS = { ipv4: 8, ipv6: 7 };

export class TrustedProxies {
  /** A warning when a network has more public addresses than an operator can own; else undefined. */
  readonly exposure: string | undefined;
  readonly #trusts: Trust;

  /**
   * @param text addresses and networks (`10.0.0.0/8`, `fd00::/8`), separated by commas; may be empty.
   * @throws {@link Unusable}
   */
  constructor(text: string) {
    const items = text === '' ? [] : text.split(',').map((item) => item.trim());
    const trusts = items.map(trustIn);
    this.#trusts = (address, hop) => trusts.some((trust) => trust(address, hop));
    if (items.some(isWide))
      this.exposure =
        'holds so many public addresses that a stranger may have one, and could forge the client in the log';
  }

  /** The proven address of the client; undefined when the connection is closed. */
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
    // The library accepts no network of all addresses.
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
 * The addresses in Forwarded (RFC 7239) or X-Forwarded-For, from the right; undefined for an element that is
 * not an address, such as `unknown`. When a request has both headers, their last addresses must be equal.
 * Otherwise a proxy that writes one header would vouch for the other one, written by a client.
 */
function reportedHops(rawHeaders: readonly string[]): (string | undefined)[] {
  const forwarded: string[] = [];
  const forwardedFor: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase();
    if (name === 'forwarded') forwarded.push(rawHeaders[i + 1] ?? '');
    else if (name === 'x-forwarded-for') forwardedFor.push(rawHeaders[i + 1] ?? '');
  }
  // A believed value has no comma, so quotes can be ignored: a comma in quotes only makes two unreadable
  // elements.
  const standard = partsFromRight(forwarded).map(forwardedNode);
  const usual = partsFromRight(forwardedFor).map(address);
  if (forwarded.length === 0) return usual;
  return forwardedFor.length === 0 || standard[0] === usual[0] ? standard : [];
}

/** No deployment has more proxies; a longer header is not read to its end. */
const MAX_HOPS = 16;

/** A list may be split over several fields of the same name (RFC 9110 section 5.3). */
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
  // RFC 7239 section 6 has no bare IPv6 address in Forwarded, but it is harmless.
  return node === undefined ? undefined : address(node);
}

/** IPv4 or IPv6, with or without brackets and port. Without a zone, which has a meaning on one host only. */
function address(text: string): string | undefined {
  const node = text.trim();
  const [, inBrackets, ipv4] = /^(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::\d{1,5})?$/.exec(node) ?? [];
  const found = inBrackets ?? ipv4 ?? node;
  if (found.length > 45 || found.includes('%')) return undefined;
  const version = isIP(found);
  return version === 0 || (inBrackets !== undefined && version === 4) ? undefined : found;
}
