import type { ClinicalRecord } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assembleRecord } from '../../collector/src/records/assemble.js';
import { anyRecord } from '../../collector/test/records/exports/any-record.js';
import { event, fullRun, id } from '../../collector/test/records/run-events.js';
import { runs } from '../../../test/property-runs.js';
import { fhir, fhirTransaction } from '../src/fhir.js';
import { fhirFaults } from './fhir-validator.js';

/** The codes and profiles of the guide's source (HL7/aitransparency-ig, input/fsh, August 2026). */
const GUIDE = 'http://hl7.org/fhir/uv/aitransparency';
const AI = { coding: [{ system: `${GUIDE}/CodeSystem/AIdeviceTypeCS`, code: 'Artificial-Intelligence' }] };
const AIAST = { system: 'http://terminology.hl7.org/CodeSystem/v3-ObservationValue', code: 'AIAST' };

interface Concept {
  readonly coding: readonly { readonly code: string }[];
}
interface Reference {
  readonly reference?: string;
  readonly type?: string;
  readonly identifier?: { readonly value: string };
}
interface Resource {
  readonly resourceType: string;
  readonly id: string;
  readonly meta?: { readonly profile?: readonly string[]; readonly security?: readonly object[] };
  readonly type?: object;
  readonly version?: readonly object[];
  readonly identifier?: readonly { readonly value: string }[];
  readonly subject?: Reference;
  readonly author?: readonly Reference[];
  readonly content?: readonly { readonly attachment: object }[];
  readonly target?: readonly Reference[];
  readonly reason?: readonly object[];
  readonly agent?: readonly {
    readonly type?: Concept;
    readonly role?: readonly object[];
    readonly who?: Reference;
    readonly requestor?: boolean;
  }[];
  readonly entity?: readonly { readonly role: string; readonly what: Reference }[];
}
interface Bundle {
  readonly type: string;
  readonly entry: readonly {
    readonly fullUrl: string;
    readonly resource: Resource;
    readonly request?: { readonly method: string; readonly url: string };
  }[];
}

const bundleOf = (record: ClinicalRecord) => JSON.parse(fhir(record)) as Bundle;
const claims = (resource: Resource | undefined, profile: string) =>
  resource?.meta?.profile?.includes(`${GUIDE}/StructureDefinition/${profile}`) === true;
const provenances = (record: ClinicalRecord) =>
  bundleOf(record)
    .entry.map(({ resource }) => resource)
    .filter((resource) => claims(resource, 'AI-Provenance'));
const documents = (record: ClinicalRecord) =>
  bundleOf(record)
    .entry.map(({ resource }) => resource)
    .filter(({ resourceType }) => resourceType === 'DocumentReference');
const agents = ({ agent = [] }: Resource) =>
  agent.map(({ type, who }) => [type?.coding[0]?.code, who?.identifier?.value ?? who?.type]);

/** What the profiles AI-Device and AI-Provenance require beyond R4. */
function guideFaults({ entry }: Bundle): string[] {
  const byUrl = new Map(entry.map(({ fullUrl, resource }) => [fullUrl, resource]));
  return entry.flatMap(({ resource }) => {
    const faults: string[] = [];
    const has = (holds: boolean, what: string) => {
      if (!holds) faults.push(`${resource.resourceType} ${resource.id}: ${what}`);
    };
    if (claims(resource, 'AI-Device'))
      has(JSON.stringify(resource.type) === JSON.stringify(AI), 'type is not the fixed one');
    if (!claims(resource, 'AI-Provenance')) return faults;
    const { reason = [], agent = [], target = [] } = resource;
    has(
      reason.some((each) => JSON.stringify(each).includes('"AIAST"')),
      'no reason AIAST',
    );
    const models = agent.filter(({ role = [] }) => JSON.stringify(role) === JSON.stringify([AI]));
    has(models.length > 0, 'no agent is an AI');
    for (const { type, who } of models) {
      has(type !== undefined, 'the AI has no type');
      has(claims(byUrl.get(who?.reference ?? ''), 'AI-Device'), 'the AI is no AI-Device of the Bundle');
    }
    has(target.length > 0, 'no target');
    for (const { reference } of target)
      has(byUrl.get(reference ?? '')?.meta?.security?.length === 1, 'a target is not labelled');
    return faults;
  });
}

