/**
 * The OTLP listener, its request handler, and the thread that parses requests. Loaded only if OTLP is
 * enabled.
 */
import type { Logger } from 'pino';
import type { Config } from '../../config.js';
import type { Ingest } from '../../ingest/ingest.js';
import { Listener } from '../../ingest/listener.js';
import { MOST_REQUEST_BYTES, OtlpReceiver } from '../../otlp/receiver.js';
import { Translator } from '../../otlp/translation.js';
import { cannotListen } from '../listening.js';
import type { ResolvedConfig } from './resolved-config.js';

type OtlpConfig = Config & { readonly otlpPort: number };

export class OtlpSide {
  readonly receiver: OtlpReceiver;
  readonly listener: Listener;
  readonly #translator: Translator;

  constructor(
    private readonly config: OtlpConfig,
    ingest: Ingest,
    tls: ResolvedConfig['tls'],
    log: Logger,
  ) {
    const { otlpPort: port, otlpShown: shown, otlpOutcomes, maxBodyBytes: maxEventBytes } = config;
    const named = otlpOutcomes.split(',').map((name) => name.trim());
    const outcomes = new Set(named.filter((name) => name !== ''));
    this.#translator = new Translator(
      { shown, outcomes, maxEventBytes, maxBodyBytes: MOST_REQUEST_BYTES },
      log,
    );
    this.receiver = new OtlpReceiver({ ingest, translator: this.#translator });
    this.listener = new Listener(ingest, { ...config, port }, tls, this.receiver.endpoints);
  }

  /**
   * Resolves with the port once connections are accepted. @throws CommandFailure if the address cannot be
   * bound.
   */
  async listen(): Promise<number> {
    try {
      return await this.listener.listen();
    } catch (error) {
      const { host, otlpPort: port } = this.config;
      throw cannotListen('OTLP', { host, port }, error, 'Choose another --otlp-port or --host');
    }
  }

  /** Call once the listener is closed. */
  async stop(): Promise<void> {
    this.receiver.stop();
    await this.#translator.stop();
  }
}
