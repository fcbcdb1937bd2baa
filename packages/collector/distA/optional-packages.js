/**
 * Packages that are installed where they are used. This table is the only place that names them: nothing else here
 * imports them, their types included, so that the collector builds and runs without them.
 */
import { createRequire } from 'node:module';
const PACKAGES = {
    demo: '@clinical-events/demo',
    exports: '@clinical-events/exports',
    postgres: '@clinical-events/postgres',
    report: '@clinical-events/report',
};
/** The message says how it is installed. */
export class PackageMissing extends Error {
    name = 'PackageMissing';
    constructor(name) {
        super(`this needs the package ${name}, which is not installed: run node scripts/setup.mjs --all in the checkout, or install ` +
            'the package beside the collector');
    }
}
/**
 * @param door of the package: `/fhir`; empty for its main door.
 * @throws PackageMissing
 */
export async function optionalPackage(of, door = '') {
    const name = PACKAGES[of];
    if (!isInstalled(name))
        throw new PackageMissing(name);
    return (await import(`${name}${door}`));
}
function isInstalled(name) {
    try {
        createRequire(import.meta.url).resolve(`${name}/package.json`);
        return true;
    }
    catch (error) {
        if (error.code === 'MODULE_NOT_FOUND')
            return false;
        throw error;
    }
}
//# sourceMappingURL=optional-packages.js.map