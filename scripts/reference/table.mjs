// Markdown of the generated pages.
export const GENERATED = '<!-- Written by scripts/reference.mjs: change the code, then run it. -->';

const cell = (text) => text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ').trim();

export function table(heads, rows) {
  const line = (cells) => `| ${cells.map(cell).join(' | ')} |`;
  return ['<!-- prettier-ignore -->', line(heads), line(heads.map(() => '---')), ...rows.map(line)].join(
    '\n',
  );
}
