/** What the tests use of `oidc-provider`, which has no types. */
declare module 'oidc-provider' {
  import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';

  interface Context {
    body: unknown;
    readonly oidc?: {
      readonly route: string;
      readonly client: { readonly clientId: string };
      readonly session: { readonly accountId: string };
      readonly params: Readonly<Record<string, string>>;
      readonly provider: Provider;
    };
  }

  export class Provider {
    constructor(issuer: string, configuration: Readonly<Record<string, unknown>>);
    readonly Grant: new (of: { readonly accountId: string; readonly clientId: string }) => {
      addOIDCScope(scope: string): void;
      save(): Promise<string>;
    };
    use(middleware: (context: Context, next: () => Promise<void>) => Promise<void>): void;
    callback(): RequestListener;
    interactionFinished(request: IncomingMessage, response: ServerResponse, result: unknown): Promise<void>;
  }
}
