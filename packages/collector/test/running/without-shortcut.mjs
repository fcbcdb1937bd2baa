// Loaded before a collector: all its requests go to Node's HTTP server.
import { Listener } from '../../dist/ingest/listener.js';

Listener.hasShortcut = false;
