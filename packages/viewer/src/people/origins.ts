/** Whether a request is meant for the viewer, and whether a form was sent by a page of it. */
import type { IncomingMessage } from 'node:http';
import { isLoopback } from '@clinical-events/collector/loopback';
import { isLoopbackAddress } from './proxy.js';

/** A name that an attacker resolves to this host (DNS rebinding) is not among these. */
export function isOwnHost(request: IncomingMessage, url: URL): boolean {
  const { host } = request.headers;
  if (host === undefined) return false;
  if (host.toLowerCase() === url.host) return true;
  const [, name = '', port] = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::(\d+))?$/i.exec(host) ?? [];
  const { localAddress, localPort } = request.socket;
  return (
    isLoopbackAddress(localAddress) &&
    isLoopback(name.replace(/^\[|\]$/g, '')) &&
    (port === undefined || Number(port) === localPort)
  );
}

/**
 * Whether a page of the viewer sent the request, as the browser states it. Browsers state it with each POST;
 * `Origin: null` is what they send under some referrer policies.
 */
export function isSameOrigin({ headers }: IncomingMessage, url: URL): boolean {
  const { origin, host = '' } = headers;
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin') return false;
  if (origin === undefined || origin === 'null') return site !== undefined;
  if (host.toLowerCase() === url.host) return origin === url.origin;
  // Another name of loopback, which `isOwnHost` permits.
  return [`http://${host}`, `https://${host}`].includes(origin);
}
