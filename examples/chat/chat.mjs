// A chat on a ward, instrumented by hand. A line is a question; "+" and "-" rate the last answer.
//
//   COLLECTOR_URL=http://127.0.0.1:8080 COLLECTOR_KEY=cek_… node examples/chat/chat.mjs [directory for the spool]
import path from 'node:path';
import readline from 'node:readline/promises';
import { createClient } from '@clinical-events/client';
import { answer, MODEL } from './model.mjs';

const directory = path.resolve(process.argv[2] ?? 'chat-events');
const log = createClient({
  url: process.env.COLLECTOR_URL ?? 'http://127.0.0.1:8080',
  apiKey: process.env.COLLECTOR_KEY ?? '',
  spool: path.join(directory, 'spool'),
  content: path.join(directory, 'content'),
  app: { app_name: 'chat-example' },
  onQuarantine: ({ kind, refusal }) => console.error(`refused: ${kind}, ${refusal.status} ${refusal.code}`),
});

/** Answers a question on the screen. @returns the run, to which feedback refers later. */
async function chat(question) {
  const run = log.startRun({
    model: MODEL,
    user: { caller_id: 'nurse-17', caller_type: 'clinician' },
    target: { target_id: 'bed-4', target_type: 'patient' },
    inputs: { prompt: question },
  });
  let shown = '';
  for await (const piece of answer(question)) {
    if (piece.type === 'text') {
      process.stdout.write(piece.text);
      shown += piece.text;
    } else if (piece.type === 'tool_call') {
      const description = `Called the tool ${piece.tool}.`;
      const call = { artifact_type: 'tool_call', mime_type: 'application/json', description };
      run.artifact(call, { content: JSON.stringify(piece) });
    } else {
      const trace = { artifact_type: 'reasoning_trace', mime_type: 'text/plain' };
      run.artifact(trace, { content: piece.text });
    }
  }
  process.stdout.write('\n');
  run.output({ output_type: 'text', summary: shown.slice(0, 80).toWellFormed() }, { content: shown });
  return run;
}

let last;
for await (const line of readline.createInterface({ input: process.stdin })) {
  if (line === '+' || line === '-') {
    if (last) log.run(last.id).feedback({ feedback_type: 'thumbs', rating_value: line === '+' ? 5 : 0 });
  } else if (line !== '') last = await chat(line);
}

const { waiting } = await log.close();
if (waiting > 0) console.error(`${waiting} events wait in ${directory} for the next start.`);
