// The character classes of RFC 3986, one bit each. A percent-encoded octet belongs to all except SCHEME.
const SCHEME = 1;
const HOST = 2;
const USERINFO = 4;
const PATH = 8;
const QUERY = 16;

const PERCENT = '%'.charCodeAt(0);

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const DIGITS = '0123456789';

function classTable(): Uint8Array {
  const table = new Uint8Array(128);
  const put = (characters: string, classes: number) => {
    for (const character of characters) {
      const code = character.charCodeAt(0);
      table[code] = (table[code] ?? 0) | classes;
    }
  };
  const unreservedAndDelimiters = LETTERS + DIGITS + "-._~!$&'()*+,;=";
  put(LETTERS + DIGITS + '+-.', SCHEME);
  put(unreservedAndDelimiters, HOST | USERINFO | PATH | QUERY);
  put(':', USERINFO | PATH | QUERY);
  put('@/', PATH | QUERY);
  put('?', QUERY);
  return table;
}

const CLASSES = classTable();

/** Past the end of the text the code is NaN, which compares false. */
function isHexDigit(code: number): boolean {
  return (code >= 48 && code <= 57) || (code >= 65 && code <= 70) || (code >= 97 && code <= 102);
}

/** Whether the percent sign at `at` is followed by two hexadecimal digits (section 2.1). */
function isEncodedOctet(text: string, at: number): boolean {
  return isHexDigit(text.charCodeAt(at + 1)) && isHexDigit(text.charCodeAt(at + 2));
}

/** The first offset from `at` on that is outside the class, or the end of the text. */
function endOf(characterClass: number, text: string, at: number): number {
  const length = text.length;
  let end = at;
  while (end < length) {
    const code = text.charCodeAt(end);
    if (((CLASSES[code] ?? 0) & characterClass) !== 0) end += 1;
    else if (code === PERCENT && characterClass !== SCHEME && isEncodedOctet(text, end)) end += 3;
    else break;
  }
  return end;
}

const H16 = /^[0-9a-f]{1,4}$/i;
const DEC_OCTET = /^(?:0|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$/;

function isIpv4(text: string): boolean {
  const octets = text.split('.');
  return octets.length === 4 && octets.every((octet) => DEC_OCTET.test(octet));
}

/**
 * The number of 16-bit groups in the text, `NaN` if one is malformed; an IPv4 address at the end counts two.
 */
function ipv6Groups(text: string, mayEndInIpv4: boolean): number {
  if (text === '') return 0;
  const groups = text.split(':');
  const ipv4 = mayEndInIpv4 && isIpv4(groups[groups.length - 1] ?? '');
  const plain = ipv4 ? groups.slice(0, -1) : groups;
  return plain.every((group) => H16.test(group)) ? plain.length + (ipv4 ? 2 : 0) : NaN;
}

/** `IPv6address` of section 3.2.2. Zone ids are refused: RFC 3986 has none. */
function isIpv6(text: string): boolean {
  const gap = text.indexOf('::');
  if (gap < 0) return ipv6Groups(text, true) === 8;
  // The gap replaces at least one group. A second gap leaves an empty group, which is not an h16.
  return ipv6Groups(text.slice(0, gap), false) + ipv6Groups(text.slice(gap + 2), true) <= 7;
}

const NO_HEX_DIGIT = /[^0-9a-f]/i;
const NO_IP_FUTURE_TAIL = /[^a-z0-9\-._~!$&'()*+,;=:]/i;

/**
 * `IPvFuture` of section 3.2.2. Its tail has the characters of userinfo, except percent-encoded ones. A
 * search for a forbidden character needs no backtracking stack.
 */
function isIpFuture(text: string): boolean {
  const dot = text.indexOf('.');
  if (!/^v/i.test(text) || dot < 2 || dot + 1 === text.length) return false;
  return !NO_HEX_DIGIT.test(text.slice(1, dot)) && !NO_IP_FUTURE_TAIL.test(text.slice(dot + 1));
}

/** Six groups and an IPv4 address. A longer text is not split: 1 MiB of groups would take 20 ms. */
const LONGEST_IPV6 = 45;

/** The end of `"[" ( IPv6address / IPvFuture ) "]"`, or -1. */
function endOfIpLiteral(text: string, at: number): number {
  const close = text.indexOf(']', at);
  if (close < 0) return -1;
  const address = text.slice(at + 1, close);
  return (address.length <= LONGEST_IPV6 && isIpv6(address)) || isIpFuture(address) ? close + 1 : -1;
}

/** The end of `[ userinfo "@" ] host [ ":" port ]`, or -1 when the rest cannot begin a path. */
function endOfAuthority(text: string, at: number): number {
  const userinfo = endOf(USERINFO, text, at);
  const host = text[userinfo] === '@' ? userinfo + 1 : at;
  let end = text[host] === '[' ? endOfIpLiteral(text, host) : endOf(HOST, text, host);
  if (end < 0) return -1;
  if (text[end] === ':') {
    end += 1;
    for (let code = text.charCodeAt(end); code >= 48 && code <= 57; code = text.charCodeAt(end)) end++;
  }
  const next = text[end];
  return next === undefined || next === '/' || next === '?' || next === '#' ? end : -1;
}

/**
 * `URI` of RFC 3986 section 3: absolute, with a scheme; a fragment is allowed.
 *
 * This is a scanner instead of a regular expression: it passes over any text at most twice and needs no
 * backtracking stack, which a text of a megabyte could exhaust.
 */
export function isUri(text: string): boolean {
  const first = text.charCodeAt(0) | 32;
  if (!(first >= 97 && first <= 122)) return false;
  const colon = endOf(SCHEME, text, 0);
  if (text[colon] !== ':') return false;
  let at = colon + 1;
  // "//" always begins an authority (section 3.3), so a path read below cannot begin with one.
  if (text[at] === '/' && text[at + 1] === '/') {
    at = endOfAuthority(text, at + 2);
    if (at < 0) return false;
  }
  at = endOf(PATH, text, at);
  if (text[at] === '?') at = endOf(QUERY, text, at + 1);
  if (text[at] === '#') at = endOf(QUERY, text, at + 1);
  return at === text.length;
}
