/** The names that options have in the environment. */

export const PREFIX = 'COLLECTOR_';
export const CONFIG_VARIABLE = `${PREFIX}CONFIG`;
/** With our prefix, and said to the client: where a collector is, and a key for it. One shell may have both. */
export const CLIENT_VARIABLES: readonly string[] = [`${PREFIX}URL`, `${PREFIX}KEY`];

export function variable(name: string): string {
  return PREFIX + name.toUpperCase().replaceAll('-', '_');
}
