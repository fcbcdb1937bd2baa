// LICENCES.md: the licence of each component that the SBOMs name. Fails when one is not on the list below.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** SPDX identifiers of licences that permit commercial use, change and distribution without the sources. */
const ALLOWED = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'Unlicense',
]);

/** Whether an SPDX expression permits commercial use: one side of each OR, both sides of each AND. */
export function isAllowed(expression) {
  const flat = expression.replace(/^\((.*)\)$/, '$1');
  // An expression that mixes the operators, or nests them, needs a reader: it is refused.
  if (/[()]/.test(flat) || (flat.includes(' OR ') && flat.includes(' AND '))) return false;
  if (flat.includes(' OR ')) return flat.split(' OR ').some((id) => ALLOWED.has(id));
  return flat.split(' AND ').every((id) => ALLOWED.has(id));
}

/** The licence of a component as an SPDX expression; empty if it states none. */
function licenceOf({ licenses = [] }) {
  return licenses.map(({ license, expression }) => expression ?? license.id ?? license.name).join(' AND ');
}

/** Components, each once, with their licences. Throws if one is not allowed. */
export function licences(components) {
  const found = new Map();
  for (const component of components) {
    const { name, version } = component;
    found.set(`${name}@${version}`, { name, version, licence: licenceOf(component) });
  }
  const all = [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, each]) => each);
  const refused = all.filter(({ licence }) => !isAllowed(licence));
  if (refused.length > 0) {
    const list = refused.map(({ name, version, licence }) => `${name} ${version} (${licence || 'none'})`);
    throw new Error(`licences that are not on the list of scripts/release/licences.mjs: ${list.join(', ')}`);
  }
  return all;
}

export function build(out, { version }) {
  const components = readdirSync(path.join(out, 'sbom')).flatMap(
    (name) => JSON.parse(readFileSync(path.join(out, 'sbom', name), 'utf8')).components,
  );
  const rows = licences(components).map(
    ({ name, version: its, licence }) => `| ${name} | ${its} | ${licence} |`,
  );
  const text = `# Licences of release ${version}

The collector, its packages and the clients have the licence Apache-2.0; each artifact contains its text. This table
has every component of an artifact, as the SBOMs in \`sbom/\` name them. Each licence permits commercial use. The
Python client has no dependency. The base image is not part of the image context: its Dockerfile names it.

| component | version | licence |
| --------- | ------- | ------- |
${rows.join('\n')}
`;
  writeFileSync(path.join(out, 'LICENCES.md'), text);
}
