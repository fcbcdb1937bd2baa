/**
 * The faults of a PROV-JSON document: by a schema after the member submission of 2013, and by PROV's
 * constraints on ids, types, starts and derivations (PROV-CONSTRAINTS, 5 and 6).
 */
import { Ajv2020 } from 'ajv/dist/2020.js';

const reference = { $ref: '#/$defs/reference' };
const relation = (...required: readonly string[]) => ({
  type: 'object',
  additionalProperties: {
    type: 'object',
    required,
    properties: {
      ...Object.fromEntries(required.map((name) => [name, reference])),
      'prov:trigger': reference,
      'prov:starter': reference,
      'prov:time': { $ref: '#/$defs/dateTime' },
    },
    propertyNames: { $ref: '#/$defs/qualifiedName' },
    additionalProperties: { $ref: '#/$defs/values' },
  },
  propertyNames: { pattern: '^_:' },
});

const RELATIONS = {
  wasGeneratedBy: relation('prov:entity', 'prov:activity'),
  wasInvalidatedBy: relation('prov:entity', 'prov:activity'),
  used: relation('prov:activity', 'prov:entity'),
  wasInformedBy: relation('prov:informed', 'prov:informant'),
  wasStartedBy: relation('prov:activity', 'prov:trigger'),
  wasDerivedFrom: relation('prov:generatedEntity', 'prov:usedEntity'),
  wasAssociatedWith: relation('prov:activity', 'prov:agent'),
  actedOnBehalfOf: relation('prov:delegate', 'prov:responsible', 'prov:activity'),
  wasInfluencedBy: relation('prov:influencee', 'prov:influencer'),
  hadMember: {
    type: 'object',
    additionalProperties: {
      type: 'object',
      required: ['prov:collection', 'prov:entity'],
      additionalProperties: false,
      properties: {
        'prov:collection': reference,
        'prov:entity': { type: 'array', minItems: 1, items: reference },
      },
    },
    propertyNames: { pattern: '^_:' },
  },
} as const;

const declarations = {
  type: 'object',
  propertyNames: { $ref: '#/$defs/qualifiedName' },
  additionalProperties: {
    type: 'object',
    propertyNames: { $ref: '#/$defs/qualifiedName' },
    properties: {
      'prov:startTime': { $ref: '#/$defs/dateTime' },
      'prov:endTime': { $ref: '#/$defs/dateTime' },
    },
    additionalProperties: { $ref: '#/$defs/values' },
  },
};

const validate = new Ajv2020({ allErrors: true, allowUnionTypes: true }).compile({
  type: 'object',
  required: ['prefix'],
  additionalProperties: false,
  properties: {
    prefix: {
      type: 'object',
      propertyNames: { pattern: '^[A-Za-z][A-Za-z0-9_-]*$' },
      additionalProperties: { type: 'string', pattern: '^[a-z]+:' },
    },
    entity: declarations,
    activity: declarations,
    agent: declarations,
    ...RELATIONS,
  },
  $defs: {
    qualifiedName: { type: 'string', pattern: '^[a-z]+:[A-Za-z0-9_-]+$' },
    reference: { $ref: '#/$defs/qualifiedName' },
    dateTime: {
      type: 'string',
      pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:[0-5]\\d:[0-5]\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)$',
    },
    value: {
      anyOf: [
        { type: ['string', 'number', 'boolean'] },
        {
          type: 'object',
          required: ['$', 'type'],
          additionalProperties: false,
          properties: { $: { type: 'string' }, type: { $ref: '#/$defs/qualifiedName' } },
        },
      ],
    },
    values: {
      anyOf: [{ $ref: '#/$defs/value' }, { type: 'array', minItems: 1, items: { $ref: '#/$defs/value' } }],
    },
  },
});

type Members = Readonly<Record<string, unknown>>;
export type ProvJson = Readonly<Record<string, Readonly<Record<string, Members>> | undefined>>;

/** The required type of each member of a relation; undefined for any type. */
const SORTS: Readonly<Record<string, string | undefined>> = {
  'prov:entity': 'entity',
  'prov:activity': 'activity',
  'prov:informed': 'activity',
  'prov:informant': 'activity',
  'prov:trigger': 'entity',
  'prov:starter': 'activity',
  'prov:generatedEntity': 'entity',
  'prov:usedEntity': 'entity',
  'prov:agent': 'agent',
  'prov:delegate': 'agent',
  'prov:responsible': 'agent',
  'prov:influencee': undefined,
  'prov:influencer': undefined,
  'prov:collection': 'entity',
};

export function provFaults(document: ProvJson): unknown[] {
  const faults: unknown[] = validate(document) ? [] : [...(validate.errors ?? [])];
  const prefixes = Object.keys(document['prefix'] ?? {});
  const sortOf = new Map<string, string>();
  for (const sort of ['entity', 'activity', 'agent']) {
    for (const id of Object.keys(document[sort] ?? {})) {
      if (sortOf.has(id)) faults.push(`${id} is declared twice`);
      sortOf.set(id, sort);
    }
  }
  for (const name of namesIn(document)) {
    const [prefix = ''] = name.split(':');
    if (!prefixes.includes(prefix)) faults.push(`${name} has no prefix`);
  }
  for (const relation of Object.keys(RELATIONS)) {
    for (const members of Object.values(document[relation] ?? {})) {
      for (const [name, id] of Object.entries(members)) {
        if (!(name in SORTS)) continue;
        for (const each of [id].flat()) {
          const sort = sortOf.get(String(each));
          if (sort === undefined || sort !== (SORTS[name] ?? sort))
            faults.push(`${relation}: ${name} is no ${String(sort)}`);
        }
      }
    }
  }
  return [...faults, ...startFaults(document), ...derivationFaults(document)];
}

/** An activity has one start, and its time is that of the activity. */
function startFaults(document: ProvJson): string[] {
  const starts = Object.values(document['wasStartedBy'] ?? {});
  const activities = new Set(starts.map((members) => members['prov:activity']));
  if (activities.size < starts.length) return ['an activity has two starts'];
  return starts
    .filter((members) => {
      const activity = document['activity']?.[String(members['prov:activity'])];
      return activity?.['prov:startTime'] !== members['prov:time'];
    })
    .map(() => 'an activity starts at two times');
}

/** A derived entity is later than its source. */
function derivationFaults(document: ProvJson): string[] {
  const sources = new Map<unknown, unknown[]>();
  for (const members of Object.values(document['wasDerivedFrom'] ?? {})) {
    const derived = members['prov:generatedEntity'];
    sources.set(derived, [...(sources.get(derived) ?? []), members['prov:usedEntity']]);
  }
  const leadsTo = (from: unknown, to: unknown, seen: Set<unknown>): boolean =>
    (sources.get(from) ?? []).some((source) => {
      if (source === to) return true;
      if (seen.has(source)) return false;
      return leadsTo(source, to, seen.add(source));
    });
  return [...sources.keys()]
    .filter((id) => leadsTo(id, id, new Set()))
    .map((id) => `${String(id)} from itself`);
}

/** Every qualified name: of members, declared ids and typed values. */
function* namesIn(value: unknown, top = true): Generator<string> {
  if (Array.isArray(value)) for (const item of value) yield* namesIn(item, false);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
  const { $: text, type } = value as Members;
  if (text !== undefined) {
    yield String(type);
    if (type === 'prov:QUALIFIED_NAME' && typeof text === 'string') yield text;
    return;
  }
  for (const [name, member] of Object.entries(value)) {
    if (name === 'prefix' && top) continue;
    if (name.includes(':') && !name.startsWith('_:')) yield name;
    yield* namesIn(member, false);
  }
}
