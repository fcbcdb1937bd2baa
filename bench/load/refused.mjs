/**
 * Connections that send only requests without a key. The argument has the settings as JSON. After SIGTERM it
 * prints the number of answers as a line of JSON.
 *
 * - `endless`: writes requests without end and reads answers; reconnects immediately.
 * - `sixteen`: writes sixteen requests, and sixteen more after as many answers or when the connection is
 *   closed.
 * - `churn`: writes sixteen requests, and reconnects after the first answer.
 */
import { connect } from 'node:net';

const { port, connections, sort } = JSON.parse(process.argv[2]);
const HEADS = {
  missing:
    'POST /event/outcome HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n',
  nowhere: 'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
  method: 'GET /event/outcome HTTP/1.1\r\nHost: a\r\n\r\n',
};
const heads = Object.values(HEADS);
const sixteen = heads.map((head) => Buffer.from(head.repeat(16)));
const many = heads.map((head) => Buffer.from(head.repeat(400)));
const counts = { answers: 0, connections: 0 };

function open(i) {
  const socket = connect(port, '127.0.0.1').setNoDelay();
  const bytes = (sort === 'endless' ? many : sixteen)[i % heads.length];
  let answers = 0;
  const write = () => {
    answers = 0;
    if (sort !== 'endless') socket.write(bytes);
    else while (!socket.destroyed && socket.write(bytes));
  };
  socket.on('connect', () => {
    counts.connections++;
    write();
  });
  if (sort === 'endless') socket.on('drain', write);
  socket.on('data', (chunk) => {
    const found = chunk.toString('latin1').split('HTTP/1.1 4').length - 1;
    counts.answers += found;
    answers += found;
    if (sort === 'churn' && answers > 0) socket.destroy();
    if (sort === 'sixteen' && answers >= 16) write();
  });
  socket.on('end', () => socket.destroy());
  socket.on('error', () => undefined);
  socket.on('close', () => setImmediate(open, i));
}

for (let i = 0; i < connections; i++) open(i);
process.on('SIGTERM', () => {
  process.stdout.write(`${JSON.stringify(counts)}\n`, () => process.exit(0));
});
