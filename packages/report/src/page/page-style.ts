/**
 * The style of the page: for wide and narrow screens, light and dark, and A4 paper, including black and
 * white.
 */
import { Html } from './html.js';

const DASHES = ['none', '7 4', '2 3', '10 3 2 3', '1 4', '14 4'];

export const STYLE = new Html(`
:root {
  color-scheme: light dark;
  --paper: #ffffff; --panel: #f5f7f8; --ink: #17212b; --quiet: #55626e; --rule: #d5dce1;
  --strong: #1f4e6b; --soft: #b5cedd; --mid: #5b8dab; --dark: #6d1f1f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #11171c; --panel: #1a2229; --ink: #e6ecf0; --quiet: #a3b0ba; --rule: #35424c;
    --strong: #8cc4e4; --soft: #2f5268; --mid: #5f9dc0; --dark: #f3a79b;
  }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #ffffff; --panel: #ffffff; --ink: #000000; --quiet: #3a3a3a; --rule: #b8b8b8;
    --strong: #1f4e6b; --soft: #c9dae4; --mid: #5b8dab; --dark: #5a1212;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  overflow-wrap: break-word;
  font: 16px/1.5 system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif;
}
.page { max-width: 74rem; margin: 0 auto; padding: 2rem 1.5rem 4rem; }
h1, h2, h3 { line-height: 1.2; text-wrap: balance; }
h1 { font-size: 2.1rem; margin: 0 0 .4rem; }
h2 { font-size: 1.45rem; margin: 3.2rem 0 .6rem; padding-top: .9rem; border-top: 2px solid var(--ink); }
h3 { font-size: 1.15rem; margin: 1.8rem 0 .4rem; }
p, ul, ol { max-width: 48rem; margin: .4rem 0 .8rem; }
.period { color: var(--quiet); margin: 0 0 1.4rem; }
.lead { font-size: 1.2rem; }
.warning { border-left: 4px solid currentcolor; padding-left: .7rem; max-width: 54rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; max-width: none; }
nav li { min-width: 0; }
a { color: var(--strong); overflow-wrap: anywhere; }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .8rem; margin: 1.4rem 0;
  padding: 0;
}
.tiles > div {
  background: var(--panel); border: 1px solid var(--rule); border-radius: 6px; padding: .7rem .9rem;
  display: flex; flex-direction: column;
}
.tiles dt { font-size: .85rem; color: var(--quiet); }
.tiles dd { margin: 0; }
.tiles .number { font-size: 1.9rem; font-weight: 650; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tiles .more { font-size: .85rem; color: var(--quiet); }
.findings { width: 100%; }
.findings td, .findings thead th, .findings th[scope="row"] { white-space: normal; }
.findings th[scope="row"] { min-width: 8rem; }
.findings small { color: var(--quiet); white-space: nowrap; font-weight: 400; }
.findings .drawn {
  width: 22%; min-width: 8rem; text-align: left; vertical-align: middle; padding-left: .6rem; padding-right:
  1.6rem;
}
.findings td.text { width: 26%; }
.findings th.block { color: var(--ink); font-weight: 400; }
.findings th.block > span:last-child { color: var(--quiet); }
.range { stroke: var(--mid); stroke-width: 2.5; }
circle { fill: var(--strong); stroke: var(--strong); stroke-width: 1.4; }
circle.then { fill: var(--paper); }
.figures {
  display: grid; gap: 1.2rem 2rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr));
}
.kinds { grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); }
figure { margin: 0; padding: .2rem 0 .4rem; min-width: 0; }
figcaption { font-size: .92rem; line-height: 1.35; margin-bottom: .5rem; color: var(--quiet); }
figcaption strong { color: var(--ink); }
.none { color: var(--quiet); font-style: italic; }
.rows {
  display: grid; gap: .35rem .7rem; align-items: center; font-size: .85rem;
  grid-template-columns: minmax(3.5rem, auto) minmax(6rem, 1fr) auto;
}
.rows .name { font-weight: 600; overflow-wrap: anywhere; max-width: 9rem; }
.rows .value { text-align: right; font-variant-numeric: tabular-nums; color: var(--quiet); max-width: 11rem; }
.ends {
  display: flex; min-width: 0; justify-content: space-between; font-size: .78rem; color: var(--quiet);
  white-space: nowrap;
}
.legend {
  list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1rem; padding: 0; font-size: .85rem; margin:
  .4rem 0 0;
}
.plot {
  display: grid; grid-template-columns: auto 1fr; gap: 0 .5rem; font-size: .78rem; color: var(--quiet);
}
.plot .scale {
  display: flex; flex-direction: column; justify-content: space-between; text-align: right; line-height: 1;
}
svg { display: block; overflow: visible; }
svg.sample { display: inline-block; vertical-align: -1px; }
.bar { fill: var(--strong); }
.grid { stroke: var(--rule); }
.curve { fill: none; stroke: var(--strong); stroke-width: 2; vector-effect: non-scaling-stroke; }
.curve.grid { stroke: var(--rule); stroke-width: 1; }
${DASHES.map((dash, i) => `.line-${i} { stroke-dasharray: ${dash}; }`).join('\n')}
.part { stroke: var(--paper); stroke-width: 1; }
.part.validated { fill: var(--mid); }
.part.partial { fill: var(--soft); }
.part.contradicted { fill: var(--dark); }
.part.unknown { fill: var(--rule); stroke: var(--quiet); }
.part.other_words, .part.unreadable { fill: var(--paper); stroke: var(--quiet); }
.part.none { fill: var(--paper); stroke: var(--quiet); stroke-dasharray: 3 2; }
.wide { overflow-x: auto; margin: 1rem 0; }
.single { columns: 24rem; column-gap: 2rem; }
.single table { width: 100%; }
.single tbody { break-inside: avoid; }
.wide:focus-visible, summary:focus-visible, a:focus-visible {
  outline: 3px solid var(--mid); outline-offset: 2px;
}
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td {
  padding: .22rem .8rem .22rem 0; border-bottom: 1px solid var(--rule); text-align: right; vertical-align:
  top; white-space: nowrap;
}
th[scope="row"], td.text { text-align: left; font-weight: 400; }
th[scope="row"] { white-space: normal; min-width: 9rem; max-width: 26rem; overflow-wrap: anywhere; }
thead th, thead td { border-bottom: 2px solid var(--quiet); vertical-align: bottom; white-space: normal; }
thead th.text { text-align: left; }
th.block { text-align: left; padding-top: .9rem; color: var(--quiet); font-weight: 600; white-space: normal; }
td code { white-space: pre-wrap; overflow-wrap: anywhere; user-select: all; }
.commands td.text { white-space: normal; min-width: 20rem; max-width: 44rem; }
details { margin: .8rem 0; }
summary { cursor: pointer; }
.model summary { padding: .7rem 0; border-bottom: 1px solid var(--rule); }
.model summary h3 { display: inline; margin: 0; }
.gist { color: var(--quiet); font-size: .92rem; margin-left: .6rem; }
.model details { margin: 0; }
.on-paper { display: none; }
.new {
  border: 1px solid currentcolor; border-radius: 3px; padding: 0 .3rem; font-size: .75rem; margin-left:
  .4rem; white-space: nowrap;
}
.notes li { margin: .45rem 0; }
footer {
  margin-top: 3rem; border-top: 1px solid var(--rule); padding-top: .8rem; color: var(--quiet); font-size:
  .88rem;
}
@media (max-width: 66rem) { .tiles { grid-template-columns: repeat(3, 1fr); } }
@media (max-width: 40rem) {
  .tiles { grid-template-columns: repeat(2, 1fr); }
  .page { padding: 1.2rem 1rem 3rem; }
  h1 { font-size: 1.7rem; }
  .rows { grid-template-columns: minmax(3rem, auto) 1fr; }
  .rows .value { grid-column: 1 / -1; text-align: left; max-width: none; margin: -.2rem 0 .35rem; }
  .rows > .ends { grid-column: 2; }
  .rows > span:empty:last-child { display: none; }
  .gist { display: block; margin-left: 1.1rem; }
  .findings thead tr { display: block; }
  .findings thead > tr > :not(.drawn) { display: none; }
  .findings thead .drawn { display: block; width: auto; padding: 0 .3rem; }
  .findings tr { display: grid; grid-template-columns: 1fr 1fr; border-bottom: 1px solid var(--rule); }
  .findings tbody > tr > * {
    border: 0; padding-left: 0; padding-right: .4rem; width: auto; max-width: none; text-align: left;
  }
  .findings tbody > tr > :not([data-name]) { grid-column: 1 / -1; }
  .findings tbody > tr > td.drawn { padding: 0 .3rem; }
  .findings td.text, .findings td.drawn { width: auto; }
  .findings td:empty { display: none; }
  .findings td[data-name]::before { content: attr(data-name) " "; color: var(--quiet); font-size: .85em; }
}
@page {
  size: A4; margin: 16mm 14mm 18mm;
  @bottom-right { content: counter(page) " of " counter(pages); font: 9pt sans-serif; }
}
@media print {
  :root { font-size: 9.2pt; }
  body { font-size: 1rem; line-height: 1.4; }
  .page { max-width: none; padding: 0; }
  h2 { margin-top: 1.3rem; padding-top: .6rem; font-size: 1.3rem; }
  h1 { font-size: 1.7rem; }
  .tiles { grid-template-columns: repeat(auto-fit, minmax(6.2rem, 1fr)); gap: .5rem; margin: .8rem 0; }
  .tiles > div { padding: .4rem .5rem; }
  .tiles .number { font-size: 1.35rem; }
  .findings .compared br { display: none; }
  .findings .compared td[data-name] { white-space: nowrap; }
  .findings .compared small::before { content: " ("; }
  .findings .compared small::after { content: ")"; }
  .findings .drawn { width: 18%; min-width: 0; padding-right: 1rem; }
  .findings td.text { width: auto; }
  .figures { grid-template-columns: 1fr 1fr; gap: 10pt 18pt; }
  .kinds { grid-template-columns: repeat(4, 1fr); gap: 6pt 12pt; }
  .rows { grid-template-columns: minmax(2.6rem, auto) 1fr auto; }
  .rows .value { grid-column: auto; text-align: right; max-width: 11rem; margin: 0; }
  .rows > span:empty:last-child { display: inline; }
  #all .figures { grid-template-columns: repeat(3, 1fr); gap: 6pt 14pt; }
  #all .rows { grid-template-columns: minmax(2.6rem, auto) 1fr; }
  #all .rows .value { grid-column: 1 / -1; text-align: left; max-width: none; margin-top: -.2rem; }
  #all .rows > span:empty:last-child { display: none; }
  nav, details:not([open]), .model:not(:has(> [open])), #models:not(:has(.model > [open])) { display: none; }
  .on-paper { display: block; }
  summary { list-style: none; }
  .notes {
    columns: 2; column-gap: 16pt; font-size: .82rem; line-height: 1.3; max-width: none; padding-left:
    1.5rem;
  }
  .kinds { break-inside: avoid; }
  section > p { break-after: avoid; break-inside: avoid; }
  h2, h3, caption, figcaption, .legend { break-after: avoid; }
  figure, .short, .groups tbody, .findings tbody, tr, .tiles > div, li { break-inside: avoid; }
  thead { display: table-header-group; }
  .wide { overflow: visible; }
  th, td { padding: .06rem .7rem .06rem 0; } th.block { padding-top: .35rem; }
  a { color: inherit; text-decoration: none; }
}
`);
