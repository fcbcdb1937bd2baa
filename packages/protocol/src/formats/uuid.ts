const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The textual form of RFC 9562 section 4, in either case, of any version and variant, including the nil and
 * max UUIDs. Ids are only compared, so refusing an unusual one would lose evidence for nothing.
 */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}
