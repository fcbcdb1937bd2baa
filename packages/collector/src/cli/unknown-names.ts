/** Names in a filter that no event of the log has: mostly a slip, which an empty answer would not show. */
import { didYouMean } from '@clinical-events/protocol';
import { openStore } from '../store/open.js';
import type { StoredEvent } from '../store/store.js';
import { printable } from './printable.js';

export interface NameFilter {
  readonly organisation?: string | undefined;
  /** MODEL_ID or MODEL_ID@VERSION. */
  readonly model?: string | undefined;
}

/** Of each kind so many are kept to guess from, and none that is longer. */
const MOST_NAMES = 1000;
const LONGEST_NAME = 200;

/**
 * Reads the log once more, up to where every name has been seen: for when nothing was found.
 * @param signal ends it; nothing is told then.
 * @returns a warning for each name that stands in no event, with the nearest one that does.
 */
export async function unknownNames(
  dataDir: string,
  { organisation, model }: NameFilter,
  signal?: AbortSignal,
): Promise<string[]> {
  const wanted = [
    ...(organisation === undefined ? [] : [new WantedName('organisation', organisation, organisationOf)]),
    ...(model === undefined ? [] : [new WantedName('model', model, modelsOf)]),
  ];
  const log = openStore(dataDir).events;
  try {
    for await (const batch of log.scan({})) {
      if (signal?.aborted) return [];
      for (const event of batch) for (const name of wanted) name.look(event);
      if (wanted.every(({ seen }) => seen)) break;
    }
  } finally {
    await log.close();
  }
  return wanted.filter(({ seen }) => !seen).map((name) => name.warning());
}

class WantedName {
  seen = false;
  readonly #others = new Set<string>();

  constructor(
    private readonly what: string,
    private readonly name: string,
    private readonly namesIn: (event: StoredEvent) => readonly string[],
  ) {}

  look(event: StoredEvent): void {
    if (this.seen) return;
    for (const name of this.namesIn(event)) {
      if (name === this.name) this.seen = true;
      if (this.#others.size < MOST_NAMES && name.length <= LONGEST_NAME) this.#others.add(name);
    }
  }

  warning(): string {
    // A sender's characters must not move the cursor.
    const others = [...this.#others].filter((name) => printable(name) === name);
    return `no event names the ${this.what} "${printable(this.name)}"${didYouMean(this.name, others)}`;
  }
}

function organisationOf({ organisation }: StoredEvent): readonly string[] {
  return [organisation];
}

function modelsOf({ kind, payloadState, body }: StoredEvent): readonly string[] {
  if (kind !== 'inference-start' || payloadState !== 'plain') return [];
  const { model_instance: model } = JSON.parse(body.toString()) as { readonly model_instance?: unknown };
  const { model_id: id, model_version: version } = (model ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof id !== 'string') return [];
  return typeof version === 'string' ? [id, `${id}@${version}`] : [id];
}
