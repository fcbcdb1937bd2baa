/**
 * The name in a client certificate that a key may be bound to, as an operator writes it: `dns:app.ward-7.example` or
 * `uri:spiffe://hospital.example/triage`.
 *
 * A subject alternative name and not a fingerprint, because a renewed certificate has another fingerprint and the same
 * names; and not the subject, which can be spelt in several ways.
 */

/** A host name of letters, digits, hyphens and underscores (RFC 952 and what is in use); a wildcard is none. */
const DNS = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/;
/** A scheme and visible ASCII characters behind it (RFC 3986); compared as it stands. */
const URI = /^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$/;
const MAX_URI_LENGTH = 2048;

/** @returns the one spelling in which such a name is stored and compared, or undefined when the text is none. */
export function certificateName(text: string): string | undefined {
  const colon = text.indexOf(':');
  const [type, value] = [text.slice(0, colon), text.slice(colon + 1)];
  if (type === 'dns') return DNS.test(value.toLowerCase()) ? `dns:${value.toLowerCase()}` : undefined;
  return type === 'uri' && value.length <= MAX_URI_LENGTH && URI.test(value) ? text : undefined;
}
