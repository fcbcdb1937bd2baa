import type { ClinicalRecord } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assembleRecord } from '../../collector/src/records/assemble.js';
import { fhir } from '../src/fhir.js';
import { event, fullRun, id, RUN } from '../../collector/test/records/run-events.js';
import { anyRecord, erased, PROSE, says } from '../../collector/test/records/exports/any-record.js';
import { fhirFaults } from './fhir-validator.js';
import { runs } from '../../../test/property-runs.js';

interface Reference {
  readonly reference?: string;
  readonly type?: string;
  readonly identifier?: { readonly system: string; readonly value: string };
}
interface Agent {
  readonly requestor: boolean;
  readonly who?: Reference;
  readonly type?: { readonly coding: readonly { readonly code: string }[] };
}
interface Resource {
  readonly resourceType: string;
  readonly id: string;
  readonly action?: string;
  readonly recorded: string;
  readonly period?: { readonly start: string };
  readonly subtype?: readonly { readonly code: string }[];
  readonly agent: readonly Agent[];
  readonly source?: { readonly observer: Reference };
  readonly target?: readonly Reference[];
  readonly entity?: readonly {
    readonly what?: Reference;
    readonly role?: { readonly code: string };
    readonly detail?: readonly { readonly type: string; readonly valueString: string }[];
  }[];
}
interface Bundle {
  readonly id: string;
  readonly type: string;
  readonly entry: readonly { readonly fullUrl: string; readonly resource: Resource }[];
}

const bundleOf = (record: ClinicalRecord) => JSON.parse(fhir(record)) as Bundle;
const audits = (bundle: Bundle) =>
  bundle.entry.map(({ resource }) => resource).filter(({ resourceType }) => resourceType === 'AuditEvent');
const start = (more: Readonly<Record<string, unknown>>) => event({ kind: 'inference-start', n: 1, more });

describe('the validators', () => {
  const wrong = (change: object) => {
    const bundle = bundleOf(assembleRecord([start({})]));
    const [entry, ...others] = bundle.entry;
    const changed = { ...entry, resource: { ...entry?.resource, ...change } };
    return fhirFaults({ ...bundle, entry: [changed, ...others] });
  };
  test.each([
    ['a code that is not of a required binding', { outcome: '99' }],
    ['an entity with both a name and a query', { entity: [{ name: 'x', query: 'eA==' }] }],
    ['an event without an agent', { agent: [] }],
    ['a time without an offset', { recorded: '2026-03-02T08:31:44' }],
    ['a member that R4 does not know', { occurredDateTime: '2026-03-02' }],
  ])('find %s', (_fault, change) => {
    expect(wrong({})).toEqual([]);
    expect(wrong(change)).not.toEqual([]);
  });
});

