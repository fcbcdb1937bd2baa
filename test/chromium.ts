/**
 * A browser for tests: the Chromium that comes as an npm package, driven by Playwright. It needs no download of
 * its own and is unpacked once into node_modules/.cache, with the libraries that the package brings
 * for systems that lack them. The soak (bench/soak) has Node read this file as it is, without a compiler.
 */
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress } from 'node:zlib';
import { chromium } from 'playwright-core';
import type { Browser } from 'playwright-core';

const require = createRequire(import.meta.url);

const PACKAGE = path.join(path.dirname(require.resolve('@sparticuz/chromium')), '..');

/**
 * Where the browser is unpacked to: a directory of its own, as the browser puts files beside itself. Unpacked here and
 * not by the package, which two test files at a time would make run a half-written file.
 */
async function unpacked(
  name: string,
  unpack: (archive: string, to: string) => Promise<void>,
): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(path.join(PACKAGE, 'package.json'), 'utf8'));
  const { version } = manifest as { version: string };
  const directory = path.join(import.meta.dirname, `../node_modules/.cache/chromium-${version}`);
  const target = path.join(directory, name);
  if (existsSync(target)) return target;
  await mkdir(directory, { recursive: true });
  const partial = `${target}.${randomUUID()}`;
  await unpack(path.join(PACKAGE, 'bin', name === 'chromium' ? 'chromium.br' : `${name}.tar.br`), partial);
  try {
    await rename(partial, target);
  } catch (error) {
    // Another test file was quicker with a directory.
    if (!existsSync(target)) throw error;
    await rm(partial, { recursive: true });
  }
  return target;
}

function decompress(archive: string, to: string): Promise<void> {
  const target = createWriteStream(to, { mode: 0o700 });
  return pipeline(createReadStream(archive), createBrotliDecompress(), target);
}

async function extract(archive: string, to: string): Promise<void> {
  await mkdir(to);
  await decompress(archive, `${to}.tar`);
  const { status } = spawnSync('tar', ['-xf', `${to}.tar`, '-C', to]);
  await rm(`${to}.tar`);
  if (status !== 0) throw new Error(`tar could not unpack ${archive}`);
}

/**
 * Starts a browser without a window; the caller closes it. The package is for Linux on x64; on other machines it
 * is the Chrome that is installed.
 */
export async function launchBrowser(): Promise<Browser> {
  const browser = await launched();
  // A busy machine takes longer than Playwright waits; what hangs is ended by the test runner.
  browser.on('context', (context) => context.setDefaultTimeout(0));
  return browser;
}

async function launched(): Promise<Browser> {
  const timeout = 0;
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return chromium.launch({ channel: 'chrome', timeout });
  }
  const executablePath = await unpacked('chromium', decompress);
  try {
    return await chromium.launch({ executablePath, timeout });
  } catch (error) {
    if (!String(error).includes('loading shared libraries')) throw error;
    const libraries = path.join(await unpacked('al2023', extract), 'lib');
    const env = { ...process.env, LD_LIBRARY_PATH: libraries };
    return chromium.launch({ executablePath, env, timeout });
  }
}
