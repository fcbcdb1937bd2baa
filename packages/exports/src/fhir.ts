/**
 * A record in FHIR R4: a Bundle with an AuditEvent for each event, a Provenance for each outcome, and the
 * resources of HL7's guide "AI Transparency on FHIR". docs/reference/records.md, "FHIR R4", has the mapping.
 * Texts of senders are left out, because many people read an audit repository (values.ts).
 */
import type { ClinicalRecord } from '@clinical-events/protocol';
import type { RecordDocument } from '@clinical-events/collector/records/exports/file-format';
import { auditEventOf, outcomeProvenanceOf } from './fhir-audit.js';
import { type Part, uuid } from './fhir-codes.js';
import { ModelDevices } from './fhir-parties.js';
import { transparencyOf } from './fhir-transparency.js';
import { RecordLookup } from './values.js';

/** A Bundle without requests. */
export const fhir: RecordDocument = (record) => JSON.stringify(bundleOf(record, 'collection'));

/**
 * A transaction that puts each resource under its own id, so that sending it again stores nothing twice. Ids
 * are unique within an organisation, so each organisation needs a server of its own.
 */
export const fhirTransaction: RecordDocument = (record) => JSON.stringify(bundleOf(record, 'transaction'));

function bundleOf(record: ClinicalRecord, type: 'collection' | 'transaction'): Part {
  const { record_id, last_received_at } = record.metadata;
  return {
    resourceType: 'Bundle',
    id: record_id,
    identifier: uuid(record_id),
    type,
    timestamp: last_received_at,
    entry: resourcesOf(record).map((resource) => {
      const { resourceType, id } = resource as { readonly resourceType: string; readonly id: string };
      const request = type === 'transaction' ? { method: 'PUT', url: `${resourceType}/${id}` } : undefined;
      return { fullUrl: `urn:uuid:${id}`, resource, request };
    }),
  };
}

/** AuditEvents and the Provenances of outcomes in canonical order, then models and their documents. */
function resourcesOf(record: ClinicalRecord): Part[] {
  const lookup = new RecordLookup(record);
  const devices = new ModelDevices();
  const events = record.metadata.events.flatMap((event) => {
    const audit = auditEventOf(lookup, event, devices);
    const isOutcome = event.kind === 'outcome' && event.payload === undefined;
    return isOutcome ? [audit, outcomeProvenanceOf(lookup, event)] : [audit];
  });
  const made = transparencyOf(lookup, devices);
  return [...events, ...devices.resources(), ...made];
}
