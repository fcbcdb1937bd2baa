#!/usr/bin/env node
/**
 * The `collector` command. Only stray-signals.js and this check may be imported before it: an older Node fails on the first
 * file that imports `node:sqlite`, with a stack that names a file of ours and no cure.
 */
import './stray-signals.js';
