/**
 * How sure a share can be of itself: the score interval of E. B. Wilson, "Probable inference, the law of succession,
 * and statistical inference", Journal of the American Statistical Association 22 (1927) 209-212. It stays within 0 and
 * 1 and holds for few cases and for none, where the usual estimate plus or minus its error does not.
 */

/** A share with what it is a share of. The bounds are of the 95 % interval; all three are null for 0 of 0. */
export interface Share {
  readonly count: number;
  readonly of: number;
  readonly share: number | null;
  readonly low: number | null;
  readonly high: number | null;
}

/** The quantile of the normal distribution for 95 %, two-sided. */
const Z = 1.959_963_984_540_054;

/** @param count how many of the `of` cases have the property. */
export function shareOf(count: number, of: number): Share {
  if (of === 0) return { count, of, share: null, low: null, high: null };
  const p = count / of;
  const z2 = Z * Z;
  const centre = p + z2 / (2 * of);
  const half = Z * Math.sqrt((p * (1 - p)) / of + z2 / (4 * of * of));
  const scale = 1 + z2 / of;
  // At the ends the rounding of doubles would put the bound beside the share.
  const low = count === 0 ? 0 : (centre - half) / scale;
  const high = count === of ? 1 : (centre + half) / scale;
  return { count, of, share: p, low, high };
}
