/** `--auth proxy:HEADER`: the name and groups of a person in headers of a trusted proxy. */
import type { IncomingMessage } from 'node:http';
import { TLSSocket } from 'node:tls';
import { isLoopback } from '@clinical-events/collector/loopback';
import type { Person } from '../contract.js';

/** Names of headers, in lower case. */
export interface ProxyHeaders {
  readonly header: string;
  readonly groupsHeader: string;
}

/** A person, or why there is none, as a sentence without a value of the request. */
export type Stated = { readonly person: Person } | { readonly problem: string };

const LONGEST = 256;
const MOST_GROUPS = 1000;

export function personOf(request: IncomingMessage, { header, groupsHeader }: ProxyHeaders): Stated {
  if (!isTrusted(request))
    return { problem: 'This address is for the proxy of the viewer. Use the address that you were given.' };
  const names = valuesOf(request, header);
  const groups = valuesOf(request, groupsHeader);
  if (names.length > 1 || groups.length > 1)
    return { problem: 'The proxy sent a header about the person twice, so the request is refused.' };
  const [name = ''] = names;
  if (name === '') return { problem: 'The proxy did not state who you are. Sign in at the proxy first.' };
  if (!isName(name)) return { problem: 'The name that the proxy sent is too long or not readable.' };
  const listed = groupsFrom(groups[0] ?? '');
  if (listed === undefined)
    return { problem: 'The groups that the proxy sent are too many or not readable.' };
  return { person: { kind: 'proxy', name, callerId: name, groups: listed } };
}

/** Whether a text can be the name of a person or a group: no control, direction or invisible character. */
export function isName(text: string): boolean {
  return text.trim() !== '' && text.length <= LONGEST && !/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(text);
}

/** A local process, or a proxy with a certificate that was verified. */
function isTrusted({ socket }: IncomingMessage): boolean {
  if (isLoopbackAddress(socket.remoteAddress)) return true;
  return (
    socket instanceof TLSSocket && socket.authorized && Object.keys(socket.getPeerCertificate()).length > 0
  );
}

export function isLoopbackAddress(address: string | undefined): boolean {
  return address !== undefined && isLoopback(address.replace(/^::ffff:/i, ''));
}

function valuesOf({ rawHeaders }: IncomingMessage, name: string): readonly string[] {
  return rawHeaders
    .filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name.toLowerCase())
    .map(decoded);
}

/** Node reads header bytes as Latin-1; proxies send names in UTF-8. */
function decoded(value: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(value, 'latin1'));
  } catch {
    return value;
  }
}

function groupsFrom(text: string): readonly string[] | undefined {
  const groups = text.split(/[,;]/).flatMap((each) => (each.trim() === '' ? [] : [each.trim()]));
  return groups.length <= MOST_GROUPS && groups.every(isName) ? groups : undefined;
}
