/** Formatting of numbers, median and spread. */

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

export function spread(values) {
  return { min: Math.min(...values), median: median(values), max: Math.max(...values) };
}

export function whole(value) {
  return Math.round(value).toLocaleString('en-US');
}

export function decimals(value, places = 2) {
  return value.toFixed(places);
}

export function mebibytes(bytes) {
  return whole(bytes / (1 << 20));
}

export function gibibytes(bytes) {
  return decimals(bytes / 2 ** 30, 1);
}

/** The median, with the lowest and the highest value. */
export function withSpread({ min, median: middle, max }, show = decimals) {
  return min === max ? show(middle) : `${show(middle)} (${show(min)} to ${show(max)})`;
}
