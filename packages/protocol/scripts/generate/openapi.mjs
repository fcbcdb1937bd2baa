// The OpenAPI document, from the schemas, the examples and the error table.
import { expectationOf, fieldsOf } from './expectations.mjs';
import { compose, schemaOf } from './schemas.mjs';

const PROSE = {
  'inference-start': {
    operationId: 'recordInferenceStart',
    summary: 'Record the beginning of an inference run',
    description:
      'Send this when a model is called. The `event_id` and `run_id` are the sender’s choice; without a `run_id` the run is named after the `event_id`.',
  },
  'internal-artifact': {
    operationId: 'recordInternalArtifact',
    summary: 'Record an internal artifact',
    description:
      'Send this when a run has produced an intermediate result: retrieved context, a reasoning trace, a tool call. The event has the location of the artifact, not the artifact.',
  },
  'human-output': {
    operationId: 'recordHumanOutput',
    summary: 'Record content shown to a person',
    description: 'Send this when a person was shown content of a run.',
  },
  outcome: {
    operationId: 'recordOutcome',
    summary: 'Record an outcome attributed to an earlier run',
    description:
      'Send this when an outcome for a patient or a system is attributed to an earlier inference. It may arrive months later, or before the other events of its run.',
  },
  'user-feedback': {
    operationId: 'recordUserFeedback',
    summary: 'Record explicit user feedback',
    description: 'Send this when a user has rated a run or commented on it.',
  },
};

const DESCRIPTION = `Receives events about the runs of clinical AI models, one event per call, and stores each as it was sent.

The service is write-once. It answers whether an event was accepted and never returns the content of a record.

**Repeats.** Sending an event again with the same JSON content is safe: it is stored once and the answer is the same. Retry after 408, 429, 500 and 503, or without an answer, with the same body; wait for the time in \`Retry-After\` if there is one.

**Additional fields** are allowed everywhere in an event and are kept.

**Profiles.** Schemas here are those of the profile \`minimum\`. A collector, or an API key, may be set to the profile \`full\`, which requires more; each operation has the list.

**Request ids.** Each answer has a header \`X-Request-Id\`. Quote it when you ask the operator about a refusal.

**Anything else.** A query is ignored. A path that is not listed answers 404. Another method than POST on a listed path answers 405 with \`Allow\`. Both carry an error body.`;

const STATUS_NAMES = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  408: 'RequestTimeout',
  409: 'Conflict',
  413: 'ContentTooLarge',
  415: 'UnsupportedMediaType',
  417: 'ExpectationFailed',
  429: 'TooManyRequests',
  431: 'HeadersTooLarge',
  500: 'InternalError',
  503: 'ServiceUnavailable',
};

/** Example details of the codes that have them. A test compares the issues with the validators. */
const EXAMPLE_DETAILS = {
  validation_failed: {
    issues: [
      { pointer: '/timestamp', rule: 'required', message: 'is required' },
      { pointer: '/event_id', rule: 'format', message: 'must be a UUID' },
    ],
  },
  permission_denied: { permission: 'outcome' },
};

const reference = (section, name) => ({ $ref: `#/components/${section}/${name}` });
const REQUEST_ID_HEADER = { 'X-Request-Id': reference('headers', 'RequestId') };

/** A schema as a component. A subschema with a title becomes a component, replaced by a $ref. */
function component(schema, schemas, components) {
  const converted = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === '$id' || keyword === '$schema' || keyword === 'title') continue;
    if (keyword === '$ref') return embedded(schemas.get(value), schemas, components);
    if (keyword === 'allOf') {
      converted.allOf = value.map((part) => component(part, schemas, components));
    } else if (keyword === 'items') {
      converted.items = embedded(value, schemas, components);
    } else if (keyword === 'properties') {
      converted.properties = {};
      for (const [name, property] of Object.entries(value)) {
        converted.properties[name] = embedded(property, schemas, components);
      }
    } else {
      converted[keyword] = value;
    }
  }
  // The default, but API tools take silence for a closed object: they warn of examples and drop fields.
  if (converted.type === 'object') converted.additionalProperties = true;
  return converted;
}

function embedded(schema, schemas, components) {
  if (schema.title === undefined) return component(schema, schemas, components);
  components[schema.title] ??= component(schema, schemas, components);
  return reference('schemas', schema.title);
}

/** The additional requirements of `full`, as a list for the description of an operation. */
function fullProfileNote(kind, schemas) {
  const fieldsUnder = (profile) => fieldsOf(compose(schemas.get(schemaOf(kind, profile)), schemas));
  const minimum = new Map(fieldsUnder('minimum').map(({ pointer, schema }) => [pointer, schema]));
  const notes = fieldsUnder('full').flatMap(({ pointer, schema }) => {
    const known = minimum.get(pointer);
    const nameOf = (name) => `\`${`${pointer}/${name}`.slice(1).replaceAll('/', '.')}\``;
    const required = (schema.required ?? [])
      .filter((name) => !known?.required?.includes(name))
      .map((name) => `- ${nameOf(name)} is required`);
    const typed =
      known === undefined
        ? [`- \`${pointer.slice(1).replaceAll('/', '.')}\`, if sent, ${expectationOf(schema)}`]
        : [];
    return [...typed, ...required];
  });
  if (notes.length === 0) return 'The profile `full` requires nothing more.';
  return `Under the profile \`full\`:\n\n${notes.join('\n')}`;
}

