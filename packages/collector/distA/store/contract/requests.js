/** An answer waits so long for who asked, in milliseconds. */
export const KEPT_ANSWER_MS = 3_600_000;
//# sourceMappingURL=requests.js.map