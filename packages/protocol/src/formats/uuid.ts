const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The textual form of RFC 9562 section 4, in either case. Any version and variant, the nil and the max
 * UUID included: an id is only compared, so refusing an unusual one would lose evidence and gain nothing.
 */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}
