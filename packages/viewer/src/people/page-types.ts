/** Inputs of the pages around a login; pages/people-pages.ts makes their HTML. */
import type { Role } from '../contract.js';

/** The name of the hidden field of each form; its value is `formToken`. */
export const FORM_TOKEN = 'form_token';

/** The ways for a person without a session. */
export type SignInShown =
  | {
      /** A link to `/sign-in/begin`, which goes to the provider. */
      readonly how: 'oidc';
      /** The host name of the provider. */
      readonly provider: string;
      /** A sentence about the last attempt or the state of the provider; undefined if there is none. */
      readonly problem: string | undefined;
    }
  | {
      /** A button: a form that posts the hidden field `token` to `/sign-in/link`. */
      readonly how: 'link';
      readonly token: string;
    }
  | {
      /** No link: a sentence that says where the one-time link is, or what the proxy must do. */
      readonly how: 'local' | 'proxy';
      readonly problem: string | undefined;
    };

/** A role that the person has. */
export interface RoleShown {
  readonly role: Role;
  /** Where the role begins: `/ROLE/runs`, or `/break-glass` while break-glass is not granted. */
  readonly path: string;
  /** Undefined: all. */
  readonly organisations: readonly string[] | undefined;
  readonly applications: readonly string[] | undefined;
}

/** The page `/`: the roles of a person, and the button to sign out (a form that posts to `/sign-out`). */
export interface RolesShown {
  readonly name: string;
  readonly roles: readonly RoleShown[];
  /** Sentences about roles that the person does not have now, with the reason. */
  readonly notes: readonly string[];
  /** For the form that signs out. */
  readonly signOutToken: string;
}

/** The page `/break-glass`: a form that posts the field `reason` to `/break-glass`. */
export interface BreakGlassShown {
  readonly name: string;
  readonly formToken: string;
  readonly signOutToken: string;
  /** Why the last reason was not accepted, as a sentence. */
  readonly problem: string | undefined;
  /** The text that was typed; hostile input. */
  readonly reason: string;
  readonly leastCharacters: number;
  readonly mostCharacters: number;
  readonly minutes: number;
  /** The time until which it is granted now (RFC 3339). */
  readonly grantedUntil: string | undefined;
}

/** A page with a few sentences, for a refusal or after signing out. */
export interface MessageShown {
  readonly title: string;
  readonly sentences: readonly string[];
  /** The link below the text: to sign in (`/sign-in`), to the roles (`/`), or none. */
  readonly link: 'sign-in' | 'roles' | undefined;
}

/**
 * A page that opens another one by itself (`<meta http-equiv="refresh">`) and by a link. A cookie that is
 * SameSite=Strict is not sent along a redirect from another site, so a login cannot end in one.
 */
export interface ContinueShown {
  readonly title: string;
  /** `/`, or the address at the provider where the person signs out there. */
  readonly to: string;
  /** The text of the link. */
  readonly text: string;
}

/** Each returns a whole page of HTML. */
export interface PeoplePages {
  signIn(shown: SignInShown): string;
  roles(shown: RolesShown): string;
  breakGlass(shown: BreakGlassShown): string;
  message(shown: MessageShown): string;
  continueTo(shown: ContinueShown): string;
}
