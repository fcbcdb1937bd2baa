const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1)$/i;

/** Whether the host name or address is reachable only from this host. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}
