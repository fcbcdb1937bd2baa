/**
 * How often a property is tried. The files that ask are run twice: with a tenth of it by `npm test`, so that an answer
 * comes soon, and in full by `npm run test:long` (vitest.config.ts).
 */
const isLong = process.env['PROPERTY_RUNS'] === 'all';

/** @param all in full. @param few by `npm test`. */
export function runs(all: number, few = Math.ceil(all / 10)): number {
  return isLong ? all : few;
}
