import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { EVENT_KINDS, PROFILES } from '../src/index.js';

interface Schema {
  readonly $schema?: string;
  readonly $id?: string;
  readonly $ref?: string;
  readonly title?: string;
  readonly description?: string;
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
}

const directory = new URL('../schemas/', import.meta.url);
const names = readdirSync(directory);
const read = (name: string) => JSON.parse(readFileSync(new URL(name, directory), 'utf8')) as Schema;

/** The schema that a reference means, and the file that it is in. */
function follow(reference: string, file: Schema): [Schema, Schema] {
  const [name = '', pointer = ''] = reference.split('#');
  const target = name === '' ? file : read(name);
  const steps = pointer.split('/').slice(1);
  return [
    steps.reduce<unknown>((at, step) => (at as Record<string, unknown>)[step], target) as Schema,
    target,
  ];
}

/** The descriptions of the fields at this level, or those of the parent if there are none. */
function describedFields(schema: Schema, file = schema): Map<string, string | undefined> {
  const fields = new Map<string, string | undefined>();
  const add = (found: Map<string, string | undefined>, prefix = '') => {
    for (const [name, text] of found) fields.set(prefix + name, text);
  };
  if (schema.$ref !== undefined) add(describedFields(...follow(schema.$ref, file)));
  const parts = [...(schema.allOf ?? []), ...(schema.anyOf ?? []), ...(schema.items ? [schema.items] : [])];
  for (const part of parts) add(describedFields(part, file));
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const [target] = property.$ref === undefined ? [property] : follow(property.$ref, file);
    fields.set(name, property.description ?? target.description ?? fields.get(name));
    add(describedFields(property, file), `${name}.`);
  }
  return fields;
}

describe('the schema files', () => {
  it('are the base, its metadata, each kind in each profile, the two answers and the record', () => {
    const events = EVENT_KINDS.flatMap((kind) => PROFILES.map((profile) => `${kind}.${profile}.json`));
    expect([...names].sort()).toEqual(
      [
        ...events,
        'accepted.json',
        'base-event.json',
        'error.json',
        'record.json',
        'system-metadata.json',
      ].sort(),
    );
  });

  it.each(names)('%s is of the dialect 2020-12, has its name as its id, and says what it is for', (name) => {
    const schema = read(name);
    expect(schema.$schema).toBe('https://json-schema.org/draft/2020-12/schema');
    expect(schema.$id).toBe(name);
    expect(schema.title).toBeTruthy();
    expect(schema.description).toBeTruthy();
  });

  it.each(names)('%s describes every field', (name) => {
    for (const [field, description] of describedFields(read(name))) expect(description, field).toBeTruthy();
  });

  it.each(names)('%s closes no object against unknown fields', (name) => {
    const text = readFileSync(new URL(name, directory), 'utf8');
    expect(text).not.toMatch(/additionalProperties|unevaluatedProperties|propertyNames|maxProperties/);
  });
});
