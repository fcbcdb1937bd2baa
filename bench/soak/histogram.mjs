/** A histogram of times, with buckets that are 2 % wide. */
const A_DOUBLING = 32;

export class Histogram {
  counts = [];
  max = 0;

  add(ms) {
    const place = Math.max(0, Math.ceil(Math.log2(ms * 1000) * A_DOUBLING));
    this.counts[place] = (this.counts[place] ?? 0) + 1;
    if (ms > this.max) this.max = ms;
  }

  /** @returns `{ count, p50, p99, max }` in milliseconds; times are undefined without a request. */
  summary() {
    const count = this.counts.reduce((sum, each) => sum + each, 0);
    if (count === 0) return { count };
    const at = (part) => {
      let left = part * count;
      const place = this.counts.findIndex((each) => (left -= each ?? 0) <= 0);
      return Math.min(this.max, 2 ** (place / A_DOUBLING) / 1000);
    };
    return { count, p50: at(0.5), p99: at(0.99), max: this.max };
  }
}
