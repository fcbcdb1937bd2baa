/**
 * Raw node:http: reads the body and drops it. Its rate is the ceiling for the other peers.
 *   node raw.mjs <directory> [--tls-cert FILE --tls-key FILE]
 */
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { announce, closeServer } from './peer.mjs';

const ANSWER = Buffer.from('{"status":"accepted"}');
const HEADERS = { 'Content-Type': 'application/json', 'Content-Length': ANSWER.length };

const [, , , , certificate, , key] = process.argv;
function answer(request, response) {
  request.on('data', () => undefined);
  request.on('end', () => response.writeHead(201, HEADERS).end(ANSWER));
}
const server =
  key === undefined
    ? http.createServer(answer)
    : https.createServer({ cert: fs.readFileSync(certificate), key: fs.readFileSync(key) }, answer);
server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, () => {
  announce(server, () => closeServer(server));
});
