/** The repository, with which the files under deploy/ must agree. */
import fs from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { type Config, readConfig } from '../../packages/collector/src/config.js';

export const ROOT = path.resolve(import.meta.dirname, '../..');

export function textOf(file: string): string {
  return fs.readFileSync(path.join(ROOT, file), 'utf8');
}

export function yamlOf(file: string): unknown {
  return parse(textOf(file), { merge: true });
}

/** The value at a path of names and numbers. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- The caller knows the file.
export function at<T = unknown>(tree: unknown, names: string): T {
  return names.split('.').reduce((part, name) => (part as Record<string, unknown>)[name], tree) as T;
}

/** The numeric user id of the container, in all files that start it. */
export const CONTAINER_USER = 10_001;

/** The configuration that the collector reads from variables. Throws for a value that it refuses. */
export function configFrom(env: Readonly<Record<string, string>>): Config {
  const { config, faults } = readConfig({}, env);
  if (config === undefined)
    throw new Error(faults.map(({ source, message }) => `${source}: ${message}`).join());
  return config;
}

/** The maximum duration of an orderly stop, in seconds: requests, then sinks, and the same for the ledger. */
export const LONGEST_STOP_S = (3 * configFrom({}).shutdownTimeoutMs) / 1000;
