/** Sizes and durations as people write them. */

const BYTES = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };
const MILLISECONDS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

const QUANTITY = /^(\d{1,15})([A-Za-z]{0,3})$/;

function parse(text: string, units: Readonly<Record<string, number>>): number | undefined {
  const [, digits, unit] = QUANTITY.exec(text) ?? [];
  if (digits === undefined || unit === undefined) return undefined;
  const factor = unit === '' ? 1 : units[unit];
  const value = factor === undefined ? Number.NaN : Number(digits) * factor;
  return Number.isSafeInteger(value) ? value : undefined;
}

/** Uses the largest unit that divides the value, so that 64KiB is shown as 64KiB. */
function format(value: number, units: Readonly<Record<string, number>>, plain: string): string {
  const fitting = Object.entries(units).filter(([, factor]) => value >= factor && value % factor === 0);
  const [unit, factor] = fitting.at(-1) ?? [plain, 1];
  return `${value / factor}${unit}`;
}

/**
 * Parses `1MiB`, `64KiB`, `1000000`. Decimal units (kB, MB) are rejected as ambiguous.
 * @returns bytes, or undefined if the text is not a size.
 */
export function parseByteSize(text: string): number | undefined {
  return parse(text, BYTES);
}

/** @returns text that {@link parseByteSize} reads as the same size. */
export function formatByteSize(bytes: number): string {
  return format(bytes, BYTES, 'B').replace(/(?<=\d)B$/, '');
}

/**
 * Parses `500ms`, `10s`, `1m`, `24h`, `90d`. A plain number is milliseconds; a day is 24 hours.
 * @returns milliseconds, or undefined if the text is not a duration.
 */
export function parseDuration(text: string): number | undefined {
  return parse(text, MILLISECONDS);
}

/** @returns text that {@link parseDuration} reads as the same duration. */
export function formatDuration(ms: number): string {
  return format(ms, MILLISECONDS, 'ms');
}

/** An approximate size for a person: `12 KiB`, `1.5 MiB`. */
export function aboutBytes(bytes: number): string {
  return bytes < 1 << 20 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

/**
 * A number and its noun: `1 segment`, `2 segments`. The console has its own, since it also runs in a browser.
 */
export function counted(number: number, thing: string, things = `${thing}s`): string {
  return `${number} ${number === 1 ? thing : things}`;
}

/** Milliseconds since 1970 as RFC 3339 in UTC; null for undefined. */
export function instant(ms: number): string;
export function instant(ms: number | undefined): string | null;
export function instant(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}

export const DAY_MS = 86_400_000;
