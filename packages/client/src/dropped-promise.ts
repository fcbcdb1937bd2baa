/**
 * Callbacks of the application are asked and told where nothing can be awaited. One that is async returns a promise all
 * the same, and ended the application when that was rejected and nobody looked. Every room may ask; it imports nothing.
 */

/** Whether it is a promise. It is left alone then, and does no harm when it is rejected. */
export function isDroppedPromise(value: unknown): boolean {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  try {
    if (typeof (value as { readonly then?: unknown }).then !== 'function') return false;
    Promise.resolve(value).catch(() => undefined);
  } catch {
    // Whatever it is, it is no answer.
  }
  return true;
}
