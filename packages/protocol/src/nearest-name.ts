/** Finds the known name that was probably meant. */

/** Levenshtein distance: the number of letters to insert, remove or change. */
function distance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, place) => place);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      current.push(Math.min(change, (previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}

/** @returns the known name with the fewest edits, if at most two fifths of its letters change. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  if (name.length > 100) return undefined;
  let best: string | undefined;
  let fewest = Math.max(2, Math.floor(name.length * 0.4)) + 1;
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) >= fewest) continue;
    const edits = distance(name.toLowerCase(), candidate.toLowerCase());
    if (edits < fewest && edits < candidate.length) [best, fewest] = [candidate, edits];
  }
  return best;
}

/** @returns `; did you mean "…"?` with the nearest known name, or an empty text when none is near. */
export function didYouMean(name: string, known: readonly string[]): string {
  const best = nearestName(name, known);
  return best === undefined ? '' : `; did you mean "${best}"?`;
}
