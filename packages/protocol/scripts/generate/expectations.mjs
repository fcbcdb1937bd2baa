// The requirement of each field in words: the messages of validation issues and the profile notes of the API
// document. One sentence a field, whichever of its checks has failed.

const TYPES = { string: 'a string', object: 'an object', number: 'a number', integer: 'an integer' };
const FORMATS = {
  uuid: 'a UUID',
  'date-time': 'an RFC 3339 date-time with an offset from UTC',
  uri: 'an absolute URI (RFC 3986)',
};

function nounOf(schema) {
  const type = [schema.type].flat().find((name) => name !== 'null');
  if (schema.enum) return `one of ${schema.enum.join(', ')}`;
  if (FORMATS[schema.format]) return FORMATS[schema.format];
  if (schema.minLength === 1) return 'a non-empty string';
  if (schema.minimum !== undefined) return `${TYPES[type]} from ${schema.minimum} to ${schema.maximum}`;
  return TYPES[type];
}

/** The end of a sentence whose subject is the field. */
export function expectationOf(schema) {
  return `must be ${nounOf(schema)}${[schema.type].flat().includes('null') ? ' or null' : ''}`;
}

/** Every field of a composed schema, with its JSON Pointer; an object before its members. */
export function fieldsOf(schema, pointer = '') {
  const inner = Object.entries(schema.properties ?? {}).flatMap(([name, property]) =>
    fieldsOf(property, `${pointer}/${name}`),
  );
  return [{ pointer, schema }, ...inner];
}

/** One table for all kinds and profiles: a pointer means the same in each, or the generator stops. */
export function renderExpectations(composedSchemas) {
  const table = new Map();
  for (const { pointer, schema } of composedSchemas.flatMap((composed) => fieldsOf(composed))) {
    const expectation = expectationOf(schema);
    if ((table.get(pointer) ?? expectation) !== expectation) throw new Error(`${pointer} has two meanings`);
    table.set(pointer, expectation);
  }
  const lines = [...table].map(([pointer, text]) => `  ${JSON.stringify(pointer)}: ${JSON.stringify(text)},`);
  return `/** What the field at each pointer must be. */
export const EXPECTATIONS: Readonly<Record<string, string>> = {
${lines.join('\n')}
};
`;
}
