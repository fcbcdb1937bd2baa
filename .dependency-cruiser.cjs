// The rooms of the collector and the doors between them (docs/internals/architecture.md, "Areas").
// Anything that is not a door listed here fails the build. Below them, those of the client.
const room = (name) => `^packages/collector/src/${name}/`;
// What every room may ask; they import nothing but each other.
const ASKED_BY_ALL_ROOMS =
  '^packages/collector/src/(clock|files|json-text|loopback|numbers|optional-packages|programs|quantity|readers|shared-index|stray-signals|system-code|unusable|unwritten-database)\\.ts$';
const STORE_DOORS =
  '^packages/collector/src/store/(open|open-to-read|open-to-write|open-to-audit|open-to-copy|open-shared|open-keys|open-access-log|open-state)\\.ts$';
// The files that define a command of the collector.
const COMMANDS =
  '^packages/collector/src/commands/(backup|check-proof|encryption-keys|events|import|keys|names|proof|restore|runs|signing-key|who-looked|lifecycle/(erase|hold|retention)|records/records|serve/serve|verify/(doctor|verify))\\.ts$';
// `store` stands for the contracts of a store, never for a driver.
const only = (from, to) => ({
  name: `${from}-imports-only`,
  severity: 'error',
  comment: `${from}/ may import ${['protocol', ...to].join(', ')} and nothing else of ours`,
  from: { path: room(from) },
  to: {
    path: '^packages/',
    pathNot: [
      '/node_modules/',
      '^packages/protocol/',
      ASKED_BY_ALL_ROOMS,
      room(from),
      ...to.map((t) => (t === 'store' ? '^packages/collector/src/store/(contract/)?[a-z-]+\\.ts$' : room(t))),
    ],
  },
});
// What every room of the client may ask; it imports the protocol alone.
const ASKED_BY_ALL = '^packages/client/src/hostile-values\\.ts$';
const clientRoom = (name) => `^packages/client/src/${name}/`;
const clientOnly = (from, to, contracts = []) => ({
  name: `client-${from}-imports-only`,
  severity: 'error',
  comment: `the client's ${from}/ may import ${['protocol', ...to, ...contracts].join(', ')} and nothing else of ours`,
  from: { path: clientRoom(from) },
  to: {
    path: '^packages/',
    pathNot: [
      '/node_modules/',
      '^packages/protocol/',
      ASKED_BY_ALL,
      clientRoom(from),
      ...to.map(clientRoom),
      ...contracts.map((name) => `^packages/client/src/${name}\\.ts$`),
    ],
  },
});

