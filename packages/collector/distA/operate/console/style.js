/** The style sheet. Colours have a contrast of 4.5 at least in both themes, also where values are old. */
/** Marks the text as a style sheet, for those who format it. */
const css = String.raw;
export const STYLE = css `
  :root {
    color-scheme: light dark;
    --ground: #f3f5f8;
    --card: #ffffff;
    --edge: #dde3ea;
    --grid: #e8ecf1;
    --ink: #15202b;
    --soft: #536171;
    --accent: #0a66c2;
    --accent-area: #cfe2f7;
    --second: #0f7b6c;
    --good: #14703a;
    --good-ground: #e3f4e9;
    --warning: #8a4b00;
    --warning-ground: #fff2d9;
    --warning-edge: #e0a030;
    --critical: #b3201a;
    --critical-ground: #fdeae8;
    --critical-edge: #d2443c;
    --idle-ground: #edf0f4;
    --mono: ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  }
  @media (prefers-color-scheme: dark) {
    :root {
      --ground: #0d1218;
      --card: #151c24;
      --edge: #27323e;
      --grid: #222c37;
      --ink: #e6ecf2;
      --soft: #9dabb9;
      --accent: #6cb2f7;
      --accent-area: #1d3a58;
      --second: #52cbb6;
      --good: #6fd596;
      --good-ground: #16321f;
      --warning: #f4bf5a;
      --warning-ground: #2e2412;
      --warning-edge: #a97a22;
      --critical: #ff8d84;
      --critical-ground: #371918;
      --critical-edge: #c4453d;
      --idle-ground: #232d38;
    }
  }

  *,
  *::before,
  *::after {
    box-sizing: border-box;
  }
  body {
    margin: 0;
    background: var(--ground);
    color: var(--ink);
    font:
      15px/1.45 system-ui,
      -apple-system,
      'Segoe UI',
      Roboto,
      'Noto Sans',
      'Liberation Sans',
      sans-serif;
    font-variant-numeric: tabular-nums;
    -webkit-text-size-adjust: 100%;
    text-size-adjust: 100%;
  }
  h1,
  h2,
  h3,
  p,
  ul,
  dl,
  dd,
  figure {
    margin: 0;
    padding: 0;
  }
  ul {
    list-style: none;
  }
  code {
    font: 0.9em/1.4 var(--mono);
  }
  :focus-visible {
    outline: 3px solid var(--accent);
    outline-offset: 2px;
    border-radius: 4px;
  }
  .hidden,
  caption {
    position: absolute;
    width: 1px;
    height: 1px;
    overflow: hidden;
    clip-path: inset(50%);
    white-space: nowrap;
  }

  .page {
    max-width: 1600px;
    margin: 0 auto;
    padding: 0 24px 24px;
  }
  main,
  .stacks-of-cards,
  .tiles,
  .alerts,
  .charts {
    display: grid;
    gap: 16px;
  }
  main > *,
  .stacks-of-cards > *,
  .stacks-of-cards > * > *,
  .charts > * {
    min-width: 0;
  }
  .more,
  .note {
    color: var(--soft);
    font-size: 13px;
  }

  /* At the top: is all well? */
  .top {
    display: flex;
    flex-wrap: wrap;
    align-items: center;
    gap: 8px 24px;
    padding: 18px 0 16px;
  }
  h1 {
    font-size: 18px;
    font-weight: 650;
    letter-spacing: -0.01em;
  }
  .status {
    display: flex;
    flex-wrap: wrap;
    align-items: baseline;
    gap: 2px 10px;
    font-size: 16px;
  }
  .status .more {
    font-size: 14px;
  }
  .dot {
    align-self: center;
    flex: none;
    width: 12px;
    height: 12px;
    border-radius: 50%;
    background: currentColor;
  }
  .dot.good {
    color: var(--good);
  }
  .dot.warning {
    color: var(--warning-edge);
  }
  .dot.critical {
    color: var(--critical-edge);
    border-radius: 2px;
    transform: rotate(45deg);
  }
  .about {
    display: flex;
    flex-wrap: wrap;
    gap: 0 18px;
    margin-left: auto;
    color: var(--soft);
    font-size: 13px;
  }

  /* What to do. */
  .alerts {
    gap: 10px;
  }
  .alert {
    display: grid;
    grid-template-columns: 84px minmax(0, 1fr);
    gap: 6px 12px;
    align-items: baseline;
    padding: 12px 20px 13px 16px;
    border: 1px solid var(--edge);
    border-left: 4px solid var(--warning-edge);
    border-radius: 10px;
    background: var(--card);
  }
  .alert.critical {
    border-left-color: var(--critical-edge);
    background: var(--critical-ground);
  }
  .alert .chip {
    justify-self: start;
  }
  .items {
    display: grid;
    gap: 8px;
    overflow-wrap: anywhere;
  }
  .alert h3 {
    font-size: 15px;
    font-weight: 600;
  }
  .alert p {
    max-width: 110ch;
  }
  .alert summary {
    color: var(--ink);
    text-decoration: underline;
    text-underline-offset: 3px;
  }
  .alert details[open] > summary {
    margin-bottom: 8px;
  }

  .hints {
    padding: 11px 20px;
    border: 1px solid var(--edge);
    border-radius: 10px;
  }
  .hints ul {
    display: grid;
    grid-template-columns: repeat(3, minmax(0, 1fr));
    gap: 8px 28px;
    margin-top: 8px;
  }
  .hints h3 {
    font-size: 14px;
    font-weight: 600;
  }
  .hints p {
    color: var(--soft);
    font-size: 13px;
  }

  /* The figures. */
  .tiles {
    grid-template-columns: repeat(5, minmax(0, 1fr));
  }
  .tile,
  .card {
    border: 1px solid var(--edge);
    border-radius: 10px;
    background: var(--card);
    padding: 16px 20px;
  }
  .tile dt {
    color: var(--soft);
    font-size: 13px;
    font-weight: 550;
  }
  .figure {
    height: 38px;
    font-size: 30px;
    font-weight: 620;
    line-height: 1.25;
    letter-spacing: -0.02em;
    white-space: nowrap;
  }
  .figure .unit {
    color: var(--soft);
    font-size: 16px;
    font-weight: 500;
    letter-spacing: 0;
  }
  .figure .words {
    font-size: 22px;
    letter-spacing: -0.01em;
  }
  .tile .refused {
    color: var(--critical);
    font-weight: 600;
  }

  .card {
    display: flex;
    flex-direction: column;
    gap: 12px;
  }
  .card > .head {
    display: flex;
    flex-wrap: wrap;
    align-items: baseline;
    justify-content: space-between;
    gap: 0 12px;
  }
  h2 {
    font-size: 15px;
    font-weight: 650;
  }
  .empty {
    color: var(--soft);
  }
  /* Cards are as high as what is in them; the last of a stack fills what is left. */
  .stacks-of-cards {
    grid-template-columns: repeat(3, minmax(0, 1fr));
  }
  .stacks-of-cards > * {
    display: flex;
    flex-direction: column;
    gap: 16px;
  }
  .stacks-of-cards > * > :last-child {
    flex: 1;
  }

  /* Charts. */
  .charts {
    grid-template-columns: repeat(2, minmax(0, 1fr));
    gap: 20px 32px;
  }
  figcaption {
    display: flex;
    flex-wrap: wrap;
    align-items: baseline;
    justify-content: space-between;
    gap: 0 16px;
    margin-bottom: 10px;
  }
  h3 {
    font-size: 14px;
    font-weight: 550;
  }
  .legend {
    display: flex;
    gap: 16px;
    font-size: 13px;
  }
  .legend div {
    display: flex;
    align-items: baseline;
    gap: 6px;
  }
  .legend div::before {
    content: '';
    width: 14px;
    height: 3px;
    border-radius: 2px;
    align-self: center;
    background: var(--line);
  }
  .legend dt {
    color: var(--soft);
  }
  .legend dd {
    min-width: 5.5ch;
    font-weight: 600;
  }
  .accepted,
  .p50 {
    --line: var(--accent);
  }
  .refused {
    --line: var(--critical-edge);
  }
  .p99 {
    --line: var(--second);
  }
  .plot {
    display: grid;
    grid-template: 170px auto / 52px minmax(0, 1fr);
    gap: 6px 10px;
  }
  .scale,
  .times {
    display: flex;
    justify-content: space-between;
    color: var(--soft);
    font-size: 12px;
    line-height: 1;
  }
  .scale {
    flex-direction: column;
    text-align: right;
    margin: -6px 0;
  }
  .times {
    grid-column: 2;
  }
  .times span {
    width: 0;
    display: flex;
    justify-content: center;
    white-space: nowrap;
  }
  .times span:first-child {
    justify-content: flex-start;
  }
  .times span:last-child {
    justify-content: flex-end;
  }
  .drawing {
    cursor: crosshair;
    touch-action: pan-y;
  }
  .drawing svg {
    display: block;
    width: 100%;
    height: 100%;
    overflow: visible;
  }
  .drawing path,
  .drawing line {
    fill: none;
    vector-effect: non-scaling-stroke;
    stroke: var(--line);
    stroke-width: 1.5;
    stroke-linejoin: round;
  }
  .drawing .grid {
    stroke: var(--grid);
    stroke-width: 1;
  }
  .drawing .mark {
    stroke: var(--soft);
    stroke-width: 1;
  }
  .drawing path.accepted {
    fill: var(--accent-area);
  }
  .drawing path.refused {
    fill: var(--critical-ground);
  }
  summary {
    width: fit-content;
    color: var(--soft);
    font-size: 13px;
    cursor: pointer;
  }
  summary:hover,
  a:hover {
    color: var(--ink);
  }

  /* Names and values. */
  .facts,
  .checks {
    display: grid;
    gap: 9px;
  }
  .facts > div,
  .checks li {
    display: grid;
    grid-template-columns: 120px minmax(0, 1fr);
    gap: 0 16px;
    align-items: baseline;
  }
  .checks li {
    grid-template-columns: minmax(0, 1fr) auto;
  }
  .facts dt {
    color: var(--soft);
  }
  dd > .more,
  td > .more,
  li .more {
    display: block;
  }
  .chip {
    display: inline-block;
    padding: 1px 9px;
    border-radius: 99px;
    font-size: 12.5px;
    font-weight: 600;
    line-height: 1.5;
    white-space: nowrap;
  }
  .chip.good {
    color: var(--good);
    background: var(--good-ground);
  }
  .chip.idle {
    color: var(--soft);
    background: var(--idle-ground);
  }
  .chip.warning {
    color: var(--warning);
    background: var(--warning-ground);
  }
  .chip.critical {
    color: var(--critical);
    background: var(--critical-ground);
  }
  .alert .chip.critical {
    color: #ffffff;
    background: #b3201a;
  }
  .bar {
    display: block;
    width: 100%;
    height: 8px;
  }
  .bar .whole {
    fill: var(--idle-ground);
  }
  .bar .part {
    fill: var(--accent);
  }
  .bar.warning .part {
    fill: var(--warning-edge);
  }
  .bar.critical .part {
    fill: var(--critical-edge);
  }
  #refused .bar .part {
    fill: var(--critical-edge);
  }
  .metered {
    display: grid;
    grid-template-columns: minmax(0, 1fr) auto;
    align-items: center;
    gap: 12px;
  }

  /* Tables. */
  table {
    width: 100%;
    border-collapse: collapse;
    position: relative;
  }
  th,
  td {
    padding: 7px 12px;
    text-align: left;
    vertical-align: top;
    border-bottom: 1px solid var(--grid);
  }
  th:first-child,
  td:first-child {
    padding-left: 0;
  }
  th:last-child,
  td:last-child {
    padding-right: 0;
  }
  tbody tr:last-child > * {
    border-bottom: 0;
  }
  th {
    font-weight: 400;
  }
  thead th {
    color: var(--soft);
    font-size: 13px;
    font-weight: 550;
    white-space: nowrap;
    border-bottom-color: var(--edge);
  }
  .number {
    text-align: right;
    white-space: nowrap;
  }
  .date {
    white-space: nowrap;
  }
  td.share {
    width: 36%;
  }
  th code {
    white-space: nowrap;
  }
  td.share > .bar {
    display: inline-block;
    width: calc(100% - 64px);
    vertical-align: middle;
  }
  td.share > span {
    display: inline-block;
    width: 64px;
    text-align: right;
  }
  td.name {
    max-width: 30ch;
  }
  td.name bdi {
    display: -webkit-box;
    -webkit-box-orient: vertical;
    -webkit-line-clamp: 2;
    line-clamp: 2;
    overflow: hidden;
    overflow-wrap: anywhere;
  }
  .scroll {
    max-height: 560px;
    overflow: auto;
    position: relative;
    overscroll-behavior: contain;
  }
  .scroll thead th {
    position: sticky;
    top: 0;
    background: var(--card);
    box-shadow: inset 0 -1px var(--edge);
  }

  footer {
    display: flex;
    flex-wrap: wrap;
    justify-content: space-between;
    gap: 4px 24px;
    padding: 20px 0 0;
    color: var(--soft);
    font-size: 13px;
  }
  footer nav {
    display: flex;
    flex-wrap: wrap;
    gap: 4px 18px;
  }
  a {
    color: inherit;
    text-underline-offset: 3px;
  }

  /* Old values stay legible, and do not look as if they were new. */
  .stale main {
    filter: grayscale(1);
  }
  .stale .card,
  .stale .tile,
  .stale .alert,
  .stale .hints {
    border-style: dashed;
  }
  .stale main,
  .stale .figure {
    color: var(--soft);
  }

  @media (max-width: 1100px) {
    .tiles {
      grid-template-columns: repeat(6, minmax(0, 1fr));
    }
    .tile {
      grid-column: span 2;
    }
    .tile:nth-child(n + 4) {
      grid-column: span 3;
    }
    .stacks-of-cards {
      grid-template-columns: repeat(2, minmax(0, 1fr));
    }
    .stacks-of-cards > :last-child {
      flex-direction: row;
      grid-column: 1 / -1;
    }
    .stacks-of-cards > :last-child > * {
      flex: 1;
    }
    .charts {
      grid-template-columns: minmax(0, 1fr);
    }
  }
  @media (max-width: 1000px) {
    td.share > .bar {
      display: none;
    }
    .share {
      text-align: right;
    }
    td.share > span {
      width: auto;
    }
    .stacks,
    .stacks tbody {
      display: block;
    }
    .stacks thead {
      display: none;
    }
    .stacks tr {
      display: grid;
      grid-template-columns: repeat(4, minmax(0, 1fr));
      gap: 4px 14px;
      padding: 10px 0;
      border-bottom: 1px solid var(--edge);
    }
    .stacks tbody tr:last-child {
      border-bottom: 0;
    }
    .stacks th,
    .stacks td {
      padding: 0;
      border: 0;
      text-align: left;
      max-width: none;
    }
    .stacks td:empty {
      display: none;
    }
    .stacks td::before {
      content: attr(data-column);
      display: block;
      color: var(--soft);
      font-size: 12px;
    }
    .stacks th {
      grid-column: 1 / -1;
      font-weight: 600;
    }
  }
  @media (max-width: 700px) {
    body {
      font-size: 14px;
    }
    .page {
      padding: 0 10px 16px;
    }
    main,
    .stacks-of-cards,
    .stacks-of-cards > * {
      grid-template-columns: minmax(0, 1fr);
      gap: 8px;
    }
    .stacks-of-cards > :last-child {
      flex-direction: column;
    }
    .more,
    .note,
    .hints p,
    summary {
      font-size: 12.5px;
    }

    .top {
      gap: 4px 12px;
      padding: 12px 2px 10px;
    }
    .top .status {
      width: 100%;
      order: 3;
    }
    .about {
      gap: 0 10px;
    }
    .about span:nth-child(2) {
      display: none;
    }

    .alerts,
    .charts {
      gap: 8px;
    }
    .alert {
      grid-template-columns: minmax(0, 1fr);
      padding: 10px 12px;
    }
    .hints {
      padding: 8px 12px;
    }
    .hints ul {
      grid-template-columns: minmax(0, 1fr);
      gap: 6px;
      margin-top: 6px;
    }

    /* The figures share a card: a border of their own each would take as much room again. */
    .tiles {
      grid-template-columns: repeat(2, minmax(0, 1fr));
      gap: 0;
      border: 1px solid var(--edge);
      border-radius: 10px;
      background: var(--card);
    }
    .tile,
    .tile:nth-child(n + 4) {
      grid-column: auto;
      padding: 8px 12px 9px;
      border: 0;
      border-radius: 0;
      background: none;
    }
    .tile:nth-child(n + 3) {
      border-top: 1px solid var(--grid);
    }
    .tile:nth-child(even) {
      border-left: 1px solid var(--grid);
    }
    .tile:last-child {
      display: grid;
      grid-column: 1 / -1;
      grid-template-columns: auto auto;
      justify-content: space-between;
      align-items: baseline;
      column-gap: 12px;
    }
    .tile:last-child .more {
      grid-column: 1 / -1;
      display: none;
    }
    .figure {
      height: 28px;
      font-size: 22px;
    }
    .figure .unit {
      font-size: 14px;
    }
    .figure .words {
      font-size: 18px;
    }

    .card {
      gap: 8px;
      padding: 10px 12px;
    }
    .facts,
    .checks {
      gap: 5px;
    }
    .facts > div {
      grid-template-columns: 108px minmax(0, 1fr);
      gap: 0 12px;
    }
    .facts dd > .more {
      display: inline;
    }
    .facts dd > .more::before {
      content: '\2002';
    }
    .facts dd > .metered + .more::before {
      content: none;
    }
    figcaption {
      margin-bottom: 8px;
    }
    .legend {
      gap: 10px;
      font-size: 12.5px;
    }
    .legend dd {
      min-width: 4.5ch;
    }
    .plot {
      grid-template: 84px auto / 44px minmax(0, 1fr);
      gap: 4px 8px;
    }
    th,
    td {
      padding: 4px 8px;
    }
    .scroll {
      max-height: 70vh;
    }
    .stacks tr {
      grid-template-columns: repeat(3, minmax(0, 1fr));
      gap: 3px 12px;
      padding: 7px 0;
    }
    .stacks td:has(> .zero) {
      display: none;
    }
    .stacks th {
      grid-column: 1 / 3;
    }
    .stacks .state {
      grid-area: 1 / 3;
      text-align: right;
    }
    .stacks .state::before {
      content: none;
    }
    .stacks .name + .name {
      grid-column: 2 / -1;
    }
    .stacks .date {
      white-space: normal;
    }

    footer {
      padding-top: 12px;
    }
  }
  @media (prefers-reduced-motion: no-preference) {
    .bar .part {
      transition: width 0.4s;
    }
  }
  @media (forced-colors: active) {
    .dot,
    .legend div::before,
    .bar,
    .drawing path {
      forced-color-adjust: none;
    }
  }
`;
