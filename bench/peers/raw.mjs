/** Raw node:http: the body is read and forgotten. What Node's HTTP costs, and so the ceiling for the others. */
import { createServer } from 'node:http';
import { announce, closeServer } from './peer.mjs';

const ANSWER = Buffer.from('{"status":"accepted"}');
const HEADERS = { 'Content-Type': 'application/json', 'Content-Length': ANSWER.length };

const server = createServer((request, response) => {
  request.on('data', () => undefined);
  request.on('end', () => response.writeHead(201, HEADERS).end(ANSWER));
});
server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, () => {
  announce(server, () => closeServer(server));
});
