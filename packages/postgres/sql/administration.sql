-- Statements of schema.ts and administration.ts.

-- name: has_migrations
SELECT to_regclass('schema_migrations') IS NOT NULL

-- name: lock_migration
SELECT pg_advisory_xact_lock(hashtext('collector ' || $1))

-- older_may_run: whether collectors that do not know the migration may run beside newer ones.
-- name: create_migrations
CREATE TABLE IF NOT EXISTS schema_migrations (
  id int PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL, older_may_run boolean NOT NULL DEFAULT true,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp())

-- name: note_migration
INSERT INTO schema_migrations (id, name, sha256, older_may_run) VALUES ($1, $2, $3, $4)

-- name: migrations
SELECT id, name, sha256, older_may_run FROM schema_migrations ORDER BY id

-- name: begin_log
INSERT INTO log (ledger_id, system_id, durability)
SELECT $1, system_identifier, $2 FROM pg_control_system() ON CONFLICT DO NOTHING

-- The newest period, and the period of the month of $1.
-- name: periods
SELECT coalesce(max(period), -1), coalesce(
  (SELECT max(period) FROM periods WHERE begins <= date_trunc('month', $1::timestamptz)::date), 0) FROM periods

-- name: add_period
INSERT INTO periods (period, from_lane, to_lane, next_lane, begins)
SELECT $1::int, $2::int, $3::int, $4::int, coalesce(
  (SELECT max(begins) + interval '1 month' FROM periods), date_trunc('month', $5::timestamptz))::date

-- name: adopt_log
UPDATE log SET system_id = (SELECT system_identifier FROM pg_control_system())

-- name: remove_payloads
UPDATE events e SET payload_state = 2, salted = NULL
FROM unnest($1::int[], $2::int[], $3::smallint[]) AS t (lane, batch, ord)
WHERE e.lane = t.lane AND e.batch = t.batch AND e.ord = t.ord AND e.payload_state = 1

-- name: key_server
SELECT current_setting('fsync'), current_setting('synchronous_standby_names'),
  current_setting('synchronous_commit'), current_setting('archive_mode')

-- name: server
SELECT current_setting('server_version_num')::int, current_setting('fsync'), current_setting('full_page_writes'),
  current_setting('data_checksums'), current_setting('server_version')

-- name: standby_names
SELECT current_setting('synchronous_standby_names')

-- name: standby_count
SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'),
  (SELECT count(*) FROM pg_stat_get_wal_senders() WHERE sync_state IN ('sync', 'quorum')),
  pg_has_role('pg_read_all_stats', 'USAGE')

-- name: disabled_plans
SELECT name FROM pg_settings WHERE name LIKE 'enable\_%' AND setting = 'off' AND boot_val = 'on' ORDER BY name

-- name: logged_parameters
SELECT current_setting('log_parameter_max_length'), current_setting('log_parameter_max_length_on_error'),
  current_setting('log_statement'), current_setting('log_min_duration_statement'), current_user

-- name: months_ahead
SELECT count(*) FROM periods WHERE begins > date_trunc('month', clock_timestamp())

-- name: index_and_cache
SELECT pg_relation_size('event_ids_pkey'), pg_size_bytes(current_setting('effective_cache_size'))

-- name: transaction_age
SELECT max(age(datfrozenxid)) FROM pg_database
