/** The text of a piece of HTML as a browser reads it, for tests without a browser. */
const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  '#39': "'",
  '#10': '\n',
};

export function textOfMarkup(markup: string): string {
  return markup
    .replace(/<[^>]*>/g, '')
    .replace(/&#x([0-9A-F]+);/g, (_, hex: string) => String.fromCodePoint(parseInt(hex, 16)))
    .replace(/&(#?\w+);/g, (whole, name: string) => ENTITIES[name] ?? whole);
}

/** The addresses of links and forms. */
export function addressesIn(markup: string): string[] {
  return [...markup.matchAll(/ (?:href|action|src|content)="([^"]*)"/g)].map(([, address = '']) => address);
}
