/**
 * Where a request came from, when a proxy that the operator trusts says so. For the log alone: nothing is permitted or
 * limited by it.
 *
 * A header is worth as much as who wrote it. The connection's address is known. While the address at hand is one of the
 * trusted, what it reports as the one before it is believed; so the headers are read from the right, and what a client
 * wrote itself, further left, is never reached. Whatever cannot be read ends the walk at the last address that is sure.
 */
import { BlockList, isIP } from 'node:net';
/** The list of proxies cannot be meant. */
export class ProxiesInvalid extends Error {
    name = 'ProxiesInvalid';
}
/** Addresses that no one has on the internet, or on this link alone: RFC 1918, 3927, 4193, 4291 and 6598. */
const NOT_PUBLIC = [
    ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '127.0.0.0/8', '169.254.0.0/16', '100.64.0.0/10'],
    ...['fc00::/7', 'fe80::/10', '::1/128'],
].map((text) => ({ ...networkIn(text), list: listOf(networkIn(text)) }));
/** The bits of an address that all public networks together may leave open: no one owns more. */
const MOST_OPEN = { ipv4: 24, ipv6: 128 - 16 };
/** Stands for all of IPv4 (RFC 4291 section 2.5.5.2): BlockList takes it so. */
const MAPPED = { address: '::ffff:0.0.0.0', length: 96, family: 'ipv6' };
export class TrustedProxies {
    #trusted = new BlockList();
    /** How many public addresses are trusted. */
    #open = { ipv4: 0, ipv6: 0 };
    /**
     * @param text addresses and networks (`10.0.0.0/8`, `fd00::/8`) with commas between them; none when empty.
     * @throws {@link ProxiesInvalid}
     */
    constructor(text) {
        for (const item of text === '' ? [] : text.split(',').map((part) => part.trim()))
            this.#add(item);
    }
    /** What is unwise: undefined unless more public addresses are trusted than one operator can own. */
    get exposure() {
        const { ipv4, ipv6 } = this.#open;
        if (ipv4 < 2 ** MOST_OPEN.ipv4 && ipv6 < 2 ** MOST_OPEN.ipv6)
            return undefined;
        return 'holds very many public addresses: anyone who has one of them can write any other into the log as the client';
    }
    /** The address of the client, as proven; undefined when the connection is gone. */
    clientOf(request) {
        let client = request.socket.remoteAddress;
        if (client === undefined || !this.#trusts(client))
            return client;
        for (const hop of reportedHops(request.rawHeaders)) {
            if (hop === undefined)
                break;
            client = hop;
            if (!this.#trusts(client))
                break;
        }
        return client;
    }
    #add(item) {
        const network = networkIn(item);
        const { address, length, family } = network;
        this.#trusted.addSubnet(address, length, family);
        const known = NOT_PUBLIC.some(({ list, length: least, family: of }) => of === family && least <= length && list.check(address, family));
        if (known)
            return;
        this.#open[family] += 2 ** ((family === 'ipv4' ? 32 : 128) - length);
        if (family === 'ipv4')
            return;
        if (length <= MAPPED.length && listOf(network).check(MAPPED.address, 'ipv6'))
            this.#open.ipv4 += 2 ** 32;
        else if (listOf(MAPPED).check(address, 'ipv6'))
            this.#open.ipv4 += 2 ** (128 - length);
    }
    #trusts(address) {
        return this.#trusted.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6');
    }
}
function listOf({ address, length, family }) {
    const list = new BlockList();
    list.addSubnet(address, length, family);
    return list;
}
/** @throws {@link ProxiesInvalid} */
function networkIn(item) {
    const [address = '', prefix, ...more] = item.split('/');
    const version = isIP(address);
    const longest = version === 4 ? 32 : 128;
    const length = prefix === undefined ? longest : /^\d{1,3}$/.test(prefix) ? Number(prefix) : Infinity;
    if (version === 0 || address.includes('%') || length > longest || more.length > 0) {
        throw new ProxiesInvalid(`${JSON.stringify(item)} is neither an address nor a network such as 10.0.0.0/8`);
    }
    return { address, length, family: version === 4 ? 'ipv4' : 'ipv6' };
}
/**
 * The addresses in Forwarded (RFC 7239) or X-Forwarded-For, from the right; undefined for one that is none, such as
 * `unknown`. When a request has both they must agree in their last address. Otherwise a proxy that writes the one
 * would vouch for what a client has written into the other.
 */
function reportedHops(rawHeaders) {
    const forwarded = [];
    const forwardedFor = [];
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
        const name = rawHeaders[i]?.toLowerCase();
        if (name === 'forwarded')
            forwarded.push(rawHeaders[i + 1] ?? '');
        else if (name === 'x-forwarded-for')
            forwardedFor.push(rawHeaders[i + 1] ?? '');
    }
    // No value that is believed contains a comma, so quotes need not be minded: who puts a comma into quotes makes two
    // pieces that are no elements.
    const standard = partsFromRight(forwarded).map(forwardedNode);
    const usual = partsFromRight(forwardedFor).map(address);
    if (forwarded.length === 0)
        return usual;
    return forwardedFor.length === 0 || standard[0] === usual[0] ? standard : [];
}
/** No deployment has more proxies than that; a header that claims so is not read to its end. */
const MAX_HOPS = 16;
/** A list may be cut over several fields of the same name (RFC 9110 section 5.3). */
function partsFromRight(values) {
    return values.join(',').split(',').slice(-MAX_HOPS).reverse();
}
const PAIR = /\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([!#$%&'*+.^_`|~0-9A-Za-z-]+))\s*(;|$)/y;
/** The `for` of one element of Forwarded. */
function forwardedNode(element) {
    let node;
    PAIR.lastIndex = 0;
    while (PAIR.lastIndex < element.length) {
        const [, name, quoted, token] = PAIR.exec(element) ?? [];
        if (name === undefined)
            return undefined;
        if (name.toLowerCase() !== 'for')
            continue;
        if (node !== undefined)
            return undefined;
        node = quoted ?? token;
    }
    // A bare IPv6 address has no place in Forwarded (RFC 7239 section 6), but does no harm either.
    return node === undefined ? undefined : address(node);
}
/** IPv4 or IPv6, in brackets or not, with a port or not. Without a zone, which means something on one host only. */
function address(text) {
    const node = text.trim();
    const [, inBrackets, ipv4] = /^(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::\d{1,5})?$/.exec(node) ?? [];
    const found = inBrackets ?? ipv4 ?? node;
    if (found.length > 45 || found.includes('%'))
        return undefined;
    const version = isIP(found);
    return version === 0 || (inBrackets !== undefined && version === 4) ? undefined : found;
}
//# sourceMappingURL=trusted-proxies.js.map