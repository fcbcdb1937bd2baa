import { readFileSync, readdirSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formats } from '../src/formats/formats.js';
import type { EventKind, Profile } from '../src/index.js';
import { EVENT_KINDS, PROFILES } from '../src/index.js';
import { MAX_ISSUES, validateEvent } from '../src/validate.js';
import type { JsonObject } from './sample-events.js';
import { FIELDS, smallestEvent, withField } from './sample-events.js';

const anyKind = fc.constantFrom(...EVENT_KINDS);
const anyProfile = fc.constantFrom(...PROFILES);

/** Changes to make to an event: for some of its fields a valid value, any other value, or none. */
function changesTo(kind: EventKind, anyValue: fc.Arbitrary<unknown>) {
  const change = (field: (typeof FIELDS)[number]) => {
    const value = fc.oneof(
      {
        weight: 3,
        arbitrary: field.type.good.length > 0 ? fc.constantFrom(...field.type.good) : fc.constant({}),
      },
      { weight: 1, arbitrary: fc.constantFrom(...field.type.bad) },
      { weight: 1, arbitrary: anyValue },
      { weight: 1, arbitrary: fc.constant(undefined) },
    );
    return fc.record({ pointer: fc.constant(field.pointer), value });
  };
  const fields = FIELDS.filter((field) => field.kinds.includes(kind));
  return fc.array(fc.oneof(...fields.map(change)), { maxLength: 12 });
}

/** Makes each change whose place still exists. A change may have put a string where an object was. */
function changed(event: JsonObject, changes: readonly { pointer: string; value: unknown }[]): JsonObject {
  for (const { pointer, value } of changes) {
    const holder = pointer.split('/').length > 2 ? event[pointer.split('/')[1] ?? ''] : event;
    if (typeof holder === 'object' && holder !== null) withField(event, pointer, structuredClone(value));
  }
  return event;
}

function nearlyValid(anyValue: fc.Arbitrary<unknown>) {
  return fc.tuple(anyKind, anyProfile).chain(([kind, profile]) =>
    changesTo(kind, anyValue).map((changes) => ({
      kind,
      profile,
      event: changed(smallestEvent(kind, profile), changes),
    })),
  );
}

/** The schema files, interpreted by Ajv with references and allOf. */
function interpretedSchemas() {
  const directory = new URL('../schemas/', import.meta.url);
  // strictRequired wants a property defined beside every `required`; `full` requires what `minimum` defines.
  const ajv = new Ajv2020({ allErrors: true, strict: true, strictRequired: false });
  for (const [name, check] of Object.entries(formats)) ajv.addFormat(name, check);
  ajv.addFormat('int32', true);
  for (const name of readdirSync(directory)) {
    ajv.addSchema(JSON.parse(readFileSync(new URL(name, directory), 'utf8')) as object);
  }
  return (kind: EventKind, profile: Profile, event: unknown) => {
    const validate = ajv.getSchema(`${kind}.${profile}.json`);
    if (validate?.(event) !== false) return [];
    return (validate.errors ?? []).map(({ instancePath, keyword, params }) =>
      keyword === 'required' ? `${instancePath}/${String(params['missingProperty'])}` : instancePath,
    );
  };
}

describe('validateEvent', () => {
  it('never throws on a JSON value, and reports faults if and only if there are any', () => {
    fc.assert(
      fc.property(anyKind, anyProfile, fc.jsonValue({ maxDepth: 5 }), (kind, profile, value) => {
        const issues = validateEvent(kind, profile, value);
        expect(issues === undefined || (issues.length > 0 && issues.length <= MAX_ISSUES)).toBe(true);
      }),
    );
  });

  it('keeps a valid event valid whatever unknown fields are added to it', () => {
    const unknownFields = fc.dictionary(
      fc.string().map((name) => `x-${name}`),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(anyKind, anyProfile, unknownFields, unknownFields, (kind, profile, outer, inner) => {
        const event = { ...outer, ...smallestEvent(kind, profile) };
        for (const [name, value] of Object.entries(event)) {
          if (!name.startsWith('x-') && typeof value === 'object') event[name] = { ...inner, ...value };
        }
        expect(validateEvent(kind, profile, event)).toBeUndefined();
      }),
    );
  });

  it('accepts under minimum what it accepts under full', () => {
    fc.assert(
      fc.property(nearlyValid(fc.jsonValue()), ({ kind, event }) => {
        if (validateEvent(kind, 'full', event) === undefined) {
          expect(validateEvent(kind, 'minimum', event)).toBeUndefined();
        }
      }),
    );
  });

  it('agrees with Ajv on the schema files, field by field', () => {
    const interpreted = interpretedSchemas();
    fc.assert(
      fc.property(nearlyValid(fc.jsonValue({ maxDepth: 2 })), ({ kind, profile, event }) => {
        const compiled = (validateEvent(kind, profile, event) ?? []).map((issue) => issue.pointer);
        expect(compiled.sort()).toEqual([...new Set(interpreted(kind, profile, event))].sort());
      }),
      { numRuns: 1500 },
    );
  });

  it('[R-403] never reports a value of the event or the name of an unknown field', () => {
    const secret = fc.stringMatching(/^[0-9a-f]{6}$/).map((text) => `SECRET${text}`);
    const secretNumber = fc.integer({ min: 0, max: 999 }).map((n) => Number(`7777777.${n}7`));
    const { secrets } = fc.letrec((tie) => ({
      secrets: fc.oneof(
        { maxDepth: 2 },
        secret,
        secretNumber,
        fc.dictionary(secret, tie('secrets'), { maxKeys: 3 }),
        fc.array(tie('secrets'), { maxLength: 2 }),
      ),
    }));
    fc.assert(
      fc.property(
        nearlyValid(secrets),
        fc.dictionary(secret, secrets),
        ({ kind, profile, event }, unknown) => {
          const issues = validateEvent(kind, profile, { ...unknown, ...event });
          expect(JSON.stringify(issues ?? [])).not.toMatch(/SECRET|7777777/);
        },
      ),
    );
  });
});
