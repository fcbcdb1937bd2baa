/**
 * Packages that are installed only where they are used. Only this table names them: nothing else imports them
 * or their types, so the collector builds and runs without them.
 */
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { Unusable } from './unusable.js';

const PACKAGES = {
  demo: '@clinical-events/demo',
  exports: '@clinical-events/exports',
  postgres: '@clinical-events/postgres',
  report: '@clinical-events/report',
} as const;

/**
 * @param door an entry point of the package, such as `/fhir`; empty for the main one.
 * @throws Unusable if it is not installed; the message explains how to install it.
 */
export async function optionalPackage<Door>(of: keyof typeof PACKAGES, door = ''): Promise<Door> {
  const name = PACKAGES[of];
  if (!isInstalled(name))
    throw new Unusable(`this needs the package ${name}, which is not installed: ${remedyFor(of)}`);
  return (await import(`${name}${door}`)) as Door;
}

/** Only the bundle and a clone have the demo, which is not on npm. */
function remedyFor(of: keyof typeof PACKAGES): string {
  if (fs.existsSync(new URL('../../../scripts/setup.mjs', import.meta.url)))
    return 'run node scripts/setup.mjs --all';
  const bundle = 'use the server bundle of a release, which has it';
  return of === 'demo' ? bundle : `install it beside the collector, or ${bundle}`;
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
