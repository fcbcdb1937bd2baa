/** A number of things, in words: `1 segment`, `2 segments`. The console has its own, as it runs in a browser too. */
export function counted(number: number, thing: string, things = `${thing}s`): string {
  return `${number} ${number === 1 ? thing : things}`;
}
