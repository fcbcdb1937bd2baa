// Compiles the composed schemas ahead of time: no schema is compiled in a running service, and the emitted
// code imports nothing but our own formats.
import ajv2020 from 'ajv/dist/2020.js';
import standalone from 'ajv/dist/standalone/index.js';
import { _ } from 'ajv/dist/compile/codegen/index.js';
import { assertionsOf } from './schemas.mjs';

/** Ajv warns that `unicode: false` is deprecated; it is what makes a length check cost nothing, so it stays. */
const logger = {
  log: console.log,
  error: console.error,
  warn: (...words) => {
    if (!String(words[0]).includes('option unicode')) console.warn(...words);
  },
};

function compiler() {
  const ajv = new ajv2020.default({
    allErrors: true,
    // Lengths in UTF-16 units, as the language counts them.
    unicode: false,
    strict: true,
    // Ajv's wording is not ours, and its text would only bloat the file.
    messages: false,
    logger,
    code: { esm: true, source: true, lines: true, formats: _`formats` },
  });
  // The emitted code looks a format up by name in src/formats/; here only its being a function matters.
  for (const name of ['uuid', 'date-time', 'uri']) ajv.addFormat(name, () => true);
  // Stated in the schemas for readers of the API document. Its range is checked by minimum and maximum.
  ajv.addFormat('int32', true);
  return ajv;
}

/** The signature that Ajv gives every validator, for callers that are validators themselves. */
const SIGNATURE = /^function (\w+)\(data, \{instancePath="",[^\n]*\}=\{\}\)\{$/gm;
/** Ajv's records for unevaluatedProperties, which the schemas do not use. */
const EVALUATED =
  /^const evaluated0 = [^]*?^if\(evaluated0\.dynamicItems\)\{\n[^]*?^\}\n|^\w+\.evaluated = .*\n/gm;

/**
 * Composed schemas have no $ref, so no validator calls another. Without the arguments and notes that serve
 * such calls a valid event allocates nothing; with them it costs two objects.
 */
function withoutCallsBetweenValidators(code, validatorCount) {
  const signatures = code.match(SIGNATURE)?.length;
  const lean = code.replace(SIGNATURE, 'function $1(data){\nconst instancePath = "";').replace(EVALUATED, '');
  if (signatures !== validatorCount || /evaluated|rootData|parentData|dynamicAnchors|require\(/.test(lean)) {
    throw new Error('the code that Ajv emits has changed its shape');
  }
  return lean;
}

/**
 * @param events [{ kind, profile, composed }]
 * @returns the TypeScript text of a table of validators by kind and profile
 */
export function renderValidators(events) {
  const ajv = compiler();
  const exported = {};
  const nameByAssertions = new Map();
  const table = new Map();
  for (const { kind, profile, composed } of events) {
    const schema = assertionsOf(composed);
    const text = JSON.stringify(schema);
    let name = nameByAssertions.get(text);
    if (name === undefined) {
      name = `${kind}_${profile}`.replaceAll('-', '_');
      nameByAssertions.set(text, name);
      ajv.addSchema(schema, name);
      exported[name] = name;
    }
    table.set(kind, [...(table.get(kind) ?? []), `${profile}: ${name}`]);
  }
  const rows = [...table].map(([kind, cells]) => `  ${JSON.stringify(kind)}: { ${cells.join(', ')} },`);
  const emitted = standalone.default(ajv, exported);
  const code = withoutCallsBetweenValidators(emitted, nameByAssertions.size)
    .replace('"use strict";\n', '')
    .replaceAll(/^export const (\w+) = /gm, 'const $1: Validator = ');
  return `// @ts-nocheck
import { formats } from "../formats/formats.js";
import type { FailedCheck } from "../issues.js";
import type { EventKind, Profile } from "../kinds.js";

/** Says whether the value is valid. When it is not, \`errors\` holds the failed checks until the next call. */
export interface Validator {
  (value: unknown): boolean;
  readonly errors?: readonly FailedCheck[] | null;
}

${code.trim()}

export const validators: Readonly<Record<EventKind, Readonly<Record<Profile, Validator>>>> = {
${rows.join('\n')}
};
`;
}
