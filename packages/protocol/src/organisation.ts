const ORGANISATION = /^[A-Za-z0-9._-]{1,64}$/;

/** Whether this is a valid name of an organisation. */
export function isOrganisation(name: string): boolean {
  return ORGANISATION.test(name);
}
