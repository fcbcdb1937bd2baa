import type { ClinicalRecord } from '@clinical-events/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assembleRecord, UNLINKED } from '../../collector/src/records/assemble.js';
import { prov } from '../src/prov.js';
import { event, fullRun, id, RUN } from '../../collector/test/records/run-events.js';
import { anyRecord, erased, PROSE, says } from '../../collector/test/records/exports/any-record.js';
import { provFaults, type ProvJson } from './prov-json.js';
import { runs } from '../../../test/property-runs.js';

const documentOf = (record: ClinicalRecord) => JSON.parse(prov(record)) as ProvJson;
const relations = (document: ProvJson, name: string) => Object.values(document[name] ?? {});
const RUN_ID = `ce:run-${RUN}`;

describe('a record in PROV-JSON', () => {
  const full = documentOf(assembleRecord(fullRun()));

  test('has the record as entity, the run as activity, model and caller as agents [R-712]', () => {
    expect(provFaults(full)).toEqual([]);
    expect(full['entity']?.[`ce:record-${RUN}`]).toMatchObject({ 'ce:completeness': 'full' });
    expect(full['activity']?.[RUN_ID]).toMatchObject({
      'prov:startTime': '2026-03-02T08:31:01.000Z',
      'prov:endTime': '2026-03-02T08:31:03.000Z',
    });
    const agents = Object.entries(full['agent'] ?? {});
    expect(agents.map(([, agent]) => agent['ce:model_id'] ?? agent['ce:caller_id'])).toEqual([
      'sepsis-risk',
      'clinician-8841',
    ]);
    expect(relations(full, 'wasAssociatedWith').map((members) => members['prov:agent'])).toEqual(
      agents.map(([agentId]) => agentId),
    );
    expect(relations(full, 'actedOnBehalfOf')).toHaveLength(1);
    expect(relations(full, 'hadMember')).toEqual([
      { 'prov:collection': `ce:record-${RUN}`, 'prov:entity': [1, 2, 3, 4, 5].map((n) => `event:${id(n)}`) },
    ]);
  });

  test('derives products from their parents; outcome and feedback are influenced by them [R-712]', () => {
    expect(relations(full, 'wasGeneratedBy').map((members) => members['prov:entity'])).toEqual([
      `event:${id(2)}`,
      `event:${id(3)}`,
    ]);
    expect(relations(full, 'wasDerivedFrom')).toEqual([
      { 'prov:generatedEntity': `event:${id(3)}`, 'prov:usedEntity': `event:${id(2)}` },
    ]);
    expect(relations(full, 'wasInfluencedBy')).toContainEqual({
      'prov:influencee': `event:${id(4)}`,
      'prov:influencer': `event:${id(3)}`,
    });
  });

  test('has the same id for a model or a caller in every document [R-712]', () => {
    const other = documentOf(assembleRecord([event({ kind: 'inference-start', n: 9, run: id(9) })]));
    expect(Object.keys(other['agent'] ?? {})).toEqual(Object.keys(full['agent'] ?? {}));
  });

  test('invalidates an erased event by its action [R-1334]', () => {
    const [started, ...others] = fullRun();
    const gone = erased(event({ kind: 'human-output', n: 30, payloadState: 'erased' }));
    if (started === undefined) throw new Error('a run has a start');
    const document = documentOf(assembleRecord([started, ...others, gone]));
    expect(provFaults(document)).toEqual([]);
    expect(relations(document, 'wasInvalidatedBy')).toEqual([
      {
        ...{ 'prov:entity': `event:${id(30)}`, 'prov:activity': `ce:action-${id(900)}` },
        'prov:time': '2026-06-01T00:00:00.000Z',
      },
    ]);
    expect(document['activity']?.[`ce:action-${id(900)}`]).toBeDefined();
  });

  test('informs a nested run by its caller [R-712]', () => {
    const record = assembleRecord([event({ kind: 'inference-start', n: 1, parent: id(300) })], {
      ...UNLINKED,
      parentRunOf: () => id(200),
    });
    expect(relations(documentOf(record), 'wasInformedBy')).toEqual([
      { 'prov:informed': RUN_ID, 'prov:informant': `ce:run-${id(200)}` },
    ]);
  });

  test('has an activity for each of several calls, which the run started [R-712]', () => {
    const call = (n: number, model_id: string, parent: string | null = null) =>
      event({ kind: 'inference-start', n, parent, more: { model_instance: { model_id } } });
    const document = documentOf(
      assembleRecord([
        call(1, 'retriever'),
        event({ kind: 'internal-artifact', n: 2, parent: id(1) }),
        call(3, 'writer', id(2)),
        event({ kind: 'human-output', n: 4, parent: id(3) }),
        event({ kind: 'human-output', n: 5 }),
      ]),
    );
    expect(provFaults(document)).toEqual([]);
    const [first, second] = [`ce:call-${id(1)}`, `ce:call-${id(3)}`];
    expect(relations(document, 'wasStartedBy').map((each) => Object.values(each).slice(0, -1))).toEqual([
      [RUN_ID, `event:${id(1)}`],
      [first, `event:${id(1)}`, RUN_ID],
      [second, `event:${id(3)}`, RUN_ID],
    ]);
    expect(document['activity']?.[second]).toMatchObject({
      'prov:startTime': '2026-03-02T08:31:03.000Z',
      'prov:endTime': '2026-03-02T08:31:04.000Z',
    });
    expect(relations(document, 'wasGeneratedBy').map((each) => each['prov:activity'])).toEqual([
      first,
      second,
      RUN_ID,
    ]);
    expect(relations(document, 'wasInformedBy')).toEqual([
      { 'prov:informed': second, 'prov:informant': first },
    ]);
    const modelOf = (activity: string) => {
      const of = relations(document, 'wasAssociatedWith').find((each) => each['prov:activity'] === activity);
      return document['agent']?.[String(of?.['prov:agent'])]?.['ce:model_id'];
    };
    expect([modelOf(first), modelOf(second), modelOf(RUN_ID)]).toEqual(['retriever', 'writer', undefined]);
  });

  test.each([
    [
      'an id that is not declared',
      { used: { '_:1': { 'prov:activity': RUN_ID, 'prov:entity': 'ce:nothing' } } },
    ],
    [
      'an agent in place of an entity',
      { wasStartedBy: { '_:1': { 'prov:activity': RUN_ID, 'prov:trigger': 'ce:a' } } },
    ],
    ['a prefix that is not declared', { agent: { 'other:a': {} } }],
    ['a value that is neither literal nor typed', { agent: { 'ce:a': { 'ce:b': { $: 1 } } } }],
    [
      'a derivation in a circle',
      {
        wasDerivedFrom: {
          '_:1': { 'prov:generatedEntity': `event:${id(2)}`, 'prov:usedEntity': `event:${id(2)}` },
        },
      },
    ],
  ])('is found to be faulty with %s', (_fault, change) => {
    const agent = { ...full['agent'], 'ce:a': {} };
    expect(provFaults({ ...full, agent })).toEqual([]);
    expect(provFaults({ ...full, agent, ...change })).not.toEqual([]);
  });

  test('is valid for any record, declares every id, and derives nothing from itself [R-712]', () => {
    fc.assert(
      fc.property(anyRecord, (record) => {
        const document = documentOf(record);
        expect(provFaults(document)).toEqual([]);
        const [members] = relations(document, 'hadMember');
        expect(members?.['prov:entity']).toHaveLength(record.metadata.events.length);
      }),
      { numRuns: runs(500) },
    );
  });

  test('has no text of a sender [R-712]', () => {
    fc.assert(
      fc.property(anyRecord, (record) => {
        expect(says(prov(record), PROSE)).toBe(false);
      }),
      { numRuns: runs(300) },
    );
  });
});
