/** A PROV-JSON document under construction: declarations by id, and relations by blank ids, in a fixed order. */

/** A value with a type, in PROV-JSON's way: {"$": lexical form, "type": datatype}. */
interface Typed {
  readonly $: string;
  readonly type: string;
}

type Value = string | number | Typed;

/** Undefined and an empty list say nothing. */
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

  /** @param prefixes beside `prov` and `xsd`, which every document has. */
  constructor(prefixes: Readonly<Record<string, string>>) {
    this.#prefixes = prefixes;
  }

  /** Declared twice, the first declaration stands. @returns the id. */
  declare(what: Declaration, id: string, attributes: Attributes): string {
    const declared = this.#declared.get(what) ?? new Map<string, object>();
    this.#declared.set(what, declared);
    if (!declared.has(id)) declared.set(id, said(attributes));
    return id;
  }

  relate(relation: Relation, members: Attributes): void {
    const related = this.#related.get(relation);
    if (related === undefined) this.#related.set(relation, [said(members)]);
    else related.push(said(members));
  }

  toObject(): object {
    // The submission takes `prov` and `xsd` for granted; it is for readers that do not.
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

function said(attributes: Attributes): object {
  return Object.fromEntries(
    Object.entries(attributes).filter(
      ([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0),
    ),
  );
}
