/** Events as templates: the bytes before and after the id. See load/events.lua. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import zlib from 'node:zlib';
import { run, temporaryDirectory } from './children.mjs';
import { MAIN } from './collector.mjs';
import { KIND, shapeOf } from './event.mjs';

const PLACE = '00000000-0000-4000-8000-000000000000';
/** Number of different events of the demonstration, sent in turn. */
const MIXED = 500;

/** A start as an application sends it: a dozen fields in four objects and more, 1.2 KB. */
const START = {
  timestamp: '2026-03-02T08:31:44.611Z',
  protocol_version: '0.0.1',
  system_metadata: { hostname: 'icu-inference-02', app_name: 'deterioration-watch', proc_id: '4711' },
  model_instance: {
    model_id: 'deterioration-index',
    model_version: '4.2.0',
    model_card_url: 'https://models.hospital.example/deterioration-index/4.2.0/card',
    data_sheet_url: 'https://models.hospital.example/deterioration-index/4.2.0/data',
  },
  user_identity: { caller_id: 'icu-monitor-gateway', caller_type: 'service' },
  target_identity: { target_id: 'patient-0008', target_type: 'patient' },
  inputs: {
    prompt:
      'Estimate the risk of deterioration within the next twelve hours. Heart rate 104, respiratory rate 22, ' +
      'oxygen saturation 93 % on two litres, temperature 38.4, blood pressure 108/61. Lactate 2.8 after 2.1 this ' +
      'morning, creatinine 1.31, leukocytes 14.2, CRP 121. Third day after abdominal surgery; diuresis falling since ' +
      'the night. Say which findings weigh most, and what would change the estimate.',
    input_uri: 's3://icu-observations/2026/03/02/patient-0008/bed-1.json',
  },
};

function template(kind, text) {
  return {
    path: `/event/${kind}`,
    coding: '-',
    pieces: text.split(PLACE).map((piece) => Buffer.from(piece)),
  };
}

/** Events of `collector demo`, of all kinds. */
async function demoEvents(directory) {
  const file = path.join(directory, 'demo.ndjson');
  const which = ['--runs', `${MIXED}`, '--days', '1', '--seed', '4', '--out', file];
  await run('collector demo', process.execPath, [MAIN, 'demo', ...which]);
  const lines = fs.readFileSync(file, 'utf8').split('\n', MIXED);
  // The few that are kept as bytes, for their repeats, would need an id of their own.
  return lines.map((line) => JSON.parse(line)).filter(({ event }) => event !== undefined);
}

export const LOADS = {
  padded: (_directory, eventBytes) => {
    const { before, middle, padding, after } = shapeOf(eventBytes);
    return [template(KIND, `${before}${PLACE}${middle}${'x'.repeat(padding)}${after}`)];
  },
  start: () => [template('inference-start', JSON.stringify({ event_id: PLACE, ...START }))],
  mix: async (directory) =>
    (await demoEvents(directory)).map(({ kind, event }) =>
      template(kind, JSON.stringify({ ...event, event_id: PLACE })),
    ),
  gzip: () =>
    LOADS.start().map((start) => ({
      ...start,
      coding: 'gzip',
      pieces: start.pieces.map((piece) => zlib.gzipSync(piece)),
    })),
};

const files = new Map();

/** @returns the file of templates of a load, which stays until the bench ends. */
export async function templatesOf(load = 'padded', eventBytes = undefined) {
  const name = `${load} ${eventBytes}`;
  if (!files.has(name)) {
    const directory = temporaryDirectory(os.tmpdir(), 'templates');
    const templates = await LOADS[load](directory, eventBytes);
    const lines = templates.map(({ path: target, coding, pieces: [before, after] }) =>
      [target, coding, before.toString('hex'), after.toString('hex')].join(' '),
    );
    files.set(name, path.join(directory, 'templates'));
    fs.writeFileSync(files.get(name), `${lines.join('\n')}\n`);
  }
  return files.get(name);
}
