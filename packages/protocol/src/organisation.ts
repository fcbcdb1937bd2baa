const ORGANISATION = /^[A-Za-z0-9._-]{1,64}$/;

/** Whether an organisation can have this name. */
export function isOrganisation(name: string): boolean {
  return ORGANISATION.test(name);
}
