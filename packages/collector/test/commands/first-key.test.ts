/** The key that the first start makes: only if it can be printed. */
import net from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { keyFrom, launch, outcomeEvent, run, start } from '../running/collector-process.js';
import { post } from '../running/load.js';
import { scratch } from '../running/scratch.js';

async function keysIn(dataDir: string): Promise<unknown> {
  return JSON.parse((await run(['keys', 'list', '--json', '--data-dir', dataDir])).stdout);
}

async function expectFirstKey(dataDir: string): Promise<void> {
  const running = await start(dataDir);
  const key = await keyFrom(running);
  expect(await post(running.port, key, JSON.stringify(outcomeEvent()))).toMatchObject({ status: 201 });
  expect(await running.stop()).toBe(0);
  expect(await keysIn(dataDir)).toHaveLength(1);
}

test.each(['--port', '--management-port'])(
  '[R-505] a first start whose %s is in use makes no key, and the next one prints it',
  async (option) => {
    const dataDir = scratch();
    const taken = net.createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as net.AddressInfo;
    const { code, stdout } = await run(['serve', '--data-dir', dataDir, '--port', '0', option, String(port)]);
    expect([code, stdout]).toEqual([1, '']);
    await new Promise((resolve) => taken.close(resolve));
    expect(await keysIn(dataDir)).toEqual([]);
    await expectFirstKey(dataDir);
  },
);

test('[R-505] a first start whose standard output is closed makes no key, reports that, and continues', async () => {
  const dataDir = scratch();
  const { process: child, output, exited } = launch(['serve', '--port', '0', '--data-dir', dataDir]);
  onTestFinished(() => void child.kill('SIGKILL'));
  child.stdout?.destroy();
  await expect.poll(() => output.stderr).toMatch(/"msg":"listening"/);
  expect(output.stderr).toContain('standard output did not accept the first API key');
  child.kill('SIGTERM');
  expect(await exited).toBe(0);
  expect(await keysIn(dataDir)).toEqual([]);
  await expectFirstKey(dataDir);
});
