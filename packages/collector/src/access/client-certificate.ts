/** The client certificate of a connection, and the names in it. */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

interface Shown {
  /** The names in the form to which keys are bound: `dns:` or `uri:` and the name. */
  readonly names: ReadonlySet<string>;
  /** Milliseconds since 1970 UTC. */
  readonly expiresAt: number;
}

/**
 * The property of a connection with the contents of its certificate. They are read once, since they cannot
 * change without renegotiation.
 */
const SHOWN = Symbol('client certificate');
type Connection = Socket & { [SHOWN]?: Shown };
const NOTHING: Shown = { names: new Set(), expiresAt: 0 };

/**
 * @param name as `certificateName` spells it.
 * @param nowMs the wall clock: a connection may outlive its certificate.
 * @returns false also when the connection is not encrypted or the certificate is not verified.
 */
export function showsCertificate(connection: Connection, name: string, nowMs: number): boolean {
  const shown = connection[SHOWN] ?? read(connection);
  connection[SHOWN] = shown;
  return nowMs < shown.expiresAt && shown.names.has(name);
}

function read(connection: Socket): Shown {
  if (!(connection instanceof TLSSocket) || !connection.authorized) return NOTHING;
  const certificate = connection.getPeerX509Certificate();
  if (certificate === undefined) return NOTHING;
  return {
    names: new Set(alternativeNames(certificate.subjectAltName ?? '')),
    expiresAt: certificate.validToDate.getTime(),
  };
}

/**
 * One name: the type before the colon, and a value in which Node quotes anything that resembles a separator.
 */
const NAME = /([^:,"]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?:, |$)/y;

/** @param text as `X509Certificate.subjectAltName` returns it. @returns DNS names in lower case, and URIs. */
export function alternativeNames(text: string): string[] {
  const names: string[] = [];
  NAME.lastIndex = 0;
  while (NAME.lastIndex < text.length) {
    const [, type, value] = NAME.exec(text) ?? [];
    // A text that cannot be parsed completely has no names.
    if (type === undefined || value === undefined) return [];
    const plain = value.startsWith('"') ? unquoted(value) : value;
    if (plain === undefined) return [];
    if (type === 'DNS') names.push(`dns:${plain.toLowerCase()}`);
    else if (type === 'URI') names.push(`uri:${plain}`);
  }
  return names;
}

/** Node quotes as JSON does. */
function unquoted(value: string): string | undefined {
  try {
    return JSON.parse(value) as string;
  } catch {
    return undefined;
  }
}
