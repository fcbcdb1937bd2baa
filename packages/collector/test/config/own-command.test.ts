import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { inQuotes, ownCommand } from '../../src/config.js';
import { scratchDirectory } from '../access/scratch-keys.js';

const started = (more: Partial<Parameters<typeof ownCommand>[0]> = {}) => ({
  ...{
    env: {},
    script: '/opt/c/packages/collector/dist/main.js',
    node: process.execPath,
    directory: '/opt/c',
  },
  ...more,
});
const byNpm = (from: string) => ({
  npm_lifecycle_script: 'node packages/collector/dist/main.js',
  INIT_CWD: from,
});

describe('[R-725] the command is typed as', () => {
  test.skipIf(process.platform === 'win32')('the wrapper of a checkout, by its path from elsewhere', () => {
    const root = scratchDirectory();
    const script = path.join(root, 'packages/collector/dist/main.js');
    expect(ownCommand(started({ script, directory: root }))).not.toContain('./collector');
    fs.writeFileSync(path.join(root, 'collector'), '');
    expect(ownCommand(started({ script, directory: root }))).toBe('./collector');
    expect(ownCommand(started({ script, directory: '/' }))).toBe(path.join(root, 'collector'));
    expect(ownCommand(started({ script, directory: root, env: byNpm(root) }))).toBe('./collector');
    expect(ownCommand(started({ script, directory: root, env: byNpm('/home') }))).toMatch(/^npm --prefix/);
    expect(ownCommand(started({ script: '/usr/bin/collector', env: { PATH: '/usr/bin' } }))).toBe(
      'collector',
    );
  });

  test('an npm script, also from elsewhere', () => {
    expect(ownCommand(started({ env: byNpm('/opt/c/docs') }))).toBe('npm run --silent collector --');
    expect(ownCommand(started({ env: byNpm('/home') }))).toBe(
      'npm --prefix /opt/c run --silent collector --',
    );
  });

  test('its name where it is on the PATH, and otherwise a path', () => {
    const script = '/usr/local/bin/collector';
    expect(ownCommand(started({ script, env: { PATH: '/bin:/usr/local/bin' } }))).toBe('collector');
    expect(ownCommand(started({ script, env: { PATH: '/bin' } }))).toBe(script);
    expect(ownCommand(started({ script, env: { npm_command: 'exec' } }))).toBe('npx collector');
  });

  test('a file run by Node, with the Node on the PATH or its path', () => {
    const bin = scratchDirectory();
    fs.symlinkSync(process.execPath, path.join(bin, 'node'));
    const script = "/it's here/main.js";
    expect(ownCommand(started({ script, env: { PATH: bin } }))).toBe(
      String.raw`node '/it'\''s here/main.js'`,
    );
    expect(ownCommand(started({ env: { PATH: '/nowhere' } }))).toBe(
      `${inQuotes(process.execPath)} /opt/c/packages/collector/dist/main.js`,
    );
  });
});
