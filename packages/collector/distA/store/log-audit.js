/** `entry 7`, or `entries 7 to 9`: of numbers that count the log's own entries too. */
export function entryRange(sequence, count) {
    return count === 1 ? `entry ${sequence}` : `entries ${sequence} to ${sequence + count - 1}`;
}
/** `event 7`, or `events 7 to 9`. */
export function eventRange(sequence, count) {
    return count === 1 ? `event ${sequence}` : `events ${sequence} to ${sequence + count - 1}`;
}
//# sourceMappingURL=log-audit.js.map