/** What the environment and the configuration file say, by option name: still text, and not yet understood. */
import { readFileSync, statSync } from 'node:fs';
import { didYouMean } from '@clinical-events/protocol';
import { jsonFaultAt, repeatedNames } from '../json-fault.js';
import type { ConfigFault } from './config-error.js';
import { ENTRIES } from './options.js';
import { CLIENT_VARIABLES, CONFIG_VARIABLE, PREFIX, variable } from './variable.js';

export interface Given {
  readonly text: string;
  readonly source: string;
}
/** The text is undefined when what stands there cannot be any, and that is told. */
export type GivenInFile = Given | { readonly text: undefined; readonly source: string };

/** Values from the environment, by option name. Every variable with our prefix has to be one of ours, or the client's. */
export function fromEnvironment(env: NodeJS.ProcessEnv, faults: ConfigFault[]): Map<string, Given> {
  const given = new Map<string, Given>();
  const names = new Map(ENTRIES.map(([name]) => [variable(name), name]));
  for (const [source, text] of Object.entries(env)) {
    if (!source.startsWith(PREFIX) || text === undefined || source === CONFIG_VARIABLE) continue;
    if (CLIENT_VARIABLES.includes(source)) continue;
    const name = names.get(source);
    if (name !== undefined) given.set(name, { text, source });
    else
      faults.push({
        source,
        message: `no such setting${kubernetesHint(source) || didYouMean(source, [CONFIG_VARIABLE, ...names.keys()])}`,
      });
  }
  return given;
}

/** Kubernetes gives every pod variables for each Service: one named "collector" takes our prefix. */
function kubernetesHint(name: string): string {
  const fromService = /^COLLECTOR_(SERVICE_(HOST|PORT)|PORT_\d+_(TCP|UDP))/.test(name);
  return fromService
    ? '; Kubernetes sets it for a Service named "collector": set enableServiceLinks to false'
    : '';
}

const MOST_FILE_BYTES = 1 << 20;

/** Values from the configuration file, by option name; undefined when there is one and nothing is known of what it says. */
export function fromFile(
  file: Given | undefined,
  faults: ConfigFault[],
): Map<string, GivenInFile> | undefined {
  const given = new Map<string, GivenInFile>();
  if (file === undefined) return given;
  let text: string;
  try {
    // Whoever opens a pipe that nobody writes to waits for ever; and what a device says is endless.
    const stat = statSync(file.text);
    if (!stat.isFile() || stat.size > MOST_FILE_BYTES) {
      const why = stat.isFile() ? 'is too large for a configuration' : 'is not a regular file';
      faults.push({ source: file.source, message: `${file.text} ${why}` });
      return undefined;
    }
    text = readFileSync(file.text, 'utf8');
  } catch (error) {
    faults.push({
      source: file.source,
      message: `cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    });
    return undefined;
  }
  const fault = jsonFaultAt(text);
  if (fault !== undefined) {
    const place = `line ${fault.line}, column ${fault.column}`;
    faults.push({ source: file.source, message: `${file.text} is not JSON: see ${place}` });
    return undefined;
  }
  const content: unknown = JSON.parse(text);
  if (typeof content !== 'object' || content === null || Array.isArray(content)) {
    faults.push({ source: file.source, message: `${file.text} does not hold a JSON object` });
    return undefined;
  }
  for (const name of repeatedNames(text)) {
    faults.push({ source: `${file.text}, "${name}"`, message: 'is given more than once' });
  }
  const options = new Map(ENTRIES);
  const known = [...options.keys()];
  for (const [name, value] of Object.entries(content)) {
    const source = `${file.text}, "${name}"`;
    const option = options.get(name);
    const numeric = option !== undefined && 'min' in option;
    if (option === undefined) faults.push({ source, message: `no such setting${didYouMean(name, known)}` });
    else if (typeof value !== 'string' && !(numeric && typeof value === 'number')) {
      faults.push({ source, message: numeric ? 'must be a string or a number' : 'must be a string' });
      given.set(name, { text: undefined, source });
    } else given.set(name, { text: String(value), source });
  }
  return given;
}
