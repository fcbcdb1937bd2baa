#!/usr/bin/env node
// A program that signs, for the tests: its behaviour is in the file <its own path>.json.
import { spawn } from 'node:child_process';
import { createPrivateKey, createPublicKey, sign } from 'node:crypto';
import fs from 'node:fs';

const verb = process.argv[2];
const { pem, misbehaviour, on } = JSON.parse(fs.readFileSync(`${process.argv[1]}.json`, 'utf8'));
const key = createPrivateKey(pem);
const text = fs.readFileSync(0);
const how = verb === on ? misbehaviour : undefined;

if (process.argv.length !== 3) process.exit(9);
if (how === 'hangs') setInterval(() => undefined, 1000);
else if (how === 'leaves a child') {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], { stdio: 'inherit' });
  fs.writeFileSync(`${process.argv[1]}.pid`, String(child.pid));
  process.exitCode = 0;
  child.unref();
} else if (how === 'fails') {
  console.error(`cannot sign ${text}`);
  console.log(`cannot sign ${text}`);
  process.exit(1);
} else if (how === 'rubbish') console.log(`rubbish ${text}`);
else if (how === 'silence') process.exit(0);
else if (how === 'floods') for (let at = 0; at < 100; at++) console.log('x'.repeat(10_000));
else if (how === 'kills itself') process.kill(process.pid, 'SIGTERM');
else if (how === 'private') console.log(pem);
else if (verb === 'public-key') console.log(createPublicKey(key).export({ type: 'spki', format: 'pem' }));
else if (verb === 'sign') {
  const signed = how === 'lies' ? Buffer.concat([text, Buffer.from('!')]) : text;
  const encoded = sign(null, signed, key).toString('base64');
  // As base64(1) does.
  console.log(`${encoded.slice(0, 76)}\n${encoded.slice(76)}`);
} else process.exit(9);
