import http from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { fakeCollector } from '../running/fake-collector.js';
import { hurriedClient } from '../running/hurried-client.js';
import { rawServer } from '../running/raw-server.js';

function agentOf(options: http.AgentOptions = {}): http.Agent {
  const agent = new http.Agent({ keepAlive: true, ...options });
  onTestFinished(() => agent.destroy());
  return agent;
}

test('[R-862] with an agent of the application all requests go through it', async () => {
  let connections = 0;
  const agent = agentOf();
  const connect = agent.createConnection.bind(agent);
  agent.createConnection = (...args) => {
    connections++;
    return connect(...args);
  };
  const collector = await fakeCollector();
  const { log, troubles } = hurriedClient({ url: collector.url, agent, concurrency: 1 });
  for (let round = 0; round < 3; round++) {
    log.startRun({});
    expect(await log.flush()).toEqual({ waiting: 0 });
    expect(troubles).toEqual([]);
    // What was closed while it was idle is no failure.
    collector.closeIdle();
  }
  for (let i = 0; i < 40; i++) log.startRun({});
  expect(await log.flush()).toEqual({ waiting: 0 });
  expect(collector.accepted).toHaveLength(43);
  expect(connections).toBeGreaterThan(0);
});

test('[R-862] with an agent too, what is no answer loses nothing', async () => {
  const { url } = await rawServer((socket, _request, connection) => {
    if (connection === 1) socket.end('SSH-2.0-OpenSSH\r\n');
    else if (connection === 2) socket.end('HTTP/1.1 503 x\r\nContent-Length: 99\r\n\r\n{');
    else if (connection === 3) {
      socket.write(`HTTP/1.1 400 x\r\nContent-Length: 99999\r\n\r\n${'x'.repeat(99_999)}`);
    } else if (connection === 4) socket.end('HTTP/1.1 201 Created\r\nContent-Length: 21\r\n\r\n{"sta');
    else if (connection > 5) {
      socket.write('HTTP/1.1 201 Created\r\nContent-Length: 21\r\n\r\n{"status":"accepted"}');
    }
  });
  const { log, quarantined, troubles } = hurriedClient(
    { url, agent: agentOf(), concurrency: 1 },
    { patienceMs: 100 },
  );
  for (let i = 0; i < 3; i++) log.startRun({});
  expect(await log.flush(5000)).toEqual({ waiting: 0 });
  expect(quarantined).toEqual([]);
  expect(troubles).toEqual(['the collector did not answer']);
});

test('[R-862] with an agent too, a function that throws in place of a key loses nothing', async () => {
  const collector = await fakeCollector();
  let ready = false;
  const apiKey = () => {
    if (!ready) throw new Error('no key yet');
    return 'key';
  };
  const { log, troubles } = hurriedClient({ url: collector.url, agent: agentOf(), apiKey });
  log.startRun({});
  await log.flush(50);
  expect(log.state.waiting).toBe(1);
  expect(troubles).toEqual(['nothing can be sent; events are kept']);
  ready = true;
  expect(await log.flush()).toEqual({ waiting: 0 });
});
