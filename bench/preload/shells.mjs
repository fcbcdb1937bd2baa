/** For modules that are loaded into a collector by `node --import`, which its threads inherit. */
import { registerHooks } from 'node:module';

/**
 * Puts shells in the place of modules of the collector. The product needs no switch for it.
 * @param sources by file below dist/. Anyone who imports another name of a module finds out when it is linked.
 */
export function putShells(sources) {
  const shells = new Map(
    Object.entries(sources).map(([file, source]) => [
      new URL(`../../packages/collector/dist/${file}`, import.meta.url).href,
      source,
    ]),
  );
  registerHooks({
    load(url, context, next) {
      const source = shells.get(url);
      return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true };
    },
  });
}
