/** A sender over TLS, with the facts of the connection that a test needs. */
import https from 'node:https';
import tls from 'node:tls';
import type { Issued } from './certificates.js';
import { sampleEvent } from './sample-events.js';

export interface Answer {
  readonly status: number;
  readonly code: string | undefined;
}
export interface Sender {
  /** Whose certificates are trusted. */
  readonly ca: string;
  readonly client?: Issued | undefined;
  readonly agent?: https.Agent;
  readonly options?: tls.ConnectionOptions;
}

const NAME = 'collector.test';

/** The options of a client of this sender for `tls.connect`. */
function connectionOptions({ ca, client, options }: Sender): tls.ConnectionOptions {
  return {
    host: '127.0.0.1',
    servername: NAME,
    ca,
    ...(client && { cert: client.certificate, key: client.key }),
    ...options,
  };
}

/** Sends one new event, or another body; rejects when the connection ends without an answer. */
export function post(
  port: number,
  key: string,
  sender: Sender,
  path = '/event/outcome',
  body = JSON.stringify(sampleEvent()),
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = https.request({
      ...connectionOptions(sender),
      ...{ port, method: 'POST', path, agent: sender.agent ?? false },
      headers: { 'X-API-Key': key, 'Content-Type': 'application/json', 'Content-Length': body.length },
    });
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, code: (JSON.parse(text) as { code?: string }).code }),
      );
    });
    request.end(body);
  });
}

/** Resolves once the handshake is done on the client's side; rejects with the error that it ended with. */
export function handshake(port: number, sender: Sender): Promise<tls.TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ port, ...connectionOptions(sender) });
    socket.once('secureConnect', () => resolve(socket));
    socket.once('error', reject);
  });
}

/** The common name of the present certificate of the collector. */
export async function shownName(port: number, sender: Sender): Promise<string | undefined> {
  const socket = await handshake(port, sender);
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return String(subject.CN);
}

/** Connects, with a session if one is given, and takes the last session that it is given before a first answer. */
export function resume(
  port: number,
  sender: Sender,
  session?: Buffer,
): Promise<{ resumed: boolean; session: Buffer | undefined }> {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ port, ...connectionOptions(sender), ...(session && { session }) });
    let given: Buffer | undefined;
    socket.on('session', (next: Buffer) => (given = next));
    socket.once('secureConnect', () => socket.write('GET / HTTP/1.1\r\nHost: collector.test\r\n\r\n'));
    socket.once('error', reject);
    socket.once('data', () => {
      resolve({ resumed: socket.isSessionReused(), session: given });
      socket.destroy();
    });
  });
}
