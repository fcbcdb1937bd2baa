/** A collector without the thread that keeps the catalogue up to date. */
import { putShells } from './shells.mjs';

putShells({
  'commands/serve/follower.js': `
    export class Follower {
      end() {
        return Promise.resolve();
      }
      [Symbol.asyncDispose]() {
        return this.end();
      }
    }
  `,
});
