/**
 * Whether more than so many arrays and objects stand inside each other, the outermost one counted. Bounded by `levels`,
 * however deep the value is.
 */
export function nestsDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  // Nothing is made on the way: this is gone through for each event.
  const inner = value as Readonly<Record<string, unknown>>;
  for (const name in inner) if (nestsDeeper(inner[name], levels - 1)) return true;
  return false;
}
