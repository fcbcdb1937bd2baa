-- Statements of postgres-vault.ts, in the database of payload keys.

-- Collectors that begin a log at the same time take turns.
-- name: lock_vault_creation
SELECT pg_advisory_xact_lock(hashtext('collector encryption keys'))

-- name: vault_is_missing
SELECT to_regclass('encryption_keys') IS NULL

-- Replaced bytes stay in their page until it is vacuumed, so it is vacuumed immediately. Bytes that remain are wrapped
-- by the key of an epoch that ends.
-- name: create_vault
CREATE TABLE IF NOT EXISTS encryption_keys (
  name text COLLATE "C" PRIMARY KEY, bytes bytea, version bigint NOT NULL UNIQUE)
WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)

-- Writers take turns: an epoch cannot end while a state is written under it, and versions become visible in order.
-- name: lock_vault
LOCK TABLE encryption_keys IN SHARE ROW EXCLUSIVE MODE

-- Always includes the newest row, which is the row of marks: every write ends with it.
-- name: newer_records
SELECT name, bytes, version FROM encryption_keys
WHERE version BETWEEN least($1::bigint + 1, (SELECT max(version) FROM encryption_keys))
  AND (SELECT max(version) FROM encryption_keys) ORDER BY version

-- name: put_record
INSERT INTO encryption_keys (name, bytes, version) VALUES ($1, $2::bytea, $5::bigint + 1), ($3, $4::bytea, $5::bigint + 2)
ON CONFLICT (name) DO UPDATE SET bytes = excluded.bytes, version = excluded.version

-- A write that changes nothing, but needs everything that the write of a record needs.
-- name: try_vault
UPDATE encryption_keys SET bytes = bytes WHERE name = 'marks'

-- name: cluster
SELECT system_identifier::text FROM pg_control_system()
