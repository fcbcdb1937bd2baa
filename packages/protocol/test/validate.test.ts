import { describe, expect, it } from 'vitest';
import { EVENT_KINDS, PROFILES } from '../src/index.js';
import { validateEvent } from '../src/validate.js';
import { FIELDS, smallestEvent, withField } from './sample-events.js';

const cases = EVENT_KINDS.flatMap((kind) => PROFILES.map((profile) => ({ kind, profile })));

/** The requirement of docs/SPEC.md that a field belongs to; the second one is that of the profile `full`. */
const REQUIREMENTS: Readonly<Record<string, readonly [string, string]>> = {
  event_id: ['[R-101]', '[R-101]'],
  run_id: ['[R-102]', '[R-102]'],
  parent_event_id: ['[R-102]', '[R-102]'],
  timestamp: ['[R-104]', '[R-104]'],
  protocol_version: ['[R-105]', '[R-105]'],
  system_metadata: ['[R-106]', '[R-106]'],
  model_instance: ['[R-107]', '[R-115]'],
  user_identity: ['[R-107]', '[R-115]'],
  target_identity: ['[R-107]', '[R-115]'],
  inputs: ['[R-107]', '[R-115]'],
  artifact: ['[R-108]', '[R-108]'],
  output: ['[R-109]', '[R-115]'],
  outcome: ['[R-110]', '[R-115]'],
  feedback: ['[R-110]', '[R-115]'],
};
const fieldCases = FIELDS.flatMap((field) =>
  field.kinds.flatMap((kind) =>
    PROFILES.map((profile) => {
      const requirement = REQUIREMENTS[field.pointer.split('/')[1] ?? '']?.[profile === 'full' ? 1 : 0];
      if (requirement === undefined) throw new Error(`${field.pointer} belongs to no requirement`);
      return { ...field, kind, profile, requirement };
    }),
  ),
);

describe.each(cases)('$kind under the profile $profile', ({ kind, profile }) => {
  it('is valid with its required fields only', () => {
    expect(validateEvent(kind, profile, smallestEvent(kind, profile))).toBeUndefined();
  });

  it.each([null, undefined, true, 0, '', 'x', [], [smallestEvent(kind, profile)]])(
    'must be an object and not %j',
    (value) => {
      expect(validateEvent(kind, profile, value)).toEqual([
        { pointer: '', rule: 'type', message: 'must be an object' },
      ]);
    },
  );

  it('reports every missing required field at once', () => {
    const missing = FIELDS.filter(
      (field) =>
        field.kinds.includes(kind) &&
        field.required.includes(profile) &&
        field.pointer.lastIndexOf('/') === 0,
    ).map(({ pointer }) => ({ pointer, rule: 'required', message: 'is required' }));
    expect(validateEvent(kind, profile, {})).toEqual(missing);
  });

  it('[R-112] keeps unknown fields at every level', () => {
    const event = smallestEvent(kind, profile);
    for (const [name, value] of Object.entries(event)) {
      if (typeof value === 'object') event[name] = { ...value, 'never/named~': [null, { deep: 1 }] };
    }
    event['x-own'] = { anything: ['at', 'all'] };
    event['constructor'] = null;
    const before = JSON.stringify(event);
    expect(validateEvent(kind, profile, event)).toBeUndefined();
    expect(JSON.stringify(event)).toBe(before);
  });

  it('does not find its required fields in a field called __proto__', () => {
    const hidden = JSON.stringify(smallestEvent(kind, profile));
    const event: unknown = JSON.parse(`{"__proto__":${hidden},"constructor":${hidden}}`);
    expect(validateEvent(kind, profile, event)).toEqual(validateEvent(kind, profile, {}));
  });

  it('[R-402] reports every fault at once and each field once', () => {
    const event = smallestEvent(kind, profile);
    const fields = FIELDS.filter((field) => field.kinds.includes(kind) && field.known.includes(profile));
    const leaves = fields.filter(({ pointer, type }) => {
      if (type.message === 'must be an object') return false;
      withField(event, pointer, type.bad[0]);
      return true;
    });
    const issues = validateEvent(kind, profile, event) ?? [];
    expect(issues.map(({ pointer, message }) => `${pointer} ${message}`).sort()).toEqual(
      leaves.map(({ pointer, type }) => `${pointer} ${type.message}`).sort(),
    );
  });

  it('lists the same faults in the same order each time', () => {
    const faulty = { ...smallestEvent(kind, profile), event_id: 1, timestamp: 'x', run_id: null };
    const first = validateEvent(kind, profile, faulty);
    const reordered = Object.fromEntries(Object.entries(faulty).reverse());
    expect(validateEvent(kind, profile, reordered)).toEqual(first);
    expect(first?.map(({ pointer }) => pointer)).toEqual(['/event_id', '/run_id', '/timestamp']);
  });
});

describe.each(fieldCases)('$requirement $pointer of $kind under $profile', (field) => {
  const { kind, profile, pointer, type } = field;
  const known = field.known.includes(profile);

  it('accepts every valid value', () => {
    for (const value of type.good) {
      const event = withField(smallestEvent(kind, profile), pointer, value);
      expect(validateEvent(kind, profile, event), JSON.stringify(value)).toBeUndefined();
    }
  });

  it(
    known ? 'refuses every other value with one issue' : 'accepts any value, as the profile does not know it',
    () => {
      for (const value of type.bad) {
        const event = withField(smallestEvent(kind, profile), pointer, value);
        const issues = validateEvent(kind, profile, event);
        if (known) {
          expect(issues, JSON.stringify(value)).toEqual([
            { pointer, rule: expect.any(String) as string, message: type.message },
          ]);
        } else expect(issues, JSON.stringify(value)).toBeUndefined();
      }
    },
  );

  it(field.required.includes(profile) ? 'is required' : 'may be left out', () => {
    const event = withField(smallestEvent(kind, profile), pointer, undefined);
    const issues = field.required.includes(profile)
      ? [{ pointer, rule: 'required', message: 'is required' }]
      : undefined;
    expect(validateEvent(kind, profile, event)).toEqual(issues);
  });
});

describe('the rule of an issue', () => {
  it.each([
    ['/event_id', 'x', 'format'],
    ['/event_id', 1, 'type'],
    ['/protocol_version', '', 'minLength'],
    ['/system_metadata/latency_ms', 2147483648, 'maximum'],
    ['/system_metadata/latency_ms', -2147483649, 'minimum'],
    ['/system_metadata/latency_ms', 0.5, 'type'],
    ['/artifact/artifact_type', 'x', 'enum'],
  ])('for %s as %j is %s', (pointer, value, rule) => {
    const event = withField(smallestEvent('internal-artifact', 'minimum'), pointer, value);
    expect(validateEvent('internal-artifact', 'minimum', event)?.map((issue) => issue.rule)).toEqual([rule]);
  });
});
