/** Where it is logged who read what: the contract that every driver keeps. */
/** Something else stands where the log should. */
export class AccessLogUnfit extends Error {
    name = 'AccessLogUnfit';
}
/** The log is not the one that was read before. The message says how it shows, in words that follow nothing. */
export class AccessLogAltered extends Error {
    name = 'AccessLogAltered';
}
//# sourceMappingURL=access-log.js.map