const ORGANISATION = /^[A-Za-z0-9._-]{1,64}$/;

/** Whether this is a valid name of an organisation. */
export function isOrganisation(name: string): boolean {
  return ORGANISATION.test(name);
}

export type Fields = Readonly<Record<string, unknown>>;

/** Whether a parsed JSON value is an object: null and arrays are not. */
export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
