/** Decodes requests of OTLP/HTTP. */
import type { Decoded, DecodedLog, DecodedSpan, Encoding } from '../decoded.js';
import { MOST_ITEMS, tooMany } from './fault.js';
import type { Form, Message } from './form.js';
import { jsonForm } from './json.js';
import { protobufForm } from './protobuf.js';

const FORMS: Readonly<Record<Encoding, Form>> = { protobuf: protobufForm, json: jsonForm };

const TRACE_ID_DIGITS = 32;
const SPAN_ID_DIGITS = 16;
const PARENT_IS_KNOWN = 0x100;
const PARENT_IS_REMOTE = 0x200;

/** The number of spans and events, or log records, that may still be decoded. */
class Budget {
  #left = MOST_ITEMS;

  take(): void {
    if (--this.#left < 0) throw tooMany(MOST_ITEMS, 'spans, events and log records');
  }
}

type Around = Pick<Decoded, 'resource' | 'scope' | 'scopeVersion'>;

/** @throws {DecodingFault} for a body that is not an ExportTraceServiceRequest or exceeds the limits. */
export function decodeSpans(body: Uint8Array, encoding: Encoding): DecodedSpan[] {
  const form = FORMS[encoding];
  const request = form.requestOf(body, 'traces');
  return decoded(form, request, ['resourceSpans', 'scopeSpans', 'spans'], spanOf);
}

/** @throws {DecodingFault} for a body that is not an ExportLogsServiceRequest or exceeds the limits. */
export function decodeLogs(body: Uint8Array, encoding: Encoding): DecodedLog[] {
  const form = FORMS[encoding];
  const request = form.requestOf(body, 'logs');
  return decoded(form, request, ['resourceLogs', 'scopeLogs', 'logRecords'], logOf);
}

function decoded<Item>(
  form: Form,
  request: Message,
  [byResource, byScope, items]: readonly [string, string, string],
  itemOf: (form: Form, message: Message, around: Around, budget: Budget) => Item,
): Item[] {
  const made: Item[] = [];
  const budget = new Budget();
  form.forEach(request, byResource, (ofResource) => {
    const from = form.message(ofResource, 'resource');
    const resource = form.attributes(from ?? {});
    form.forEach(ofResource, byScope, (ofScope) => {
      const by = form.message(ofScope, 'scope') ?? {};
      const around = { resource, scope: form.text(by, 'name'), scopeVersion: form.text(by, 'version') };
      form.forEach(ofScope, items, (item) => {
        budget.take();
        made.push(itemOf(form, item, around, budget));
      });
    });
  });
  return made;
}

function commonOf(form: Form, message: Message, around: Around): Decoded {
  return {
    traceId: form.id(message, 'traceId', TRACE_ID_DIGITS),
    spanId: form.id(message, 'spanId', SPAN_ID_DIGITS),
    attributes: form.attributes(message),
    droppedAttributesCount: form.number(message, 'droppedAttributesCount'),
    ...around,
  };
}

function spanOf(form: Form, span: Message, around: Around, budget: Budget): DecodedSpan {
  const flags = form.number(span, 'flags');
  const status = form.message(span, 'status');
  const events: DecodedSpan['events'][number][] = [];
  form.forEach(span, 'events', (event) => {
    budget.take();
    const time = form.time(event, 'timeUnixNano');
    events.push({ name: form.text(event, 'name'), time, attributes: form.attributes(event) });
  });
  return {
    ...commonOf(form, span, around),
    name: form.text(span, 'name'),
    parentSpanId: form.id(span, 'parentSpanId', SPAN_ID_DIGITS),
    isParentRemote: (flags & PARENT_IS_KNOWN) === 0 ? undefined : (flags & PARENT_IS_REMOTE) !== 0,
    start: form.time(span, 'startTimeUnixNano'),
    end: form.time(span, 'endTimeUnixNano'),
    status: { code: status ? form.number(status, 'code') : 0 },
    events,
  };
}

function logOf(form: Form, log: Message, around: Around): DecodedLog {
  const common = commonOf(form, log, around);
  const { 'event.name': olderName } = common.attributes;
  return {
    ...common,
    eventName: form.text(log, 'eventName') || (typeof olderName === 'string' ? olderName : ''),
    time: form.time(log, 'timeUnixNano') || form.time(log, 'observedTimeUnixNano'),
    body: form.value(log, 'body'),
  };
}
