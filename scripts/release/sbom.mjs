// A CycloneDX SBOM for each artifact, by `npm sbom` from the lock file. Serial number and time are derived.
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { npm, tarballName, workspaces } from './npm.mjs';

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

/** The runtime components of some workspaces and what each depends on. */
function resolved(some) {
  const args = ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--omit=dev'];
  const chosen = some.map(({ directory }) => `--workspace=${path.relative(ROOT, directory)}`);
  const { components, dependencies, metadata } = JSON.parse(npm(ROOT, [...args, ...chosen]));
  const checkout = metadata.component['bom-ref'];
  // npm names a workspace by its directory.
  const named = components.map((each) => ({ ...each, name: each['bom-ref'].replace(/@[^@]*$/, '') }));
  return { components: named, dependencies: dependencies.filter(({ ref }) => ref !== checkout) };
}

export function build(out, { version, epoch }) {
  mkdirSync(path.join(out, 'sbom'), { recursive: true });
  const all = workspaces();
  for (const workspace of all.filter(({ manifest }) => !manifest.private)) {
    const { components, dependencies } = resolved([workspace]);
    const own = `${workspace.manifest.name}@${version}`;
    const component = components.find((each) => each['bom-ref'] === own);
    const others = components.filter((each) => each !== component);
    write(out, tarballName(workspace.manifest), component, others, dependencies, epoch);
  }
  // The bundle and the image, which contains the bundle.
  const { components, dependencies } = resolved(all);
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
