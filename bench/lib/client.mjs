/** Single requests. */
import http from 'node:http';
import https from 'node:https';
import { KIND, newEvent } from './event.mjs';

/** Sends one event and resolves with the status and the time it took. */
export function sendEvent(port, key, { agent, timeoutMs = 10_000, scheme = 'http' } = {}) {
  const body = newEvent();
  const since = performance.now();
  return new Promise((resolve, reject) => {
    const request = (scheme === 'https' ? https : http).request({
      // Certificates are not checked: the bench measures, and trusts its own server.
      rejectUnauthorized: false,
      host: '127.0.0.1',
      port,
      agent,
      method: 'POST',
      path: `/event/${KIND}`,
      headers: {
        'Content-Type': 'application/json',
        'X-API-Key': key,
        'Content-Length': Buffer.byteLength(body),
      },
      timeout: timeoutMs,
    });
    request.on('timeout', () => request.destroy(new Error(`no answer within ${timeoutMs} ms`)));
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece) => (text += piece));
      response.on('error', reject);
      response.on('end', () => resolve({ status: response.statusCode, text, ms: performance.now() - since }));
    });
    request.end(body);
  });
}

/** Checks that one event is answered correctly before thousands are sent. */
export async function sendFirstEvent(port, key, scheme) {
  const { status, text } = await sendEvent(port, key, { scheme });
  if (status !== 201) throw new Error(`the first event was answered ${status}: ${text}`);
}