module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-orphans', severity: 'error', from: { orphan: true, pathNot: ['\\.d\\.ts$'] }, to: {} },
    { name: 'not-to-unresolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
    {
      name: 'not-to-dev-dependencies',
      severity: 'error',
      from: { path: '^(packages|tools)/[^/]+/src/' },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'],
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'protocol-imports-nothing',
      severity: 'error',
      from: { path: '^packages/protocol/src/' },
      to: { pathNot: ['^packages/protocol/'] },
    },
    only('store', ['tree', 'privacy']),
    only('access', ['store']),
    only('privacy', []),
    only('ledger', ['tree', 'privacy', 'store']),
    only('tree', []),
    only('ingest', ['ledger', 'access']),
    only('operate', ['access', 'ingest', 'ledger', 'otlp', 'tree']),
    {
      name: 'console-imports-preact-alone',
      severity: 'error',
      comment: 'operate/console/ runs in a browser too, where preact and htm are served beside it',
      from: { path: room('operate/console') },
      to: { pathNot: [room('operate/console'), '^node_modules/(preact|htm)/'] },
    },
    only('otlp', ['access', 'ingest', 'ledger']),
    only('importing', ['access', 'ledger', 'store']),
    only('sending', []),
    only('records', ['store']),
    only('config', ['store']),
    only('catalogue', ['privacy', 'records', 'store']),
    only('replica', ['privacy', 'store', 'tree']),
    clientOnly('spool', []),
    clientOnly('sending', [], ['spool/spool']),
    clientOnly('content', []),
    {
      name: 'instrument-imports-the-client-and-what-spans-say',
      severity: 'error',
      comment:
        'by its doors, and no library that it captures: their types differ by version, so an import would narrow the versions',
      from: { path: '^packages/instrument/src/' },
      to: {
        path: '.',
        pathNot: [
          '^packages/instrument/src/',
          '^packages/client/(src|dist)/(index|hostile-values)\\.(d\\.)?ts$',
          '^packages/protocol/(src|dist)/spans/index\\.(d\\.)?ts$',
        ],
        dependencyTypesNot: ['core'],
      },
    },
    {
      name: 'the-client-imports-the-protocol-alone',
      severity: 'error',
      from: { path: '^packages/client/src/' },
      to: { path: '^(packages|tools)/', pathNot: ['/node_modules/', '^packages/(client|protocol)/'] },
    },
    {
      name: 'the-collector-knows-no-client',
      severity: 'error',
      from: { path: '^packages/collector/src/' },
      to: { path: '^packages/(client|instrument)/' },
    },
    {
      name: 'the-spool-by-its-door',
      severity: 'error',
      comment: 'outside of spool/, only the command that looks into a spool may know how it lies on the disk',
      from: { path: '^packages/client/src/', pathNot: ['^packages/client/src/(spool|cli)/'] },
      to: {
        path: clientRoom('spool'),
        pathNot: ['^packages/client/src/spool/(spool|disk-spool|crash-flush)\\.ts$'],
      },
    },
    {
      name: 'nobody-imports-the-cli-of-the-client',
      severity: 'error',
      from: { path: '^packages/client/src/', pathNot: clientRoom('cli') },
      to: { path: clientRoom('cli') },
    },
    {
      name: 'only-doors-name-a-driver',
      severity: 'error',
      comment: 'what a driver is made of is known to itself alone; all others open a store by its doors',
      from: {
        path: '^packages/collector/src/',
        pathNot: ['^packages/collector/src/store/embedded/', STORE_DOORS],
      },
      to: { path: '^packages/collector/src/store/embedded/' },
    },
    {
      name: 'only-commands-open-a-store',
      severity: 'error',
      from: {
        path: '^packages/collector/src/',
        pathNot: ['^packages/collector/src/(commands|replica)/', STORE_DOORS],
      },
      to: { path: STORE_DOORS },
    },
    {
      name: 'the-collector-imports-no-optional-package',
      severity: 'error',
      comment: 'src/optional-packages.ts loads them where they are installed',
      from: { path: '^packages/(protocol|collector)/src/' },
      to: { path: '^(packages/(exports|postgres|report|viewer)|tools)/' },
    },
    {
      name: 'optional-packages-import-the-collector-alone',
      severity: 'error',
      from: { path: '^(packages/(exports|postgres|report)|tools/[^/]+)/src/' },
      to: {
        path: '^(packages|tools)/',
        pathNot: ['/node_modules/', '^packages/(protocol|collector)/', '^$1/'],
      },
    },
    {
      name: 'nobody-imports-the-viewer',
      severity: 'error',
      comment: 'it is a program of its own: no part of the collector starts or loads it',
      from: { path: '^(packages|tools)/', pathNot: ['^packages/viewer/'] },
      to: { path: '^packages/viewer/' },
    },
    {
      name: 'the-viewer-imports-the-collector-and-the-report',
      severity: 'error',
      from: { path: '^packages/viewer/src/' },
      to: {
        path: '^(packages|tools)/',
        pathNot: ['/node_modules/', '^packages/(protocol|collector|report|viewer)/'],
      },
    },
    {
      name: 'no-command-imports-a-command',
      severity: 'error',
      comment: 'program.ts alone loads commands; what two of them need stands in a file of its own',
      from: {
        path: '^(packages/[^/]+|tools/[^/]+)/src/',
        pathNot: ['^packages/collector/src/commands/program\\.ts$'],
      },
      to: { path: COMMANDS },
    },
    {
      name: 'the-folder-of-a-command-is-its-own',
      severity: 'error',
      from: { path: room('commands'), pathNot: [room('commands/serve'), '/commands/program\\.ts$'] },
      to: { path: room('commands/serve') },
    },
    {
      name: 'nobody-imports-commands',
      severity: 'error',
      from: { path: '^packages/collector/src/', pathNot: ['^packages/collector/src/(commands/|main\\.ts$)'] },
      to: { path: room('commands') },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: require('node:path').resolve(__dirname, 'packages/collector/tsconfig.json') },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'types', 'node', 'default'],
    },
  },
};