function eventExamples(examples) {
  return Object.fromEntries(
    Object.entries(examples).map(([name, { summary, profiles, value }]) => [
      name,
      {
        summary,
        description: profiles.includes('full')
          ? 'Valid under every profile.'
          : 'Valid under the profile minimum.',
        value,
      },
    ]),
  );
}

function operation(kind, schemas, examples, failures, components) {
  const { operationId, summary, description } = PROSE[kind];
  return {
    operationId,
    tags: ['Events'],
    summary,
    description: `${description}\n\n${fullProfileNote(kind, schemas)}`,
    security: [{ apiKey: [] }],
    parameters: [reference('parameters', 'ContentEncoding'), reference('parameters', 'EventDoor')],
    requestBody: {
      required: true,
      description: 'One event.',
      content: {
        'application/json': {
          schema: embedded(schemas.get(schemaOf(kind, 'minimum')), schemas, components),
          examples: eventExamples(examples[kind]),
        },
      },
    },
    responses: {
      201: reference('responses', 'Accepted'),
      ...Object.fromEntries(failures.map((status) => [status, reference('responses', STATUS_NAMES[status])])),
    },
  };
}

/** The occasion of the only code that a status has, or a list of the codes and theirs. */
function failureDescription(entries) {
  if (entries.length === 1) return entries[0][1].when;
  return `By its code:\n\n${entries.map(([code, entry]) => `- \`${code}\`: ${entry.when}`).join('\n')}`;
}

function failureResponse(entries, errorBody) {
  const response = {
    description: failureDescription(entries),
    content: {
      'application/json': {
        schema: reference('schemas', 'ErrorBody'),
        examples: Object.fromEntries(
          entries.map(([code, entry]) => [
            code,
            { summary: entry.when, value: errorBody(code, EXAMPLE_DETAILS[code]) },
          ]),
        ),
      },
    },
  };
  const headers = REQUEST_ID_HEADER;
  if (!entries.some(([, entry]) => entry.retryAfter)) return { ...response, headers };
  return { ...response, headers: { ...headers, 'Retry-After': reference('headers', 'RetryAfter') } };
}

function acceptedResponse(schemas, components) {
  return {
    description: 'Event accepted',
    headers: REQUEST_ID_HEADER,
    content: {
      'application/json': {
        schema: embedded(schemas.get('accepted.json'), schemas, components),
        examples: { accepted: { summary: 'A new event or a repeat of one', value: { status: 'accepted' } } },
      },
    },
  };
}

export function renderOpenapi({ schemas, examples, kinds, paths, version, errors, errorBody }) {
  const components = {};
  embedded(schemas.get('error.json'), schemas, components);
  // No operation answers a request for another path or another method: 404 and 405 are in the description.
  const failures = Object.keys(STATUS_NAMES).map(Number);
  const entriesOf = (status) => Object.entries(errors).filter(([, entry]) => entry.status === status);
  const operations = kinds.map((kind) => [
    paths[kind],
    { post: operation(kind, schemas, examples, failures, components) },
  ]);
  const responses = {
    Accepted: acceptedResponse(schemas, components),
    ...Object.fromEntries(
      failures.map((status) => [STATUS_NAMES[status], failureResponse(entriesOf(status), errorBody)]),
    ),
  };
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'Event log of clinical AI',
      version,
      summary: 'A write-once collector of events about the runs of clinical AI models',
      description: DESCRIPTION,
      license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
    },
    servers: [
      {
        url: '{base_url}',
        description: 'A collector',
        variables: {
          base_url: {
            default: 'http://127.0.0.1:8080',
            description: 'The address of the collector, without a slash at the end.',
          },
        },
      },
    ],
    security: [{ apiKey: [] }],
    tags: [{ name: 'Events', description: 'Append one event to the log.' }],
    paths: Object.fromEntries(operations),
    components: {
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'X-API-Key',
          description: 'A key issued by the operator of the collector.',
        },
      },
      parameters: {
        ContentEncoding: {
          name: 'Content-Encoding',
          in: 'header',
          required: false,
          description: 'The compression of the body. The size limit applies before and after decompression.',
          schema: { type: 'string', enum: ['gzip', 'br', 'zstd'] },
        },
        EventDoor: {
          name: 'X-Event-Door',
          in: 'header',
          required: false,
          description:
            'With the value `import`, the log records the event as imported. Other values are ignored; the answers are the same.',
          schema: { type: 'string', examples: ['import'] },
        },
      },
      headers: {
        RequestId: {
          description: 'The random id of this request in the log of the collector.',
          schema: { type: 'string', pattern: '^[0-9a-f]{20}$' },
          example: '5c0d9a41f27be86305aa',
        },
        RetryAfter: {
          description: 'Seconds to wait before sending the same request again.',
          schema: { type: 'integer', minimum: 1 },
          example: 1,
        },
      },
      responses,
      schemas: Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
    },
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}
