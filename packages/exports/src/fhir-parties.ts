/** The participants of an event in FHIR: models, callers, senders, targets. */
import type { RecordedEvent } from '@clinical-events/protocol';
import { CALLERS, CODES, concept, derivedId, type Part, SYSTEMS, TARGETS } from './fhir-codes.js';
import { CALLER_TYPES, nameIn, type Payload, TARGET_TYPES, wordIn } from './values.js';

/**
 * The base of the profiles and codes of HL7's guide "AI Transparency on FHIR" (hl7.fhir.uv.aitransparency).
 */
export const GUIDE = 'http://hl7.org/fhir/uv/aitransparency';

/** The guide's profiles fix this value, without a display. */
export const ARTIFICIAL_INTELLIGENCE = {
  coding: [{ system: `${GUIDE}/CodeSystem/AIdeviceTypeCS`, code: 'Artificial-Intelligence' }],
} as const;

/** The Device of a model, for references from other resources. */
export interface ModelDevice {
  readonly reference: string;
  readonly identifier: Part | undefined;
  /** Id and version, for people. */
  readonly name: string;
}

/** The Devices of one Bundle: one for each model that a resource refers to. */
export class ModelDevices {
  readonly #bySent = new Map<Payload, ModelDevice | undefined>();
  readonly #resources = new Map<string, Part>();

  /**
   * @returns the same Device for the same id and version in all Bundles; undefined for a model without both.
   */
  of(model: Payload | undefined): ModelDevice | undefined {
    if (model === undefined) return undefined;
    if (!this.#bySent.has(model)) this.#bySent.set(model, this.#made(model));
    return this.#bySent.get(model);
  }

  resources(): Part[] {
    return [...this.#resources.values()];
  }

  #made(model: Payload): ModelDevice | undefined {
    const name = nameIn(model['model_id']);
    const version = nameIn(model['model_version']);
    if (name === undefined && version === undefined) return undefined;
    const id = derivedId('Device', JSON.stringify([name, version]));
    const identifier = name === undefined ? undefined : { system: SYSTEMS.model, value: name };
    this.#resources.set(id, {
      resourceType: 'Device',
      id,
      meta: { profile: [`${GUIDE}/StructureDefinition/AI-Device`] },
      identifier: identifier && [identifier],
      deviceName: name && [{ name, type: 'model-name' }],
      type: ARTIFICIAL_INTELLIGENCE,
      version: version && [{ value: version }],
    });
    return {
      reference: `urn:uuid:${id}`,
      identifier,
      name: [name, version].filter((each) => each !== undefined).join(' '),
    };
  }
}

/** A caller as an agent of an AuditEvent; undefined without an id and a type. */
export function userOf(user: Payload | null | undefined, organisation: string): Part | undefined {
  const callerType = wordIn(CALLER_TYPES, user?.['caller_type']);
  const who = callerOf(user, organisation);
  if (who === undefined && callerType === undefined) return undefined;
  return {
    type: callerType && concept(CALLERS[callerType].type),
    role: callerType && [{ coding: [{ system: SYSTEMS.callerType, code: callerType }] }],
    who,
  };
}

/** A reference to the caller; undefined without a `caller_id`. */
export function callerOf(user: Payload | null | undefined, organisation: string): Part | undefined {
  const value = nameIn(user?.['caller_id']);
  if (value === undefined) return undefined;
  const callerType = wordIn(CALLER_TYPES, user?.['caller_type']);
  return {
    type: callerType && CALLERS[callerType].resource,
    identifier: { system: SYSTEMS.caller, value, assigner: { display: nameIn(organisation) } },
  };
}

/** A reference to the sender of an event. */
export function senderOf({ system_metadata, key_id }: RecordedEvent): Part {
  const name = nameIn(system_metadata?.app_name) ?? nameIn(system_metadata?.hostname);
  const identifier =
    name === undefined ? { system: SYSTEMS.key, value: key_id } : { system: SYSTEMS.source, value: name };
  return { type: 'Device', identifier };
}

/** A target as an entity of an AuditEvent; undefined without a target. */
export function targetOf(target: Payload | null | undefined, organisation: string): TargetPart | undefined {
  const value = nameIn(target?.['target_id']);
  const targetType = wordIn(TARGET_TYPES, target?.['target_type']);
  const known = targetType === undefined ? undefined : TARGETS[targetType];
  if (value === undefined || known === null) return undefined;
  return {
    what: {
      type: known?.resource,
      identifier: { system: SYSTEMS.target, value, assigner: { display: nameIn(organisation) } },
    },
    type: known?.type ?? CODES.other,
    role: known?.role ?? CODES.domainResource,
  };
}

interface TargetPart extends Part {
  readonly what: Part & { readonly type: 'Patient' | 'DocumentReference' | 'Claim' | undefined };
}
