// TypeScript interfaces of the schemas. A schema with a title becomes an interface of that name; one that
// adds to another by allOf extends its interface. Every object allows additional fields.
import { compose, parentsOf, schemaOf } from './schemas.mjs';

function comment(text, indent = '') {
  return text === undefined ? '' : `${indent}/** ${text} */\n`;
}

function typeOf(schema, interfaces) {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (Array.isArray(schema.type)) {
    return schema.type.map((type) => typeOf({ ...schema, type }, interfaces)).join(' | ');
  }
  if (schema.anyOf) return schema.anyOf.map((part) => typeOf(part, interfaces)).join(' | ');
  if (schema.type === 'array') {
    const item = typeOf(schema.items, interfaces);
    return `readonly ${item.includes(' | ') ? `(${item})` : item}[]`;
  }
  if (schema.type === 'integer') return 'number';
  if (schema.type !== 'object') return schema.type;
  addInterface(schema.title, schema, Object.keys(schema.properties ?? {}), [], interfaces);
  return schema.title;
}

function addInterface(title, schema, names, parents, interfaces) {
  if (interfaces.has(title)) return;
  const properties = names.map((name) => {
    const property = schema.properties[name];
    const optional = schema.required?.includes(name) ? '' : '?';
    return `${comment(property.description, '  ')}  readonly ${name}${optional}: ${typeOf(property, interfaces)};\n`;
  });
  const text =
    names.length === 0 && parents.length > 0
      ? `export type ${title} = ${parents.join(' & ')};\n`
      : `export interface ${title}${parents.length > 0 ? ` extends ${parents.join(', ')}` : ''} {\n` +
        `${properties.join('')}  readonly [name: string]: unknown;\n}\n`;
  interfaces.set(title, comment(schema.description) + text);
}

/** The interface of a schema file, after those of the files it adds to. */
function addSchemaFile(schema, schemas, interfaces) {
  const parents = parentsOf(schema).map((name) => schemas.get(name));
  for (const parent of parents) addSchemaFile(parent, schemas, interfaces);
  const names = new Set([...(schema.required ?? []), ...Object.keys(schema.properties ?? {})]);
  const composed = compose(schema, schemas);
  addInterface(
    schema.title,
    composed,
    Object.keys(composed.properties ?? {}).filter((name) => names.has(name)),
    parents.map((parent) => parent.title),
    interfaces,
  );
}

export function renderTypes(schemas, kinds, profiles) {
  const interfaces = new Map();
  for (const schema of schemas.values()) addSchemaFile(schema, schemas, interfaces);
  const rows = kinds.map((kind) => {
    const cells = profiles.map((profile) => `${profile}: ${schemas.get(schemaOf(kind, profile)).title}`);
    return `  ${JSON.stringify(kind)}: { ${cells.join('; ')} };\n`;
  });
  return `import type { EventKind, Profile } from "../kinds.js";

${[...interfaces.values()].join('\n')}
/** The event types by kind and profile. */
export interface EventTypes {
${rows.join('')}}

/** The event of a kind, as the profile \`minimum\` asks for it or as another profile does. */
export type EventOf<K extends EventKind, P extends Profile = "minimum"> = EventTypes[K][P];
`;
}
