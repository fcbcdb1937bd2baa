/**
 * An agent of three runs within each other: a clinician asks the planner for a discharge letter; the planner calls the
 * retriever and then the writer, and each of them starts a run of its own whose inference-start names, as its parent,
 * the tool call that caused it. Only the writer and the planner show something to a person.
 */
import { HOUR, MINUTE, PlannedRun, type Sender } from '../planned-run.js';
import { type Random, spread, workingWeek } from '../random.js';
import { dayPath, modelInstance, patientId, type Scenario, type Scene } from '../scenario.js';

const NAME = 'care-agent';
const MODELS = [
  modelInstance('discharge-planner', '0.8'),
  modelInstance('discharge-planner', '0.9'),
] as const;
const RETRIEVER = modelInstance('record-retriever', '1.4');
const WRITER = modelInstance('letter-writer', '2.1');
/** Letters are asked for after the morning round and before going home. */
const WEEK = workingWeek(
  (hour) => (hour < 8 || hour >= 18 ? 0.2 : hour === 11 || hour === 16 ? 14 : 7),
  0.25,
);

const PASSAGES = [
  'Operation note: laparoscopic cholecystectomy without complications',
  'Medication list at discharge: apixaban 5 mg twice daily, bisoprolol 2.5 mg, atorvastatin 40 mg',
  'Echocardiogram: ejection fraction 48 %, no relevant valve disease',
  'Physiotherapy note: walks 200 m with one stick, stairs with help',
  'Pharmacy note: metformin paused for contrast, to be resumed after the kidney function is checked',
  'Laboratory results on the last day: creatinine 92 µmol/L, haemoglobin 118 g/L, C-reactive protein 14 mg/L',
] as const;

function agent(app: string): Sender {
  return { app, host: 'agents-1', process: `${app}-0`, clock: 'microseconds' };
}
const PLANNING = agent('discharge-planner');
const RETRIEVING = agent('record-retriever');
const WRITING = agent('letter-writer');
const CHART: Sender = { app: 'chart', host: 'ward-7-terminal-3', process: 'chart', clock: 'wall seconds' };

/** What the runs of one request have in common. */
interface Request {
  readonly random: Random;
  readonly newId: () => string;
  readonly patient: string;
  readonly startsAt: number;
}

/** @returns the retriever's run, and when it ended. */
function retrieve(
  { random, newId, patient }: Request,
  call: string,
  at: number,
): readonly [PlannedRun, number] {
  const run = new PlannedRun(NAME, newId);
  let now = at;
  const started = run.start(
    {
      model_instance: RETRIEVER,
      user_identity: { caller_id: 'discharge-planner', caller_type: 'service' },
      target_identity: { target_id: patient, target_type: 'patient' },
      inputs: { prompt: 'Everything of this stay that the general practitioner has to know.' },
    },
    { at: now, sender: RETRIEVING, parent: call },
  );
  const searching = random.logNormal(350, 0.6);
  now += searching;
  const search = run.artifact(
    {
      artifact_type: 'tool_call',
      artifact_uri: `urn:tool-call:search_record:${random.integer(1, 1e9)}`,
      description: 'search_record: notes, results and medication of the stay',
      arguments: { patient, top_k: 4 },
    },
    { at: now, sender: RETRIEVING, parent: started, latencyMs: searching },
  );
  for (const passage of random.some(PASSAGES, random.integer(2, 4))) {
    const reading = random.logNormal(35, 0.5);
    now += reading;
    run.artifact(
      {
        artifact_type: 'text_chunk',
        artifact_uri: `https://records.hospital.example/patients/${patient}/text#${random.integer(1, 900)}`,
        mime_type: 'text/plain',
        description: passage,
      },
      { at: now, sender: RETRIEVING, parent: search, latencyMs: reading },
    );
  }
  return [run, now];
}

