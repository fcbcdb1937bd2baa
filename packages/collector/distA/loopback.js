const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1)$/i;
/** Whether it is a host name or address that no other machine reaches. */
export function isLoopback(host) {
    return LOOPBACK.test(host);
}
//# sourceMappingURL=loopback.js.map