describe('a record in FHIR R4', () => {
  test('is a Bundle with an AuditEvent for each event and a Provenance for each outcome [R-712]', () => {
    const bundle = bundleOf(assembleRecord(fullRun()));
    expect(fhirFaults(bundle)).toEqual([]);
    expect(bundle).toMatchObject({ id: RUN, type: 'collection' });
    expect(bundle.entry.map(({ resource }) => resource.resourceType)).toEqual([
      'AuditEvent',
      'AuditEvent',
      'AuditEvent',
      'AuditEvent',
      'Provenance',
      'AuditEvent',
      'Device',
      'DocumentReference',
      'DocumentReference',
      'Provenance',
    ]);
    expect(audits(bundle).map(({ action, subtype }) => [action, subtype?.[0]?.code])).toEqual([
      ['E', 'inference-start'],
      ['C', 'internal-artifact'],
      ['R', 'human-output'],
      ['C', 'outcome'],
      ['C', 'user-feedback'],
    ]);
  });

  test('has actor, action, target, both times and sender of an event [R-712]', () => {
    const [audit] = audits(
      bundleOf(
        assembleRecord([
          start({
            target_identity: { target_id: 'patient-30977', target_type: 'patient' },
            user_identity: { caller_id: 'clinician-8841', caller_type: 'clinician' },
            inputs: { input_uri: 'https://example.org/collectorStatus/1', prompt: PROSE },
          }),
        ]),
      ),
    );
    expect(audit).toMatchObject({
      id: id(1),
      recorded: '2026-03-02T08:31:01.500Z',
      period: { start: '2026-03-02T08:31:01.000Z' },
      source: { observer: { identifier: { value: 'ward-7' } } },
    });
    expect(audit?.agent.map(({ requestor, who }) => [requestor, who?.identifier?.value, who?.type])).toEqual([
      [false, 'abcdefghij23', undefined],
      [false, 'sepsis-risk', 'Device'],
      [true, 'clinician-8841', 'Practitioner'],
    ]);
    expect(audit?.entity?.map(({ what, role }) => [role?.code, what?.type, what?.identifier?.value])).toEqual(
      [
        ['20', undefined, `urn:uuid:${RUN}`],
        ['1', 'Patient', 'patient-30977'],
        ['4', undefined, 'https://example.org/collectorStatus/1'],
      ],
    );
  });

  test('names no model and caller for a second start that is unreadable [R-712]', () => {
    const record = assembleRecord([
      start({}),
      event({ kind: 'inference-start', n: 2, payloadState: 'erased' }),
    ]);
    expect(audits(bundleOf(record)).map(({ agent }) => agent.length)).toEqual([3, 1]);
  });

  test('names the action that erased the content of an event [R-1334]', () => {
    const gone = erased(event({ kind: 'outcome', n: 4, payloadState: 'erased' }));
    const [, audit] = audits(bundleOf(assembleRecord([start({}), gone])));
    expect(audit?.entity?.at(-1)).toMatchObject({
      what: { identifier: { value: `urn:uuid:${id(900)}` } },
      lifecycle: { code: '15' },
      detail: [{ type: 'erased_at', valueString: '2026-06-01T00:00:00.000Z' }],
    });
  });

  test('has a Provenance for an outcome, with its AuditEvent and its evidence [R-712]', () => {
    const record = assembleRecord([
      event({ kind: 'human-output', n: 3 }),
      event({
        kind: 'outcome',
        n: 4,
        parent: id(3),
        more: { outcome: { outcome_type: 'contradicted', evidence_uri: 'urn:chart:7', description: PROSE } },
      }),
    ]);
    const provenance = bundleOf(record).entry.find(({ resource }) => resource.resourceType === 'Provenance');
    expect(provenance?.resource).toMatchObject({
      resourceType: 'Provenance',
      target: [{ reference: `urn:uuid:${id(4)}` }],
      entity: [
        { role: 'derivation', what: { reference: `urn:uuid:${id(3)}` } },
        { role: 'source', what: { identifier: { value: 'urn:chart:7' } } },
      ],
    });
    expect(provenance?.fullUrl).toMatch(
      /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
  });

  test("has an outcome's word only if it is in the vocabulary [R-712]", () => {
    const detailsOf = (outcome: object) =>
      audits(
        bundleOf(assembleRecord([event({ kind: 'outcome', n: 4, more: { outcome } })])),
      )[0]?.entity?.flatMap(({ detail = [] }) => detail.filter(({ type }) => type === 'outcome_type'));
    expect(detailsOf({ outcome_type: 'partial' })).toEqual([
      { type: 'outcome_type', valueString: 'partial' },
    ]);
    expect(detailsOf({ outcome_type: PROSE })).toEqual([]);
  });

  test('is valid R4 for any record, with one requestor per event and resolved references [R-712]', () => {
    fc.assert(
      fc.property(anyRecord, (record) => {
        const bundle = bundleOf(record);
        expect(fhirFaults(bundle)).toEqual([]);
        expect(audits(bundle).map((audit) => audit.id)).toEqual(
          record.metadata.events.map((each) => each.event_id),
        );
        const urls = new Set(bundle.entry.map(({ fullUrl }) => fullUrl));
        expect(urls.size).toBe(bundle.entry.length);
        for (const audit of audits(bundle)) {
          expect(audit.agent.filter(({ requestor }) => requestor)).toHaveLength(1);
        }
        for (const [, reference] of fhir(record).matchAll(/"reference":"(urn:uuid:[^"]+)"/g)) {
          expect(urls).toContain(reference);
        }
      }),
      { numRuns: runs(150) },
    );
  });

  test('has no text of a sender [R-712]', () => {
    fc.assert(
      fc.property(anyRecord, (record) => {
        expect(says(fhir(record), PROSE)).toBe(false);
      }),
      { numRuns: runs(300) },
    );
  });
});
