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
  readonly properties?: Readonly<Record<string, Schema>>;
}

const directory = new URL('../schemas/', import.meta.url);
const names = readdirSync(directory);
const read = (name: string) => JSON.parse(readFileSync(new URL(name, directory), 'utf8')) as Schema;

/** The descriptions of the fields at this level, those of the parent standing in where there are none. */
function describedFields(schema: Schema): Map<string, string | undefined> {
  const fields = new Map<string, string | undefined>();
  for (const part of schema.allOf ?? []) {
    for (const [name, text] of describedFields(read(part.$ref ?? ''))) fields.set(name, text);
  }
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const target = property.$ref === undefined ? property : read(property.$ref);
    fields.set(name, target.description ?? fields.get(name));
    for (const [inner, text] of describedFields(target)) fields.set(`${name}.${inner}`, text);
  }
  return fields;
}

describe('the schema files', () => {
  it('are the base, its metadata, each kind in each profile, and the two answers', () => {
    const events = EVENT_KINDS.flatMap((kind) => PROFILES.map((profile) => `${kind}.${profile}.json`));
    expect([...names].sort()).toEqual(
      [...events, 'accepted.json', 'base-event.json', 'error.json', 'system-metadata.json'].sort(),
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
