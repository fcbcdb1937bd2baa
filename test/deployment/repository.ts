/** What the files under deploy/ have to agree with: the repository that they deploy. */
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

/** What stands at a path of names and numbers. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- The caller knows the file.
export function at<T = unknown>(tree: unknown, names: string): T {
  return names.split('.').reduce((part, name) => (part as Record<string, unknown>)[name], tree) as T;
}

/** The user, by number, that the container and whatever starts it agree on. */
export const CONTAINER_USER = 10_001;

/** What the collector makes of variables; throws what it would refuse. */
export function configFrom(env: Readonly<Record<string, string>>): Config {
  const { config, faults } = readConfig({}, env);
  if (config === undefined)
    throw new Error(faults.map(({ source, message }) => `${source}: ${message}`).join());
  return config;
}

/** So long an orderly stop takes at most, in seconds: requests, then sinks, and as long again for the ledger's end. */
export const LONGEST_STOP_S = (3 * configFrom({}).shutdownTimeoutMs) / 1000;
