/** Validates records by packages/protocol/schemas/record.json, as Ajv reads it. */
import { readFileSync, readdirSync } from 'node:fs';
import type { ClinicalRecord } from '@clinical-events/protocol';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { formats } from '../../../protocol/src/formats/formats.js';
import { toJson } from '../../src/records/raw-json.js';

const directory = new URL('../../../protocol/schemas/', import.meta.url);
const ajv = new Ajv2020({ allErrors: true, strict: true, strictRequired: false });
for (const [name, check] of Object.entries(formats)) ajv.addFormat(name, check);
ajv.addFormat('int32', true);
for (const name of readdirSync(directory)) {
  ajv.addSchema(JSON.parse(readFileSync(new URL(name, directory), 'utf8')) as object);
}
const validate = ajv.getSchema('record.json');

/** The faults of the record's text by the schema; none is expected. */
export function schemaFaults(record: ClinicalRecord): unknown[] {
  if (validate === undefined) throw new Error('record.json is not a schema');
  return validate(JSON.parse(toJson(record))) === true ? [] : (validate.errors ?? []);
}

/** What has a member that the schema does not name, by pointer: the schema lets it through, and we should not send it. */
export function unnamedMembers(record: ClinicalRecord): string[] {
  const schema = JSON.parse(readFileSync(new URL('record.json', directory), 'utf8')) as Schema;
  return [...unnamed(JSON.parse(toJson(record)), schema, '')];
}

interface Schema {
  readonly $ref?: string;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
}

function* unnamed(value: unknown, schema: Schema, pointer: string): Generator<string> {
  if (Array.isArray(value) && schema.items !== undefined) {
    for (const item of value) yield* unnamed(item, schema.items, `${pointer}/-`);
  }
  const named = schema.properties ?? schema.anyOf?.[0]?.properties;
  // Of the members as sent, the schema of the event names only some.
  if (named === undefined || typeof value !== 'object' || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    const inner = named[name];
    if (inner === undefined) yield `${pointer}/${name}`;
    else if (inner.$ref === undefined) yield* unnamed(member, inner, `${pointer}/${name}`);
  }
}