const start = (more: Readonly<Record<string, unknown>> = {}) =>
  event({ kind: 'inference-start', n: 1, parent: null, more });
const output = (n: number, parent = id(1)) => event({ kind: 'human-output', n, parent });
const CLINICIAN = { caller_id: 'clinician-12', caller_type: 'clinician' };

describe('AI Transparency on FHIR', () => {
  test('labels the documents of a model, and has a Device for its version [R-712]', () => {
    const record = assembleRecord([
      start({
        target_identity: { target_id: 'patient-30977', target_type: 'patient' },
        inputs: { input_uri: 'urn:input:1' },
      }),
      event({ kind: 'internal-artifact', n: 2, parent: id(1) }),
      event({
        kind: 'internal-artifact',
        n: 3,
        parent: id(1),
        more: { artifact: { artifact_type: 'text_chunk', artifact_uri: 'urn:guideline:1' } },
      }),
      output(4, id(2)),
    ]);
    const bundle = bundleOf(record);
    const devices = bundle.entry.filter(({ resource }) => resource.resourceType === 'Device');
    expect(devices).toMatchObject([
      {
        resource: {
          meta: { profile: [`${GUIDE}/StructureDefinition/AI-Device`] },
          type: AI,
          identifier: [{ value: 'sepsis-risk' }],
          version: [{ value: '4.2.0' }],
        },
      },
    ]);
    const device = { reference: devices[0]?.fullUrl };
    expect(documents(record)).toMatchObject(
      [
        [id(2), 'urn:artifact:1'],
        [id(4), 'urn:output:1'],
      ].map(([of, url]) => ({
        meta: { security: [AIAST] },
        identifier: [{ value: `urn:uuid:${of}` }],
        subject: { type: 'Patient', identifier: { value: 'patient-30977' } },
        author: [device],
        content: [{ attachment: { url } }],
      })),
    );
    expect(provenances(record)).toMatchObject([
      {
        target: documents(record).map((document) => ({ reference: `urn:uuid:${document.id}` })),
        reason: [{ coding: [AIAST] }],
        agent: [{ type: { coding: [{ code: 'author' }] }, role: [AI], who: device }],
        entity: ['urn:input:1', 'urn:guideline:1'].map((value) => ({
          role: 'source',
          what: { identifier: { value } },
        })),
      },
    ]);
  });

  test('labels an output of an unknown model, without a Device [R-712]', () => {
    const record = assembleRecord([output(3)]);
    expect(documents(record)).toMatchObject([{ meta: { security: [AIAST] } }]);
    expect(documents(record)[0]?.author).toBeUndefined();
    expect(provenances(record)).toEqual([]);
  });

  test('is valid by its profiles for any record, with each Device once [R-712]', () => {
    fc.assert(
      fc.property(anyRecord, (record) => {
        const bundle = bundleOf(record);
        expect(guideFaults(bundle)).toEqual([]);
        const devices = bundle.entry.filter(({ resource }) => claims(resource, 'AI-Device'));
        expect(new Set(devices.map(({ fullUrl }) => fullUrl)).size).toBe(devices.length);
      }),
      { numRuns: runs(300) },
    );
  });
});

