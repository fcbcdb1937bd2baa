/**
 * How often a property is tried. The files that ask are run twice: with a tenth of it by `npm test`, so that an answer
 * comes soon, and in full by `npm run test:long` (vitest.config.ts).
 */
const isLong = process.env['PROPERTY_RUNS'] === 'all';

/** @param all in full. */
export function runs(all: number): number {
  return isLong ? all : Math.ceil(all / 10);
}
