/** A thread that ends is started again, and its questions are refused. */
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { NotReadable } from '../../src/contract.js';
import { AskedThread } from '../../src/reading/kept-thread.js';

const FILE = pathToFileURL(path.join(import.meta.dirname, 'ending-thread.mjs'));

function opened() {
  const troubles: string[] = [];
  const thread = new AskedThread(FILE, undefined, (message) => void troubles.push(message));
  onTestFinished(() => thread.stop());
  // The thread of this test answers with what it is asked.
  const ask = (organisation: string) => thread.ask('names', { ...SCOPE, organisations: [organisation] }, 0);
  return { troubles, ask };
}

const SCOPE = { applications: undefined, caller: undefined };

test.each(['exit', 'memory', 'throw'])('[R-2051] a thread that ends by %s is replaced', async (how) => {
  const { troubles, ask } = opened();
  expect(await ask('first')).toMatchObject({ organisations: ['first'] });
  const open = [ask(how), ask('waits')];
  for (const each of await Promise.allSettled(open)) {
    expect(each.status).toBe('rejected');
    expect((each as PromiseRejectedResult).reason).toBeInstanceOf(NotReadable);
  }
  await expect.poll(() => ask('later').catch(() => undefined)).toMatchObject({ organisations: ['later'] });
  expect(troubles).toHaveLength(1);
  expect(troubles[0]).toMatch(/a thread that answers questions has ended: \w/);
  expect(troubles[0]).not.toContain('secret');
});

test('[R-2051] no more questions wait than a thread can answer soon', async () => {
  const { ask } = opened();
  const asked = await Promise.allSettled(Array.from({ length: 300 }, (_, i) => ask(String(i))));
  const refused = asked.filter(({ status }) => status === 'rejected');
  expect(refused).toHaveLength(44);
  expect((refused[0] as PromiseRejectedResult).reason).toMatchObject({ message: /too many open questions/ });
});
