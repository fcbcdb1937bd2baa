/**
 * Packages that are installed where they are used. This table is the only place that names them: nothing else here
 * imports them, their types included, so that the collector builds and runs without them.
 */
import { createRequire } from 'node:module';

const PACKAGES = {
  demo: '@clinical-events/demo',
  exports: '@clinical-events/exports',
  report: '@clinical-events/report',
} as const;

/**
 * @param door of the package: `/fhir`; empty for its main door.
 * @throws where it is not installed: the message has the command that installs it.
 */
export async function optionalPackage<Door>(of: keyof typeof PACKAGES, door = ''): Promise<Door> {
  const name = PACKAGES[of];
  if (!isInstalled(name)) {
    throw new Error(`this needs the package ${name}, which is not installed: npm install ${name}`);
  }
  return (await import(`${name}${door}`)) as Door;
}

function isInstalled(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(`${name}/package.json`);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'MODULE_NOT_FOUND') return false;
    throw error;
  }
}
