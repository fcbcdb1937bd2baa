/** Forms of spans besides the recorded ones; the table names public reports of them. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { findingsOf, identify } from '@clinical-events/protocol/spans';
import { RunSpanProcessor } from '../src/opentelemetry.js';
import { filled, type RecordedSpan, sdkSpan } from './otlp-spans.js';
import { recording } from './recording.js';
import { choiceOf } from './vectors.js';

const DIRECTORY = path.resolve('test/vectors/spans');

interface Form {
  readonly says: string;
  readonly span: Partial<Omit<RecordedSpan, 'status'>> & { readonly status?: number };
  readonly inner?: true;
  readonly expected: Readonly<Record<string, unknown>>;
}

function span(more: Partial<RecordedSpan>): RecordedSpan {
  return {
    ...{ name: 'call', traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), parentSpanId: undefined },
    ...{ start: 1n, end: 2n, attributes: {}, events: [], status: { code: 0 }, scope: '' },
    droppedAttributesCount: 0,
    ...more,
  };
}

/** The result in the form of `expected`. */
function read({ span: { status = 0, ...said }, inner }: Form): object {
  const given = span({ ...said, status: { code: status } });
  const known = identify(given, inner !== true, true);
  if (known.kind === undefined) return filled({ reason: known.reason });
  const { kind, model, provider, conversation, agentName, agentModel } = known;
  return {
    ...filled({ kind, model, provider, conversation, agent_name: agentName, agent_model: agentModel }),
    found: foundOf(given, kind),
  };
}

function foundOf(given: RecordedSpan, kind: Parameters<typeof findingsOf>[1]): object {
  const found = findingsOf(given, kind);
  const { answer, tool, documents, evaluations, ending, failed, errorName } = found;
  const { response_model, refused, media, unread_parts } = answer.facts;
  const [first = answer, ...others] = answer.choices;
  return filled({
    ...choiceOf(first),
    choices: others.map(choiceOf),
    ...{ response_model, refused, media, unread_parts, ending, error_name: errorName },
    ...{ usage: answer.usage, usage_of_all: found.usageOfAll, status: answer.status },
    failed: failed || undefined,
    tool: filled(tool),
    documents: documents.map(filled),
    evaluations: evaluations.map(filled),
  });
}

describe.each(readdirSync(DIRECTORY))('%s', (file) => {
  const forms = JSON.parse(readFileSync(path.join(DIRECTORY, file), 'utf8')) as readonly Form[];
  test.each(forms.map((form) => [form.says, form] as const))('[R-865] %s', (_says, form) => {
    expect(read(form)).toEqual(form.expected);
  });
});

test('[R-865] deeply nested spans are each identified once', async () => {
  const { log } = await recording();
  const processor = new RunSpanProcessor(log);
  const idOf = (number: number) => number.toString(16).padStart(16, '0');
  let asked = 0;
  for (let number = 1; number <= 100; number += 1) {
    const parentSpanId = number === 1 ? undefined : idOf(number - 1);
    const made = sdkSpan(span({ spanId: idOf(number), parentSpanId }));
    const attributes = {};
    Object.defineProperty(made, 'attributes', {
      get: () => {
        asked += 1;
        return attributes;
      },
    });
    processor.onStart(made);
  }
  expect(asked).toBe((100 * 101) / 2);
});