/** @returns the writer's run, and when its draft was shown. */
function write(
  { random, newId, patient, startsAt }: Request,
  call: string,
  at: number,
): readonly [PlannedRun, number] {
  const run = new PlannedRun(NAME, newId);
  const started = run.start(
    {
      model_instance: WRITER,
      user_identity: { caller_id: 'discharge-planner', caller_type: 'service' },
      target_identity: { target_id: patient, target_type: 'patient' },
      inputs: {
        prompt:
          'Write the discharge letter from the passages, in plain sentences, and leave out what is not in them.',
        input_uri: `s3://agents/${dayPath(startsAt)}/${run.runId}/passages.json`,
      },
    },
    { at, sender: WRITING, parent: call },
  );
  const weighing = random.logNormal(1400, 0.4);
  const trace = run.artifact(
    {
      artifact_type: 'reasoning_trace',
      artifact_uri: `s3://traces/${dayPath(startsAt)}/${run.runId}.jsonl`,
      mime_type: 'application/jsonl',
    },
    { at: at + weighing, sender: WRITING, parent: started, latencyMs: weighing },
  );
  const shown = at + weighing + random.logNormal(4800, 0.35);
  run.output(
    {
      output_type: 'text',
      output_uri: `https://records.hospital.example/drafts/${run.runId}`,
      summary:
        'Draft of a discharge letter: reason for admission, course, results, medication with what was changed and ' +
        `why, ${random.integer(1, 4)} tasks for the general practice, and what to come back for.`,
    },
    { at: shown, sender: WRITING, parent: trace, latencyMs: shown - at },
  );
  return [run, shown];
}

function plan({ random, newId, startsAt, newVersion, patients }: Scene): readonly PlannedRun[] {
  const patient = patientId(random.integer(1, patients));
  const request: Request = { random, newId, patient, startsAt };
  const run = new PlannedRun(NAME, newId);
  const started = run.start(
    {
      model_instance: MODELS[newVersion ? 1 : 0],
      user_identity: { caller_id: `clinician-${random.integer(1, 60)}`, caller_type: 'clinician' },
      target_identity: { target_id: patient, target_type: 'patient' },
      inputs: { prompt: 'Prepare the discharge letter for tomorrow morning.' },
    },
    { at: startsAt, sender: PLANNING },
  );
  const planning = random.logNormal(newVersion ? 1100 : 1700, 0.4);
  const thought = run.artifact(
    {
      artifact_type: 'reasoning_trace',
      artifact_uri: `s3://traces/${dayPath(startsAt)}/${run.runId}.jsonl`,
      mime_type: 'application/jsonl',
      description: 'Plan: retrieve the stay, then write the letter, then have it checked',
    },
    { at: startsAt + planning, sender: PLANNING, parent: started, latencyMs: planning },
  );
  const call = (to: string, at: number) =>
    run.artifact(
      {
        artifact_type: 'tool_call',
        artifact_uri: `urn:tool-call:${to}:${random.integer(1, 1e9)}`,
        description: `${to}: hand over to another agent`,
      },
      { at, sender: PLANNING, parent: thought },
    );
  const first = startsAt + planning + 5;
  const [retriever, retrieved] = retrieve(
    request,
    call('record-retriever', first),
    first + random.logNormal(40, 0.5),
  );
  const second = retrieved + random.logNormal(120, 0.5);
  const [writer, written] = write(request, call('letter-writer', second), second + random.logNormal(40, 0.5));

  const displayed = written + random.logNormal(500, 0.5);
  const output = run.output(
    {
      output_type: 'text',
      output_uri: `https://records.hospital.example/tasks/${run.runId}`,
      summary: 'The discharge letter is ready for review; two statements are marked for checking.',
    },
    { at: displayed, sender: CHART, parent: thought, latencyMs: displayed - startsAt },
  );
  sign(run, random, output, displayed);
  return [run, retriever, writer];
}

/** What the physician says of the letter, and what becomes of it. */
function sign(run: PlannedRun, random: Random, output: string, displayed: number): void {
  const quality = random.fraction();
  const signed = displayed + random.logNormal(5 * HOUR, 0.8);
  if (random.chance(0.5)) {
    run.feedback(
      random.chance(0.5)
        ? {
            feedback_type: 'text',
            comment: quality < 0.65 ? 'Only two edits.' : 'The change of anticoagulant is missing.',
          }
        : { feedback_type: 'thumbs', direction: quality < 0.65 ? 'up' : 'down' },
      { at: signed + random.between(5, 300) * 1000, sender: CHART, parent: output },
    );
  }
  run.outcome(
    {
      ...(quality < 0.65
        ? { outcome_type: 'validated', description: 'Letter signed with few edits' }
        : quality < 0.9
          ? { outcome_type: 'partial', description: 'Letter signed after the medication was rewritten' }
          : { outcome_type: 'contradicted', description: 'Draft discarded, letter written by hand' }),
      occurred_at: new Date(signed).toISOString(),
    },
    { at: signed + random.logNormal(10 * MINUTE, 0.6), sender: CHART, parent: output },
  );
}

export const careAgent: Scenario = {
  name: NAME,
  title: 'A discharge letter by three agents within each other',
  share: 0.1,
  runsAnEpisode: 3,
  models: MODELS,
  schedule: (period, episodes) => spread(WEEK, period, episodes),
  plan,
};
