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

const MARK = /(?<!:):([a-z_]+)/g;
const MARKED = new Set<string>();

for (const [name, text] of STATEMENTS) {
  const whole = withStatements(text);
  STATEMENTS.set(name, whole);
  if (whole.search(MARK) >= 0) MARKED.add(name);
}

function withStatements(text: string): string {
  return text.replace(MARK, (mark, name: string) => {
    const part = STATEMENTS.get(name);
    return part === undefined ? mark : withStatements(part);
  });
}

export function script(file: string): string {
  return readFileSync(new URL(file, DIRECTORY), 'utf8');
}

/** @returns the statement, with `values` in place of its marks. */
export function sql(name: string, values: Record<string, number | readonly number[]> = {}): string {
  const text = STATEMENTS.get(name);
  if (text === undefined) throw new Error(`no statement is called ${name}`);
  if (!MARKED.has(name)) return text;
  return text.replace(MARK, (_, variable: string) => {
    const value = values[variable];
    if (value === undefined) throw new Error(`${name} needs a value of ${variable}`);
    return typeof value === 'number' ? `${value}` : `'{${value.join()}}'`;
  });
}
