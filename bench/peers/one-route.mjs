/** A node:http server with one route, which hands the text of each event to a store. */
import http from 'node:http';

const ANSWERS = {
  201: Buffer.from('{"status":"accepted"}'),
  409: Buffer.from('{"error":"conflict"}'),
};

/** @param store resolves with true if the event is stored, and with false if its id is taken. */
export function listenFor(store, onListening) {
  const server = http.createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts).toString();
      void store(JSON.parse(body).event_id, request.url.slice('/event/'.length), body).then((isNew) => {
        const status = isNew ? 201 : 409;
        const headers = { 'Content-Type': 'application/json', 'Content-Length': ANSWERS[status].length };
        response.writeHead(status, headers).end(ANSWERS[status]);
      });
    });
  });
  server.listen({ host: '127.0.0.1', port: 0, backlog: 4096 }, () => onListening(server));
}
