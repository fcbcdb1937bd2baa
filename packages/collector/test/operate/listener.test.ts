import { describe, expect, test } from 'vitest';
import { oneCollector } from '../running/one-collector.js';
import { RawConnection } from '../running/raw-http.js';
import { get, managementPort } from './managed.js';

const collector = oneCollector();
const port = () => managementPort(collector.running);
const PATHS = ['/livez', '/readyz', '/metrics', '/console/state.json', '/openapi.json', '/docs'];

describe('[R-831] the management listener', () => {
  test.each(PATHS)('answers GET and HEAD of %s, and nothing else', async (path) => {
    const { status, headers, body } = await get(port(), path);
    expect(status).toBe(200);
    expect(body.length).toBeGreaterThan(0);
    expect(headers['content-security-policy']).toContain("default-src 'none'");
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(headers['cache-control']).toBe('no-store');
    expect(headers['access-control-allow-origin']).toBeUndefined();
    const head = await get(port(), path, { method: 'HEAD' });
    expect([head.status, head.body]).toEqual([200, '']);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
      const refused = await get(port(), path, { method, headers: { Origin: 'http://elsewhere.test' } });
      expect(refused.status).toBe(405);
      expect(refused.headers.allow).toBe('GET, HEAD');
      expect(refused.headers['access-control-allow-origin']).toBeUndefined();
      expect(JSON.parse(refused.body)).toMatchObject({ code: 'method_not_allowed' });
    }
  });

  test('answers an unknown path, and an invalid request, with an Error body', async () => {
    for (const path of [
      '/nothing',
      '/event/outcome',
      '/docs/../../package.json',
      '/docs/swagger-ui.js',
      '/%zz',
    ]) {
      const { status, body } = await get(port(), path);
      expect([400, 404]).toContain(status);
      expect(Object.keys(JSON.parse(body) as object)).toEqual(['message', 'code']);
    }
    const withBody = await get(port(), '/metrics', { body: 'x', headers: { 'Content-Length': 1 } });
    expect([withBody.status, JSON.parse(withBody.body)]).toMatchObject([413, { code: 'body_too_large' }]);
    const connection = await RawConnection.open(port());
    connection.write('NO REQUEST\r\n\r\n');
    const answer = await connection.answer();
    expect(answer?.status).toBe(400);
    connection.close();
  });

  test.each(['evil.test', 'localhost.evil.test', '127.0.0.1.evil.test', '10.0.0.1', 'localhost:80:90'])(
    'on loopback refuses a page that calls it %s (DNS rebinding), except for health',
    async (host) => {
      for (const path of PATHS) {
        const { status, body } = await get(port(), path, { headers: { Host: host } });
        if (path === '/livez' || path === '/readyz') expect(status).toBe(200);
        else
          expect([status, JSON.parse(body)]).toMatchObject([
            403,
            { code: 'permission_denied', message: expect.stringContaining('Host') as string },
          ]);
      }
    },
  );

  test.each(['localhost', 'LocalHost:8081', '127.0.0.1', '127.0.0.1:1', '[::1]:8081'])(
    'on loopback answers a client that calls it %s, through any port',
    async (host) => {
      expect((await get(port(), '/metrics', { headers: { Host: host } })).status).toBe(200);
    },
  );

  test('describes the interface as the protocol does', async () => {
    const { body } = await get(port(), '/openapi.json');
    const document = JSON.parse(body) as { openapi: string; paths: object };
    expect(document.openapi).toMatch(/^3\.1/);
    expect(Object.keys(document.paths).length).toBe(5);
  });
});
