/** Builds a PROV-JSON document: declarations by id, and relations by blank ids, in a fixed order. */

/** A typed value in PROV-JSON: {"$": lexical form, "type": datatype}. */
interface Typed {
  readonly $: string;
  readonly type: string;
}

type Value = string | number | Typed;

/** Undefined and an empty list are left out. */
export type Attributes = Readonly<Record<string, Value | readonly Value[] | undefined>>;

type Declaration = 'entity' | 'activity' | 'agent';
type Relation =
  | 'wasGeneratedBy'
  | 'used'
  | 'wasInformedBy'
  | 'wasStartedBy'
  | 'wasDerivedFrom'
  | 'wasInvalidatedBy'
  | 'wasAssociatedWith'
  | 'actedOnBehalfOf'
  | 'wasInfluencedBy'
  | 'hadMember';

export function qualified(name: string): Typed {
  return { $: name, type: 'prov:QUALIFIED_NAME' };
}

export function uri(text: string): Typed {
  return { $: text, type: 'xsd:anyURI' };
}

export function integer(number: number): Typed {
  return { $: String(number), type: 'xsd:integer' };
}

export function dateTime(text: string | undefined): Typed | undefined {
  return text === undefined ? undefined : { $: text, type: 'xsd:dateTime' };
}

export class ProvDocument {
  readonly #prefixes: Readonly<Record<string, string>>;
  readonly #declared = new Map<Declaration, Map<string, object>>();
  readonly #related = new Map<Relation, object[]>();

  /** @param prefixes in addition to `prov` and `xsd`. */
  constructor(prefixes: Readonly<Record<string, string>>) {
    this.#prefixes = prefixes;
  }

  /** Keeps the first declaration of an id. @returns the id. */
  declare(what: Declaration, id: string, attributes: Attributes): string {
    const declared = this.#declared.get(what) ?? new Map<string, object>();
    this.#declared.set(what, declared);
    if (!declared.has(id)) declared.set(id, present(attributes));
    return id;
  }

  relate(relation: Relation, members: Attributes): void {
    const related = this.#related.get(relation);
    if (related === undefined) this.#related.set(relation, [present(members)]);
    else related.push(present(members));
  }

  toObject(): object {
    // The submission predefines `prov` and `xsd`; some readers do not.
    const prefix = {
      prov: 'http://www.w3.org/ns/prov#',
      xsd: 'http://www.w3.org/2001/XMLSchema#',
      ...this.#prefixes,
    };
    const declared = [...this.#declared].map(([what, all]) => [what, Object.fromEntries(all)] as const);
    const related = [...this.#related].map(
      ([relation, all]) =>
        [relation, Object.fromEntries(all.map((one, n) => [`_:${relation}${String(n + 1)}`, one]))] as const,
    );
    return { prefix, ...Object.fromEntries(declared), ...Object.fromEntries(related) };
  }
}

function present(attributes: Attributes): object {
  return Object.fromEntries(
    Object.entries(attributes).filter(
      ([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0),
    ),
  );
}
