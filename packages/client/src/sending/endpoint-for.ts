/** Which endpoint the options of an application ask for. */
import { setImmediate } from 'node:timers';
import type { Agent } from 'node:http';
import { AgentEndpoint } from './agent-endpoint.js';
import { collectorUrl, type Endpoint, type EndpointOptions, keyOf } from './endpoint.js';
import { WireEndpoint } from './wire-endpoint.js';

export interface Destination extends Omit<EndpointOptions, 'url'> {
  /** As a deployment has set it, so it may be none: then every request fails with CannotSend. */
  readonly url: unknown;
  readonly agent?: Agent | undefined;
}

export function endpointFor({ url, agent, ...more }: Destination): Endpoint {
  let address: URL;
  try {
    address = collectorUrl(url);
  } catch (error) {
    return {
      post: (_kind, _body, requester) => void setImmediate(() => requester.failed(error)),
      close: () => undefined,
    };
  }
  const options = { ...more, url: address };
  return agent ? new AgentEndpoint({ ...options, agent }) : new WireEndpoint(options);
}

/** @throws CannotSend when these can never send; of a function for the key that cannot be told. */
export function checkDestination({ url, apiKey }: Pick<Destination, 'url' | 'apiKey'>): void {
  collectorUrl(url);
  if (typeof apiKey !== 'function') keyOf({ apiKey });
}