describe('a run of several calls in FHIR', () => {
  const call = (n: number, model_id: string, more: object = {}) =>
    event({
      kind: 'inference-start',
      n,
      more: { model_instance: { model_id, model_version: '1' }, ...more },
    });
  const modelsOf = (record: ClinicalRecord) => {
    const names = new Map(
      bundleOf(record).entry.map(({ fullUrl, resource }) => [fullUrl, resource.identifier?.[0]?.value]),
    );
    return provenances(record).map((each) => [
      each.target?.map(({ reference }) => names.get(reference ?? '')?.slice(-2)),
      each.agent?.map(({ type, who }) => [
        type?.coding[0]?.code,
        names.get(who?.reference ?? '') ?? who?.identifier?.value,
      ]),
    ]);
  };

  test('has one Device for each model, and a Provenance for each call by its own model [R-712]', () => {
    const record = assembleRecord([
      call(1, 'retriever'),
      output(2, id(1)),
      call(3, 'writer', { inputs: { input_uri: 'urn:input:3' } }),
      output(4, id(3)),
      call(5, 'writer'),
      output(6, id(5)),
    ]);
    const devices = bundleOf(record).entry.filter(({ resource }) => resource.resourceType === 'Device');
    expect(devices.map(({ resource }) => resource.identifier?.[0]?.value)).toEqual(['retriever', 'writer']);
    expect(modelsOf(record)).toEqual([
      [['02'], [['author', 'retriever']]],
      [['04'], [['author', 'writer']]],
      [['06'], [['author', 'writer']]],
    ]);
    expect(provenances(record)[1]?.entity).toMatchObject([
      { what: { identifier: { value: 'urn:input:3' } } },
    ]);
    const audit = bundleOf(record).entry[3]?.resource;
    expect(audit?.agent?.map(({ who }) => who?.identifier?.value)).toContain('writer');
  });

  test('names all models for a document of no call, without an author [R-712]', () => {
    const last = event({ kind: 'human-output', n: 4 });
    const approval = event({
      kind: 'user-feedback',
      n: 5,
      parent: id(4),
      more: { feedback: { feedback_type: 'thumbs', direction: 'up' }, user_identity: CLINICIAN },
    });
    const several = assembleRecord([call(1, 'retriever'), call(3, 'writer'), last, approval]);
    const both = [
      ['informant', 'retriever'],
      ['informant', 'writer'],
    ];
    expect(modelsOf(several)).toEqual([
      [['04'], both],
      [['04'], [...both, ['verifier', 'clinician-12']]],
    ]);
    expect(documents(several)[0]?.author).toBeUndefined();
    const same = assembleRecord([call(1, 'writer'), call(3, 'writer'), last]);
    expect(modelsOf(same)).toEqual([[['04'], [['author', 'writer']]]]);
  });
});

