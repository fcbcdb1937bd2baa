// A process that captures and ends immediately: node ending-process.mjs '{"how": …, "ready": …, "withContent": …, …options}'
import { createClient } from '../../dist/index.js';

const { how, ready, withContent, bucket, listens, ...options } = JSON.parse(process.argv[2]);
if (options.spool.key) options.spool.key = Buffer.from(options.spool.key, 'hex');
if (bucket) {
  options.content = {
    bucket: 'b',
    endpoint: bucket,
    region: 'r',
    credentials: { accessKeyId: 'i', secretAccessKey: 's' },
  };
}
const log = createClient({
  ...options,
  ...(listens && { onTrouble: (what) => process.stdout.write(`${what}\n`) }),
});
if (ready) await log.ready();
for (let i = 0; i < 50; i++) {
  log.startRun({ model: { model_id: 'm' } }, withContent ? { content: `SECRET ${i}` } : {});
}
if (how === 'throw') throw new Error('on purpose');
if (how === 'later') process.on('exit', () => log.startRun({ model: { model_id: 'm' } }));
process.exit(0);
