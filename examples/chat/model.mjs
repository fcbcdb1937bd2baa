// A made-up model: it looks up a table and streams its answer, without a network.
const GUIDELINE = {
  metoprolol: 'Metoprolol: start with 25 mg twice a day; hold it below 50 beats a minute.',
  heparin: 'Heparin: check platelets every other day from day 4 to day 14.',
};

export const MODEL = { model_id: 'ward-assistant', model_version: '2026-11-01' };

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Yields what a model with tools yields: its reasoning, a tool call with its result, and pieces of text. */
export async function* answer(question) {
  const drug = Object.keys(GUIDELINE).find((name) => question.toLowerCase().includes(name));
  yield { type: 'reasoning', text: drug ? `This is about ${drug}.` : 'I know nothing of this.' };
  if (drug) yield { type: 'tool_call', tool: 'guideline', arguments: { drug }, result: GUIDELINE[drug] };
  const text = drug ? GUIDELINE[drug] : 'I have no guideline on that. Please ask a pharmacist.';
  for (const word of text.split(/(?<= )/)) {
    await sleep(5);
    yield { type: 'text', text: word };
  }
}