describe('a verifier', () => {
  const judged = (
    kind: 'outcome' | 'user-feedback',
    payload: object,
    user: object | undefined,
    parent = id(2),
  ) =>
    provenances(
      assembleRecord([
        start(),
        output(2),
        output(3),
        event({
          kind,
          n: 4,
          parent,
          more: { [kind === 'outcome' ? 'outcome' : 'feedback']: payload, user_identity: user },
        }),
      ]),
    );
  const verified = (...given: Parameters<typeof judged>) =>
    judged(...given)
      .slice(1)
      .map((provenance) => [agents(provenance).at(-1), provenance.target?.length]);

  test.each([
    ['outcome', { outcome_type: 'validated' }],
    ['user-feedback', { feedback_type: 'thumbs', direction: 'up' }],
    ['user-feedback', { feedback_type: 'thumbs', rating_value: 3 }],
    ['user-feedback', { feedback_type: 'rating', rating_value: 4 }],
  ] as const)('is the clinician whom an approving %s names: %o [R-712]', (kind, payload) => {
    expect(verified(kind, payload, CLINICIAN)).toEqual([[['verifier', 'clinician-12'], 1]]);
  });

  test('is named by the event or by its object [R-712]', () => {
    const within = { feedback_type: 'thumbs', direction: 'up', user_identity: CLINICIAN };
    for (const other of [undefined, 'clinician-12', null, [CLINICIAN]])
      expect(verified('user-feedback', within, other as object)).toEqual([[['verifier', 'clinician-12'], 1]]);
    const other = { caller_id: 'p-1', caller_type: 'patient' };
    expect(verified('user-feedback', within, other)).toEqual([]);
  });

  test.each([
    ['outcome', { outcome_type: 'contradicted' }],
    ['outcome', { outcome_type: 'partial' }],
    ['outcome', {}],
    ['user-feedback', { feedback_type: 'thumbs', direction: 'down', rating_value: 5 }],
    ['user-feedback', { feedback_type: 'thumbs' }],
    ['user-feedback', { feedback_type: 'rating', rating_value: 2 }],
    ['user-feedback', { feedback_type: 'text', comment: 'fine' }],
  ] as const)('is not named by %s %o, which does not approve [R-712]', (kind, payload) => {
    expect(verified(kind, payload, CLINICIAN)).toEqual([]);
  });

  test.each([
    [undefined],
    [{ caller_type: 'clinician' }],
    [{ caller_id: 'clinician-12' }],
    [{ caller_id: 'p-1', caller_type: 'patient' }],
    [{ caller_id: 'job-1', caller_type: 'service' }],
  ])('is not a person whom the event does not call a clinician: %o [R-712]', (user) => {
    expect(verified('outcome', { outcome_type: 'validated' }, user)).toEqual([]);
  });

  test('verifies the only output of a run for an event without a parent [R-712]', () => {
    const outcome = (more: object) =>
      event({ kind: 'outcome', n: 9, more: { outcome: { outcome_type: 'validated' }, ...more } });
    const of = (...outputs: readonly number[]) =>
      provenances(
        assembleRecord([start(), ...outputs.map((n) => output(n)), outcome({ user_identity: CLINICIAN })]),
      ).map((each) => each.agent?.length);
    expect(of(2)).toEqual([1, 2]);
    expect(of(2, 3)).toEqual([1]);
    expect(of()).toEqual([]);
  });

  test('any other author of an outcome is in its AuditEvent and its Provenance [R-712]', () => {
    const given = { outcome: { outcome_type: 'contradicted' }, user_identity: CLINICIAN };
    const bundle = bundleOf(assembleRecord([start(), event({ kind: 'outcome', n: 2, more: given })]));
    const [, audit, provenance] = bundle.entry.map(({ resource }) => resource);
    expect(audit?.agent?.map(({ requestor, who }) => [requestor, who?.identifier?.value])).toEqual([
      [false, 'abcdefghij23'],
      [true, 'clinician-12'],
    ]);
    expect(provenance && agents(provenance)).toEqual([
      ['informant', 'ward-7'],
      ['author', 'clinician-12'],
    ]);
  });
});

describe('a transaction', () => {
  const transactionOf = (record: ClinicalRecord) => JSON.parse(fhirTransaction(record)) as Bundle;

  test('puts each resource under its own id, and is otherwise the same Bundle [R-712]', () => {
    const record = assembleRecord(fullRun());
    const transaction = transactionOf(record);
    expect(transaction.type).toBe('transaction');
    const withoutRequests = transaction.entry.map(({ fullUrl, resource }) => ({ fullUrl, resource }));
    expect({ ...transaction, type: 'collection', entry: withoutRequests }).toEqual(bundleOf(record));
  });

  test('is valid for any record, with ids that FHIR allows, each once [R-712]', () => {
    fc.assert(
      fc.property(anyRecord, (record) => {
        const transaction = transactionOf(record);
        expect(fhirFaults(transaction)).toEqual([]);
        for (const { fullUrl, resource, request } of transaction.entry) {
          expect(resource.id).toMatch(/^[A-Za-z0-9\-.]{1,64}$/);
          expect(fullUrl).toBe(`urn:uuid:${resource.id}`);
          expect(request).toEqual({ method: 'PUT', url: `${resource.resourceType}/${resource.id}` });
        }
        const urls = transaction.entry.map(({ request }) => request?.url);
        expect(new Set(urls).size).toBe(urls.length);
      }),
      { numRuns: runs(150) },
    );
  });
});
