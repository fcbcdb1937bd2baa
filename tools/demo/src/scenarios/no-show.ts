/**
 * A predictor of missed appointments: many small runs, started by the booking system without a run id of their own,
 * each with a line for the clinic's staff. Whether it was right is known at the appointment. The newer version is
 * calibrated for another clinic, and is surer than it should be.
 */
import { DAY, HOUR, MINUTE, PlannedRun, type Sender } from '../planned-run.js';
import { dayPath, modelInstance, patientId, type Scenario, type Scene } from '../scenario.js';
import { nextOfficeHour, spread, workingWeek } from '../random.js';

const NAME = 'no-show';
const MODELS = [modelInstance('no-show', '1.9.2'), modelInstance('no-show', '2.0.0')] as const;
/** Bookings come while the telephone is answered, and some through the portal in the evening. */
const WEEK = workingWeek((hour) => (hour >= 8 && hour < 17 ? 10 : hour >= 17 && hour < 22 ? 3 : 0.3), 0.1);
const CLINICS = ['cardiology', 'dermatology', 'diabetes', 'orthopaedics', 'eye clinic', 'antenatal'] as const;

const BATCH: Sender = {
  app: 'no-show-predictor',
  host: 'booking-1',
  process: '4711',
  clock: 'milliseconds',
};
const DESK: Sender = { app: 'booking-desk', host: 'booking-1', process: '212', clock: 'wall seconds' };

function plan({ random, newId, startsAt, newVersion, patients }: Scene): readonly PlannedRun[] {
  const run = new PlannedRun(NAME, newId);
  const patient = patientId(random.integer(1, patients));
  const clinic = random.pick(CLINICS);
  const latency = random.logNormal(24, 0.5);
  const truth = 0.04 + 0.5 * random.fraction() ** 2;
  const risk = Math.min(0.97, Math.max(0.01, (newVersion ? 1.35 : 1) * truth + 0.05 * random.normal()));
  const high = risk >= 0.3;

  const started = run.start(
    {
      model_instance: MODELS[newVersion ? 1 : 0],
      user_identity: { caller_id: 'booking-system', caller_type: 'service' },
      target_identity: { target_id: patient, target_type: 'patient' },
      inputs: { input_uri: `https://booking.hospital.example/appointments/${run.runId.slice(0, 8)}` },
    },
    { at: startsAt, sender: BATCH },
    true,
  );
  if (high) {
    run.artifact(
      {
        artifact_type: 'explanation',
        artifact_uri: `s3://no-show/${dayPath(startsAt)}/${run.runId}.json`,
        mime_type: 'application/json',
        description: 'Two missed appointments in the last year; no reminder number on file',
      },
      { at: startsAt + latency, sender: BATCH, parent: started, latencyMs: latency },
    );
  }
  const displayed = startsAt + latency + random.logNormal(80, 0.4);
  const output = run.output(
    {
      output_type: 'text',
      output_uri: `https://booking.hospital.example/worklist/${run.runId}`,
      summary:
        `Risk of a missed appointment in ${clinic}: ${(risk * 100).toFixed(0)} %` +
        (high ? '; a telephone reminder two days before is suggested.' : '; no action.'),
      probability: Number(risk.toFixed(3)),
    },
    { at: displayed, sender: DESK, parent: started, latencyMs: displayed - startsAt },
  );
  if (random.chance(0.04)) {
    run.feedback(
      random.chance(0.6)
        ? { feedback_type: 'text', comment: 'Patient had already moved the appointment by telephone.' }
        : { feedback_type: 'rating', rating_value: random.integer(1, 5) },
      { at: displayed + random.logNormal(2 * HOUR, 1), sender: DESK, parent: output },
    );
  }
  const appointment = nextOfficeHour(displayed + random.between(1, 12) * DAY);
  const missed = random.chance(truth);
  const known = appointment + random.between(10, 90) * MINUTE;
  const cancelled = random.chance(0.06);
  run.outcome(
    cancelled
      ? { outcome_type: 'unknown', description: 'Appointment cancelled by the clinic' }
      : {
          outcome_type: missed === high ? 'validated' : 'contradicted',
          occurred_at: new Date(appointment).toISOString(),
          description: missed ? 'Did not attend' : 'Attended',
          reminded: high && random.chance(0.7),
        },
    { at: known, sender: DESK, parent: output },
  );
  return [run];
}

export const noShow: Scenario = {
  name: NAME,
  title: 'Missed appointments, predicted at booking',
  share: 0.25,
  runsAnEpisode: 1,
  models: MODELS,
  schedule: (period, episodes) => spread(WEEK, period, episodes),
  plan,
};
