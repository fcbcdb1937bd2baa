const DECIMAL = /^(?:0|[1-9][0-9]{0,15})$/;

/**
 * A whole number as C2SP writes sizes and indexes: ASCII digits without leading zeros.
 * @returns undefined for anything else, and for a number above 2^53 - 1, which no double holds exactly.
 */
export function parseDecimal(text: string): number | undefined {
  if (!DECIMAL.test(text)) return undefined;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : undefined;
}
