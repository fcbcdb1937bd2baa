/** How `collector-spool` ends. Scripts rely on these numbers, which are those of `collector`: add, never change one. */
export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 2,
  damaged: 3,
  notFound: 6,
  partly: 7,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** A command could not do what it was asked to. One line, for people; without a key or anything of an event. */
export class CommandFailure extends Error {
  override name = 'CommandFailure';
  constructor(
    message: string,
    readonly exitCode: ExitCode,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
