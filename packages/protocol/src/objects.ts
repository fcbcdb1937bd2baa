export type Fields = Readonly<Record<string, unknown>>;

/** Whether a parsed JSON value is an object: null and arrays are not. */
export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
