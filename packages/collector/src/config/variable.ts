/** The names that options have in the environment. */

export const PREFIX = 'COLLECTOR_';
export const CONFIG_VARIABLE = `${PREFIX}CONFIG`;

export function variable(name: string): string {
  return PREFIX + name.toUpperCase().replaceAll('-', '_');
}
