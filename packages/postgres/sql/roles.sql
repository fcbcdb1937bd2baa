-- Roles of the log in schema :schema. Run it as the owner of the schema, who may create roles.
-- Grant one of them to each login role:
--   :writer   for collector serve
--   :keys     for collector keys, in addition
--   :reader   for collector events, verify, proof, doctor and mirror
--   :eraser   for collector erase, hold and retention on a mirror: it files requests, and the collectors act
-- None of them can change or delete an event. collector store quarantine and maintain are for the owner.
CREATE ROLE :writer NOLOGIN;
CREATE ROLE :keys NOLOGIN;
CREATE ROLE :reader NOLOGIN;
CREATE ROLE :eraser NOLOGIN;
GRANT USAGE ON SCHEMA :schema TO :writer, :keys, :reader, :eraser;
GRANT SELECT ON ALL TABLES IN SCHEMA :schema TO :writer, :reader;
REVOKE SELECT ON :schema.api_keys FROM :reader;
GRANT EXECUTE ON FUNCTION :schema.append_access_line(text) TO :writer, :keys, :reader;
GRANT EXECUTE ON FUNCTION :schema.close_lanes(int[]) TO :writer;
GRANT INSERT ON :schema.organisations, :schema.event_ids, :schema.events, :schema.open_lanes, :schema.sequenced,
  :schema.tiles, :schema.published, :schema.checkpoints, :schema.log_keys, :schema.seal_key, :schema.encryption,
  :schema.actions, :schema.requests, :schema.api_keys TO :writer;
-- All columns except the times, which the server sets.
GRANT INSERT (collector_id, host, pid, version) ON :schema.collectors TO :writer;
GRANT INSERT (lane, collector_id) ON :schema.lanes TO :writer;
GRANT INSERT (lane, batch, candidates, entries, own, bytes, leaves, closes, repeats, seal) ON :schema.batches
  TO :writer;
GRANT UPDATE ON :schema.heads, :schema.tiles, :schema.published TO :writer;
GRANT DELETE ON :schema.requests TO :writer, :eraser;
GRANT DELETE ON :schema.hold_records TO :writer;
GRANT UPDATE (request, begun_at, answer, answered_at) ON :schema.requests TO :writer;
GRANT UPDATE (next_lane) ON :schema.periods TO :writer;
GRANT UPDATE (seen_at) ON :schema.collectors TO :writer;
GRANT SELECT, UPDATE ON :schema.key_changes TO :writer, :keys;
GRANT SELECT, INSERT, UPDATE ON :schema.api_keys TO :keys;
GRANT SELECT ON :schema.log, :schema.schema_migrations TO :keys;
GRANT SELECT ON :schema.log, :schema.schema_migrations, :schema.encryption TO :eraser;
GRANT INSERT ON :schema.requests, :schema.hold_records TO :eraser;
GRANT SELECT (action, begun_at, answer) ON :schema.requests TO :eraser;
-- Bodies of events are parameters of statements. A server that logs parameters would log patient data. For each
-- login role, as a superuser:
--   ALTER ROLE name SET log_parameter_max_length = 0;
--   ALTER ROLE name SET log_parameter_max_length_on_error = 0;
