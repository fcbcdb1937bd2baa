// The packages that others need when they run, by the lock file: what scripts/assemble.mjs copies and the SBOMs name.
import { readFileSync } from 'node:fs';
import path from 'node:path';

/** The packages of package-lock.json by their place. */
export const { packages } = JSON.parse(
  readFileSync(path.join(import.meta.dirname, '../../package-lock.json'), 'utf8'),
);

/** The place in which Node.js finds a dependency of the package in `from`. */
function placeOf(name, from) {
  for (let parent = from; ; parent = parent.slice(0, Math.max(0, parent.lastIndexOf('/node_modules/')))) {
    const place = path.posix.join(parent, 'node_modules', name);
    const found = packages[place];
    if (found !== undefined) return found.link ? found.resolved : place;
    if (parent === '') return undefined;
  }
}

/** The places of the packages that the package in `from` asks for; those that it may miss only with `optional`. */
export function dependenciesOf(from, optional = false) {
  const { dependencies, peerDependencies, peerDependenciesMeta: meta = {} } = packages[from];
  const others = optional ? packages[from].optionalDependencies : {};
  const places = Object.keys({ ...peerDependencies, ...dependencies, ...others }).map((name) => {
    const place = placeOf(name, from);
    if (place === undefined && !meta[name]?.optional)
      throw new Error(`package-lock.json does not have ${name}, which ${from} needs`);
    return place;
  });
  return places.filter((place) => place !== undefined);
}

/**
 * The places of workspaces and of all packages that they need when they run. The bundle is without `optional` ones: they
 * depend on the platform, and the programs use none. npm installs them with a package.
 */
export function runtimeOf(workspaces, optional = false) {
  const found = new Set(workspaces);
  // A Set also visits what is added meanwhile.
  for (const from of found) for (const place of dependenciesOf(from, optional)) found.add(place);
  return [...found].sort();
}
