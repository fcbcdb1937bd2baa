/**
 * The statements of `sql/*.sql`, each below a line `-- name: NAME`. In a statement `:name` stands for a
 * number, a list of numbers, or another statement: COPY takes no parameters. `schema.sql` and `roles.sql` are
 * scripts.
 */
import { readdirSync, readFileSync } from 'node:fs';

const DIRECTORY = new URL('../sql/', import.meta.url);
const STATEMENTS = new Map<string, string>();

for (const file of readdirSync(DIRECTORY)) {
  for (const section of script(file)
    .split(/^-- name: /m)
    .slice(1)) {
    const [name = '', ...lines] = section.split('\n');
    if (STATEMENTS.has(name)) throw new Error(`sql/${file}: another statement is called ${name}`);
    STATEMENTS.set(
      name,
      lines
        .filter((line) => !line.startsWith('--'))
        .join('\n')
        .trim(),
    );
  }
}

export function script(file: string): string {
  return readFileSync(new URL(file, DIRECTORY), 'utf8');
}

export function sql(name: string, values: Record<string, number | readonly number[]> = {}): string {
  const text = STATEMENTS.get(name);
  if (text === undefined) throw new Error(`no statement is called ${name}`);
  return text.replace(/(?<!:):([a-z_]+)/g, (_, variable: string) => {
    const value = values[variable];
    if (value === undefined) return sql(variable, values);
    return typeof value === 'number' ? `${value}` : `'{${value.join()}}'`;
  });
}
