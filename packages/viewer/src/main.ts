#!/usr/bin/env node
/** The `collector-viewer` command. */
