import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { EXIT } from '../../packages/collector/src/commands/exit-codes.js';
import { readConfig } from '../../packages/collector/src/config.js';
import { LONGEST_STOP_S, ROOT, textOf } from './repository.js';

const UNIT = 'deploy/systemd/collector.service';
const hasAnalyze = spawnSync('systemd-analyze', ['--version']).status === 0;

/** The values of each setting, by name; a unit may say one more than once. */
const settings = new Map<string, string[]>();
for (const line of textOf(UNIT).split('\n')) {
  const [, name, value] = /^([A-Z]\w*)=(.*)$/.exec(line) ?? [];
  if (name !== undefined) settings.set(name, [...(settings.get(name) ?? []), value ?? '']);
}
const one = (name: string) => settings.get(name)?.join(' | ');

describe('[R-1400] the systemd unit', () => {
  test('is told by the collector how it goes, from whatever process says it', () => {
    expect([one('Type'), one('NotifyAccess'), one('WatchdogSec')]).toEqual(['notify', 'all', '60']);
  });

  test('starts it again, but not when no start can fix what is wrong', () => {
    expect(one('Restart')).toBe('on-failure');
    expect(one('RestartPreventExitStatus')).toBe(`${EXIT.usage} ${EXIT.damaged}`);
    expect(one('StartLimitIntervalSec')).toBe('0');
  });

  test('waits as long as a start and an orderly stop take', () => {
    expect(one('TimeoutStartSec')).toBe('infinity');
    expect(Number(one('TimeoutStopSec'))).toBeGreaterThan(LONGEST_STOP_S);
  });

  test('checks the configuration before it has it read again', () => {
    const [check, hangUp] = settings.get('ExecReload') ?? [];
    expect(check).toContain('serve --check');
    expect(hangUp).toBe('/bin/kill -HUP $MAINPID');
  });

  test('sets variables that the collector takes, and a file that it reads', () => {
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

  test('lets V8 make machine code', () => {
    expect(one('MemoryDenyWriteExecute')).toBe('no');
  });

  test.skipIf(!hasAnalyze)('is understood by systemd, and leaves little open', () => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-unit-'));
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
    const unit = path.join(directory, 'collector.service');
    // It looks whether the programs are there, which on this host are elsewhere.
    const here = textOf(UNIT)
      .replaceAll('/usr/bin/node', process.execPath)
      .replace(/^(RequiresMountsFor|User|Group)=.*$/gm, '');
    fs.writeFileSync(unit, here);
    const verified = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' });
    expect(verified.stdout + verified.stderr).not.toMatch(/Unknown|Failed to parse|ignoring/i);
    const secure = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', unit]);
    expect(secure.status).toBe(0);
  });
});
