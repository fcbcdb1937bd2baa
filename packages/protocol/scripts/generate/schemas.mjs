// Reads the schemas and composes them: every reference followed, every allOf folded into one schema.
//
// The validators are compiled from composed schemas, not from the files as they are. Ajv would call one
// function a reference, with an argument object each, and would check and report a field once for every
// schema of an allOf that names it. A test holds the composed schemas against the files as Ajv reads them.
import { readdirSync, readFileSync } from 'node:fs';

/** Keywords that describe and do not constrain. In a composition the later schema's stand. */
const ANNOTATIONS = new Set(['title', 'description']);
/** Keywords that constrain; of these, two schemas of a composition may not state different things. */
const ASSERTIONS = new Set([
  'type',
  'format',
  'enum',
  'const',
  'minLength',
  'minimum',
  'maximum',
  'items',
  'anyOf',
]);
/** Keywords that are of no interest once references have been followed. */
const IDENTITY = new Set(['$id', '$schema', '$defs']);

/** Every schema of a directory, by its $id, which is its file name. */
export function readSchemas(directory) {
  const schemas = new Map();
  for (const name of readdirSync(directory).sort()) {
    const schema = JSON.parse(readFileSync(new URL(name, directory), 'utf8'));
    if (schema.$id !== name) throw new Error(`${name} must have its file name as its $id`);
    schemas.set(name, schema);
  }
  return schemas;
}

export function schemaOf(kind, profile) {
  return `${kind}.${profile}.json`;
}

function merge(left, right) {
  const merged = { ...left };
  for (const [keyword, value] of Object.entries(right)) {
    const present = merged[keyword];
    if (present === undefined || ANNOTATIONS.has(keyword)) {
      merged[keyword] = value;
    } else if (keyword === 'required') {
      merged.required = [...new Set([...present, ...value])];
    } else if (keyword === 'properties') {
      merged.properties = { ...present };
      for (const [name, property] of Object.entries(value)) {
        merged.properties[name] = merge(present[name] ?? {}, property);
      }
    } else if (JSON.stringify(present) !== JSON.stringify(value)) {
      throw new Error(`two schemas of a composition differ in ${keyword}`);
    }
  }
  return merged;
}

/** The target of a reference and its file: `file`, `file#/a/b` or, in the same file, `#/a/b`. */
function follow(reference, root, schemas) {
  const [name, pointer = ''] = reference.split('#');
  const file = name === '' ? root : schemas.get(name);
  const target = pointer
    .split('/')
    .slice(1)
    .reduce((at, step) => at?.[step], file);
  if (target === undefined) throw new Error(`${reference} points nowhere`);
  return [target, file];
}

/** The schema as one: no $ref, no allOf, no $id. Refuses a keyword it does not know rather than drop it. */
export function compose(schema, schemas, root = schema) {
  const own = {};
  let inherited = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === '$ref') {
      const [target, file] = follow(value, root, schemas);
      inherited = merge(inherited, compose(target, schemas, file));
    } else if (keyword === 'allOf') {
      for (const part of value) inherited = merge(inherited, compose(part, schemas, root));
    } else if (keyword === 'anyOf') {
      own.anyOf = value.map((part) => compose(part, schemas, root));
    } else if (keyword === 'items') {
      own.items = compose(value, schemas, root);
    } else if (keyword === 'properties') {
      own.properties = {};
      for (const [name, property] of Object.entries(value)) {
        own.properties[name] = compose(property, schemas, root);
      }
    } else if (keyword === 'required' || ANNOTATIONS.has(keyword) || ASSERTIONS.has(keyword)) {
      own[keyword] = value;
    } else if (!IDENTITY.has(keyword)) {
      throw new Error(`compose does not know the keyword ${keyword}`);
    }
  }
  return merge(inherited, own);
}

/** A composed schema without its annotations, which do not affect validity. */
export function assertionsOf(schema) {
  const kept = Object.entries(schema).filter(([keyword]) => !ANNOTATIONS.has(keyword));
  return Object.fromEntries(
    kept.map(([keyword, value]) => {
      if (keyword !== 'properties') return [keyword, value];
      const properties = Object.entries(value).map(([name, property]) => [name, assertionsOf(property)]);
      return [keyword, Object.fromEntries(properties)];
    }),
  );
}

/** The schemas that this one adds to, by the names of their files. */
export function parentsOf(schema) {
  return (schema.allOf ?? []).map((part) => part.$ref);
}
