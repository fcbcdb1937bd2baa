/** Numbers and times for operators: short, with their unit, and equal in the collector and every browser. */

/** Keeps a number and its unit on one line. */
const SPACE = '\u00a0';
/** Stands for a missing value. */
export const NONE = '–';

/** A whole number with thousands separators. */
export function count(number: number): string {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** A whole number, abbreviated to millions or billions. */
export function large(number: number): string {
  if (number < 9_999_500) return count(number);
  const [unit, name] = number < 999_950_000 ? [1e6, 'million'] : [1e9, 'billion'];
  return `${(Math.floor((number / unit) * 100) / 100).toFixed(2)}${SPACE}${name}`;
}

/** A rate such as events per second: one decimal while it is small. */
export function rate(perSecond: number): string {
  return perSecond >= 9.95 ? count(perSecond) : String(Math.round(perSecond * 10) / 10);
}

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(number: number): string {
  let [value, unit] = [number, 0];
  // 1,023.9 rounds to 1,024.
  for (; value >= 1023.5 && unit < BYTE_UNITS.length - 1; unit++) value /= 1024;
  return `${unit === 0 ? count(value) : rate(value)}${SPACE}${BYTE_UNITS[unit] ?? ''}`;
}

/** A latency. */
export function milliseconds(ms: number): string {
  if (ms >= 9950) return `${count(ms / 1000)}${SPACE}s`;
  if (ms >= 999.5) return `${String(Math.round(ms / 100) / 10)}${SPACE}s`;
  if (ms > 0 && ms < 0.05) return `<${SPACE}0.1${SPACE}ms`;
  return `${rate(ms)}${SPACE}ms`;
}

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** A duration in its largest unit. Days are used from two days on. */
export function duration(ms: number): string {
  const [unit, name] =
    ms >= 2 * DAY_MS
      ? [DAY_MS, 'days']
      : ms >= HOUR_MS
        ? [HOUR_MS, 'h']
        : ms >= MINUTE_MS
          ? [MINUTE_MS, 'min']
          : [SECOND_MS, 's'];
  return `${count(Math.floor(Math.max(0, ms) / unit))}${SPACE}${name}`;
}

/** The time between `at` and `now`, both in milliseconds since 1970. */
export function ago(at: number, now: number): string {
  return now - at < SECOND_MS ? 'just now' : `${duration(now - at)} ago`;
}

/** A future time, in whole days if it is days away. */
export function days(number: number): string {
  if (number >= 3650) return `over 10${SPACE}years`;
  if (number < 1) return number * DAY_MS < HOUR_MS ? `under 1${SPACE}h` : duration(number * DAY_MS);
  const whole = Math.floor(number);
  return whole === 1 ? `1${SPACE}day` : `${count(whole)}${SPACE}days`;
}

/** The day of an instant, in UTC. */
export function day(instant: string): string {
  return instant.slice(0, 10);
}

export function percent(part: number): string {
  const hundredths = part * 100;
  if (hundredths > 0 && hundredths < 0.1) return `<${SPACE}0.1${SPACE}%`;
  // Less than everything is never shown as 100 %.
  const shown =
    hundredths < 9.95
      ? Math.round(hundredths * 10) / 10
      : part < 1
        ? Math.min(99, Math.round(hundredths))
        : Math.round(hundredths);
  return `${shown}${SPACE}%`;
}

export function counted(number: number, noun: string, plural = `${noun}s`): string {
  return `${count(number)} ${number === 1 ? noun : plural}`;
}
