/** Numbers and times as an operator reads them: short, with their unit, and the same in the collector and in every browser. */
/** Between a number and its unit, so that they stay on one line. */
const SPACE = '\u00a0';
/** Where there is no value. */
export const NONE = '–';
/** A whole number, its thousands apart. */
export function count(number) {
    return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ',');
}
/** A whole number, in millions or billions where it would be long. */
export function large(number) {
    if (number < 9_999_500)
        return count(number);
    const [unit, name] = number < 999_950_000 ? [1e6, 'million'] : [1e9, 'billion'];
    return `${(Math.floor((number / unit) * 100) / 100).toFixed(2)}${SPACE}${name}`;
}
/** Events a second, or the like: a decimal while it is small. */
export function rate(perSecond) {
    return perSecond >= 9.95 ? count(perSecond) : String(Math.round(perSecond * 10) / 10);
}
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
export function bytes(number) {
    let [value, unit] = [number, 0];
    // 1,023.9 is written as 1,024 already.
    for (; value >= 1023.5 && unit < BYTE_UNITS.length - 1; unit++)
        value /= 1024;
    return `${unit === 0 ? count(value) : rate(value)}${SPACE}${BYTE_UNITS[unit] ?? ''}`;
}
/** A latency. */
export function milliseconds(ms) {
    if (ms >= 9950)
        return `${count(ms / 1000)}${SPACE}s`;
    if (ms >= 999.5)
        return `${String(Math.round(ms / 100) / 10)}${SPACE}s`;
    if (ms > 0 && ms < 0.05)
        return `<${SPACE}0.1${SPACE}ms`;
    return `${rate(ms)}${SPACE}ms`;
}
const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Coarsely: the largest unit of which there is one, days from two of them. */
export function duration(ms) {
    const [unit, name] = ms >= 2 * DAY_MS
        ? [DAY_MS, 'days']
        : ms >= HOUR_MS
            ? [HOUR_MS, 'h']
            : ms >= MINUTE_MS
                ? [MINUTE_MS, 'min']
                : [SECOND_MS, 's'];
    return `${count(Math.floor(Math.max(0, ms) / unit))}${SPACE}${name}`;
}
/** How long before `now` it was. @param at both in milliseconds since 1970. */
export function ago(at, now) {
    return now - at < SECOND_MS ? 'just now' : `${duration(now - at)} ago`;
}
/** A time to come, in whole days once it is days. */
export function days(number) {
    if (number >= 3650)
        return `over 10${SPACE}years`;
    if (number < 1)
        return number * DAY_MS < HOUR_MS ? `under 1${SPACE}h` : duration(number * DAY_MS);
    const whole = Math.floor(number);
    return whole === 1 ? `1${SPACE}day` : `${count(whole)}${SPACE}days`;
}
/** The day of an instant, in UTC. */
export function day(instant) {
    return instant.slice(0, 10);
}
export function percent(part) {
    const hundredths = part * 100;
    if (hundredths > 0 && hundredths < 0.1)
        return `<${SPACE}0.1${SPACE}%`;
    // What is not all of it is not called so.
    const shown = hundredths < 9.95
        ? Math.round(hundredths * 10) / 10
        : part < 1
            ? Math.min(99, Math.round(hundredths))
            : Math.round(hundredths);
    return `${shown}${SPACE}%`;
}
export function counted(number, noun, plural = `${noun}s`) {
    return `${count(number)} ${number === 1 ? noun : plural}`;
}
