import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { EXIT } from '../../packages/collector/src/commands/exit-codes.js';
import { readConfig } from '../../packages/collector/src/config.js';
import { OPEN } from '../../packages/collector/src/readers.js';
import { configFrom, LONGEST_STOP_S, ROOT, textOf } from './repository.js';

const UNIT = 'deploy/systemd/collector.service';
const VIEWER = 'deploy/systemd/collector-viewer.service';
const DROP_IN = 'deploy/systemd/collector-read-group.conf';
const hasAnalyze = spawnSync('systemd-analyze', ['--version']).status === 0;

/** The values of each setting of a unit, by name; a unit may have one more than once. */
function settingsOf(file: string): Map<string, string[]> {
  const settings = new Map<string, string[]>();
  for (const line of textOf(file).split('\n')) {
    const [, name, value] = /^([A-Z]\w*)=(.*)$/.exec(line) ?? [];
    if (name !== undefined) settings.set(name, [...(settings.get(name) ?? []), value ?? '']);
  }
  return settings;
}

const settings = settingsOf(UNIT);
const one = (name: string) => settings.get(name)?.join(' | ');

/** Checks a unit by systemd. @param more what a drop-in adds. */
function expectUnderstood(file: string, more = ''): void {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-unit-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  const unit = path.join(directory, path.basename(file));
  // It checks that the programs exist, which are elsewhere on this host.
  const here = `${textOf(file)}\n${more}`
    .replaceAll('/usr/bin/node', process.execPath)
    .replace(/^(RequiresMountsFor|User|Group|SupplementaryGroups|EnvironmentFile)=.*$/gm, '');
  fs.writeFileSync(unit, here);
  const verified = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' });
  expect(verified.stdout + verified.stderr).not.toMatch(/Unknown|Failed to parse|ignoring/i);
  const secure = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', unit]);
  expect(secure.status).toBe(0);
}

describe('[R-1400] the systemd unit', () => {
  test('gets notifications from every process of the collector, with a watchdog', () => {
    expect([one('Type'), one('NotifyAccess'), one('WatchdogSec')]).toEqual(['notify', 'all', '60']);
  });

  test('restarts it, except after errors that a restart cannot fix', () => {
    expect(one('Restart')).toBe('on-failure');
    expect(one('RestartPreventExitStatus')).toBe(`${EXIT.usage} ${EXIT.damaged}`);
    expect(one('StartLimitIntervalSec')).toBe('0');
  });

  test('waits as long as a start and an orderly stop take', () => {
    expect(one('TimeoutStartSec')).toBe('infinity');
    expect(Number(one('TimeoutStopSec'))).toBeGreaterThan(LONGEST_STOP_S);
  });

  test('checks the configuration before a reload', () => {
    const [check, hangUp] = settings.get('ExecReload') ?? [];
    expect(check).toContain('serve --check');
    expect(hangUp).toBe('/bin/kill -HUP $MAINPID');
  });

  test('sets variables of the collector, and a file that it reads', () => {
    expect(settings.get('Environment')).toEqual([
      'COLLECTOR_CONFIG=/etc/collector/collector.json',
      'MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072',
    ]);
    const { config } = readConfig({ config: path.join(ROOT, 'deploy/systemd/collector.json') }, {});
    const places = [config?.dataDir, config?.encryptionKeys];
    expect(one('RequiresMountsFor')?.split(' ')).toEqual(places);
    expect(one('StateDirectory')?.split(' ')).toEqual(places.map((place = '') => path.basename(place)));
  });

  test('[R-1400] may write where the guide puts the keys of payloads', () => {
    const { config } = readConfig({ config: path.join(ROOT, 'deploy/systemd/collector.json') }, {});
    const guide = textOf('docs/guide/encryption.md');
    const [, named = ''] = /"encryption-keys": "([^"]+)"/.exec(guide) ?? [];
    const writable = [
      ...(one('StateDirectory') ?? '').split(' ').map((name) => `/var/lib/${name}`),
      ...(one('ReadWritePaths') ?? '').split(' ').map((place) => place.replace(/^-/, '')),
    ];
    expect(named.split(',')).toHaveLength(2);
    expect(named.split(',')[0]).toBe(config?.encryptionKeys);
    for (const directory of named.split(',')) expect(writable).toContain(directory);
  });

  test('starts the file that is deployed', () => {
    const [, ...flags] = one('ExecStart')?.split(' ') ?? [];
    expect(flags.splice(0, 2)).toEqual(['--disable-sigusr1', '--max-semi-space-size=16']);
    const [main = ''] = flags;
    const within = path.relative('/opt/collector', main);
    expect(within).toBe('packages/collector/dist/main.js');
  });

  test('keeps the first key out of the journal, and events out of core dumps', () => {
    expect(one('StandardOutput')).toBe('null');
    expect(one('LimitCORE')).toBe('0');
  });

  test('allows V8 to generate machine code', () => {
    expect(one('MemoryDenyWriteExecute')).toBe('no');
  });

  test.skipIf(!hasAnalyze)('is valid for systemd, with low exposure', () => {
    expectUnderstood(UNIT);
  });
});

