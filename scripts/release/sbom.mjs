// A CycloneDX SBOM for each artifact, from the lock file. Serial number and time are derived.
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { tarballName, workspaces } from './npm.mjs';
import { dependenciesOf, packages, runtimeOf } from './runtime.mjs';

const ROOT = path.resolve(import.meta.dirname, '../..');
const LICENCES = [{ license: { id: 'Apache-2.0' } }];

/** A UUID of version 8 (RFC 9562) from the content, in place of a random one. */
function serialNumber(document) {
  const hash = createHash('sha256').update(JSON.stringify(document)).digest('hex');
  const groups = [hash.slice(0, 8), hash.slice(8, 12), `8${hash.slice(13, 16)}`, `8${hash.slice(17, 20)}`];
  return `urn:uuid:${[...groups, hash.slice(20, 32)].join('-')}`;
}

function write(out, name, component, components, dependencies, epoch) {
  const document = {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { timestamp: new Date(epoch * 1000).toISOString(), component },
    components,
    dependencies,
  };
  const text = JSON.stringify({ serialNumber: serialNumber(document), ...document }, undefined, 2);
  writeFileSync(path.join(out, 'sbom', `${name}.cdx.json`), `${text}\n`);
}

const nameOf = (place) => packages[place].name ?? place.slice(place.lastIndexOf('node_modules/') + 13);
const referenceTo = (place) => `${nameOf(place)}@${packages[place].version}`;

/** A licence of the lock file: one identifier, or an expression of several. */
const licencesOf = (license) =>
  license === undefined
    ? []
    : [/[ ()]/.test(license) ? { expression: license } : { license: { id: license } }];

/** @see https://cyclonedx.org/docs/1.5/json/#components */
function componentOf(place) {
  const { version, license, integrity, optional } = packages[place];
  const [, content] = /^sha512-(.*)$/.exec(integrity) ?? [];
  return {
    'bom-ref': referenceTo(place),
    type: 'library',
    name: nameOf(place),
    version,
    scope: optional ? 'optional' : 'required',
    purl: `pkg:npm/${nameOf(place).replace('@', '%40')}@${version}`,
    ...(content && { hashes: [{ alg: 'SHA-512', content: Buffer.from(content, 'base64').toString('hex') }] }),
    licenses: licencesOf(license),
  };
}

/** Workspaces and all that they need when they run, as components and as what each depends on. */
function resolved(some, optional) {
  const directories = some.map(({ directory }) => path.relative(ROOT, directory));
  const places = runtimeOf(directories, optional);
  // A package can be in two places.
  const byReference = [...new Map(places.map((place) => [referenceTo(place), place]))].sort();
  return {
    components: byReference.map(([, place]) => componentOf(place)),
    dependencies: byReference.map(([ref, place]) => ({
      ref,
      dependsOn: dependenciesOf(place, optional).map(referenceTo).sort(),
    })),
  };
}

export function build(out, { version, epoch }) {
  mkdirSync(path.join(out, 'sbom'), { recursive: true });
  const all = workspaces();
  for (const workspace of all.filter(({ manifest }) => !manifest.private)) {
    const { components, dependencies } = resolved([workspace], true);
    const own = `${workspace.manifest.name}@${version}`;
    const component = components.find((each) => each['bom-ref'] === own);
    const others = components.filter((each) => each !== component);
    write(out, tarballName(workspace.manifest), component, others, dependencies, epoch);
  }
  // The bundle and the image, which contains the bundle.
  const { components, dependencies } = resolved(all, false);
  const bundle = {
    'bom-ref': `collector@${version}`,
    type: 'application',
    name: 'collector',
    version,
    licenses: LICENCES,
  };
  const parts = all.map(({ manifest }) => `${manifest.name}@${version}`);
  const graph = [{ ref: bundle['bom-ref'], dependsOn: parts }, ...dependencies];
  write(out, `collector-${version}`, bundle, components, graph, epoch);
  // The Python client has no dependencies.
  const purl = `pkg:pypi/clinical-events@${version}`;
  const client = {
    'bom-ref': purl,
    type: 'library',
    name: 'clinical-events',
    version,
    purl,
    licenses: LICENCES,
  };
  write(out, `clinical_events-${version}`, client, [], [{ ref: purl, dependsOn: [] }], epoch);
}
