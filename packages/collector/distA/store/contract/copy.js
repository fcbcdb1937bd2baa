/** A log on its way into a back-up: what a driver promises of it. */
/** The log is another one than the copy was made of, or went on differently. The message says how it shows. */
export class LogDiffers extends Error {
    name = 'LogDiffers';
}
//# sourceMappingURL=copy.js.map