describe('[R-2045] the unit of the viewer, and the drop-in that opens files to it', () => {
  const viewer = settingsOf(VIEWER);
  const dropIn = settingsOf(DROP_IN);
  const of = (name: string) => viewer.get(name)?.join(' | ');
  const group = of('SupplementaryGroups') ?? '';

  test('the viewer is a user of its own in the group that the collector opens files to', () => {
    expect([of('User'), of('Group'), group]).toEqual([
      'collector-viewer',
      'collector-viewer',
      'collector-read',
    ]);
    expect(dropIn.get('Environment')).toEqual([`COLLECTOR_READ_GROUP=${group}`]);
    const [[name = '', value = ''] = []] = (dropIn.get('Environment') ?? []).map((each) => each.split('='));
    expect(configFrom({ [name]: value }).readGroup).toBe(group);
    const users = textOf('deploy/systemd/collector.sysusers');
    for (const line of [`g ${group} -`, `m collector ${group}`, `m collector-viewer ${group}`])
      expect(users.split('\n')).toContain(line);
    expect(users).toMatch(/^u collector-viewer - /m);
  });

  test('systemd creates the directories with the group and the mode that the collector sets', () => {
    expect(dropIn.get('Group')).toEqual([group]);
    // Files for the collector alone, such as its configuration, keep their group.
    expect(dropIn.get('SupplementaryGroups')).toEqual([one('Group')]);
    expect(dropIn.get('StateDirectoryMode')).toEqual([OPEN.entered.toString(8)]);
    expect(dropIn.get('RestrictSUIDSGID')).toEqual(['no']);
  });

  test('the viewer may read where the collector writes, and writes only its own state', () => {
    const readable = (of('ReadOnlyPaths') ?? '').split(/[ |]+/).map((place) => place.replace(/^-/, ''));
    const written = [...(one('StateDirectory') ?? '').split(' ').map((name) => `/var/lib/${name}`)];
    const mounted = (one('ReadWritePaths') ?? '').split(' ').map((place) => place.replace(/^-/, ''));
    expect(readable).toEqual([...written, ...mounted]);
    expect([of('StateDirectory'), of('StateDirectoryMode'), of('ProtectSystem')]).toEqual([
      'collector-viewer',
      '0700',
      'strict',
    ]);
    expect(of('ReadWritePaths')).toBeUndefined();
    const [command = ''] = viewer.get('ExecStart') ?? [];
    expect(command).toContain(' --data-dir /var/lib/collector ');
    expect(command).toContain(' --state-dir /var/lib/collector-viewer ');
    expect(command).toContain(' --host 127.0.0.1 ');
  });

  test('is hardened like the unit of the collector', () => {
    const hardening = [...settings].filter(([name]) =>
      /^(NoNew|Capab|Ambient|Protect|Private|Proc|Restrict(?!.*Status)|Remove|Lock|Keyring|SystemCall|Memory|LimitCORE)/.test(
        name,
      ),
    );
    expect(hardening.length).toBeGreaterThan(25);
    for (const [name, values] of hardening) expect([name, viewer.get(name)]).toEqual([name, values]);
  });

  test('variables of the unit are in the example of its environment, and are options of the viewer', () => {
    const [command = ''] = viewer.get('ExecStart') ?? [];
    const named = [...command.matchAll(/\$(\w+)/g)].map(([, name]) => name);
    const example = [...textOf('deploy/systemd/collector-viewer.env').matchAll(/^(\w+)=(.*)$/gm)];
    expect(example.map(([, name]) => name)).toEqual(named);
    const options = example.flatMap(([, , value = '']) => value.split(' '));
    const names = options.filter((word) => word.startsWith('--'));
    expect(names).toEqual(['--auth', '--url', '--client-id', '--client-secret', '--kek']);
  });

  test.skipIf(!hasAnalyze)('are valid for systemd, with low exposure', () => {
    expectUnderstood(VIEWER);
    expectUnderstood(UNIT, textOf(DROP_IN));
  });
});
