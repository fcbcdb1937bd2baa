-- Statements of lane.ts.

-- Last batch of the lane ($1) below a number ($2). No row if the server has lost the row of its opening: then
-- it has no such lane, or another one has the number.
-- name: last_of_lane
SELECT (SELECT coalesce(max(batch), 0) FROM batches b WHERE b.lane = l.lane AND b.batch < $2)
FROM lanes l WHERE l.lane = $1 AND l.collector_id = $3::uuid AND l.opened_at = $4::timestamptz

-- One statement, one transaction. Sorted, so that two batches with the same ids cannot deadlock; the conflict is
-- named, so that a second batch with the same number is an error, not a repeat. 1 is the offset of the kind in an
-- envelope (packages/protocol/src/leaf.ts); kinds from 128 on are the log's own.
-- name: append_batch
WITH input AS MATERIALIZED (
  SELECT * FROM unnest($3::uuid[], $4::int[], $5::smallint[], $6::bytea[], $7::bytea[], $8::bytea[], $11::smallint[])
    AS t (event_id, organisation_id, ord, envelope, salted, leaf, payload_state)),
fresh AS (
  INSERT INTO event_ids (event_id, organisation_id, lane, batch, ord)
  SELECT event_id, organisation_id, $1::int, $2::int, ord FROM input
  ORDER BY event_id, organisation_id, ord
  ON CONFLICT (event_id, organisation_id) DO NOTHING RETURNING ord),
payloads AS (
  INSERT INTO events (lane, batch, ord, payload_state, envelope, salted)
  SELECT $1::int, $2::int, ord, payload_state, envelope, salted FROM input JOIN fresh USING (ord) ORDER BY ord),
noted AS (
  INSERT INTO batches (lane, batch, candidates, entries, own, bytes, leaves, repeats, seal, closes)
  SELECT $1::int, $2::int, count(*), count(f.ord),
    count(*) FILTER (WHERE f.ord IS NOT NULL AND get_byte(envelope, 1) >= 128),
    coalesce(sum(length(envelope) + length(salted)) FILTER (WHERE f.ord IS NOT NULL), 0),
    coalesce(string_agg(leaf, ''::bytea ORDER BY i.ord) FILTER (WHERE f.ord IS NOT NULL), ''),
    string_agg(int2send(i.ord) || leaf, ''::bytea ORDER BY i.ord) FILTER (WHERE f.ord IS NULL), $9, $10
  FROM input i LEFT JOIN fresh f USING (ord))
SELECT ord, current_setting('synchronous_commit'), current_setting('client_min_messages')
FROM (SELECT 1) AS always LEFT JOIN fresh ON true

-- Stored events with the given ids, for comparison. LATERAL with OFFSET 0: see "Plans" in connection.ts.
-- name: stored_events
SELECT i.ord, e.payload_state, e.envelope, e.salted, k.lane, k.batch
FROM unnest($1::uuid[], $2::int[], $3::smallint[]) AS i (event_id, organisation_id, ord)
LEFT JOIN LATERAL (SELECT * FROM event_ids WHERE event_id = i.event_id
  AND organisation_id = i.organisation_id OFFSET 0) k ON true
LEFT JOIN LATERAL (SELECT * FROM events WHERE lane = k.lane AND batch = k.batch AND ord = k.ord
  OFFSET 0) e ON true

-- The columns that the seals of batches cover.
-- name: sealed_batches
SELECT i.lane, i.batch, b.candidates, b.leaves, b.repeats, b.seal,
  (SELECT s.first_sequence FROM sequenced s WHERE s.lane = i.lane AND s.batch = i.batch AND s.entries = b.entries)
FROM unnest($1::int[], $2::int[]) AS i (lane, batch)
CROSS JOIN LATERAL (SELECT * FROM batches WHERE lane = i.lane AND batch = i.batch OFFSET 0) b

-- name: open_lane
WITH drawn AS (
  UPDATE periods SET next_lane = next_lane + 1 WHERE period = (
    SELECT period FROM periods WHERE begins <= current_date AND next_lane <= to_lane
    ORDER BY period DESC LIMIT 1)
  RETURNING next_lane - 1 AS lane),
noted AS (INSERT INTO open_lanes (lane) SELECT lane FROM drawn ON CONFLICT DO NOTHING)
INSERT INTO lanes (lane, collector_id) SELECT lane, $1::uuid FROM drawn RETURNING lane, opened_at

-- name: close_lane
INSERT INTO batches (lane, batch, candidates, entries, leaves, seal, closes)
VALUES ($1, $2, 0, 0, '', $3, true)
RETURNING NULL, current_setting('synchronous_commit'), current_setting('client_min_messages')

-- name: batch_in_doubt
SELECT closes, candidates, seal FROM batches WHERE lane = $1 AND batch = $2

-- name: stored_ords
SELECT ord FROM events WHERE lane = $1 AND batch = $2

-- Whether the server waited for a standby at a commit that it has just answered.
-- name: standbys
SELECT current_setting('synchronous_standby_names'), pg_is_in_recovery(),
  pg_conf_load_time() > clock_timestamp() - interval '1 second'

-- The same, and whether it would wait at the next commit. A role without pg_read_all_stats cannot see that a standby
-- is missing.
-- name: obstacles
:standbys, current_setting('synchronous_commit'), current_setting('client_min_messages'),
  pg_has_role('pg_read_all_stats', 'USAGE') AND NOT EXISTS (
    SELECT 1 FROM pg_stat_get_wal_senders() WHERE sync_state IN ('sync', 'quorum'))

-- name: register_collector
INSERT INTO collectors (collector_id, host, pid, version) VALUES ($1::uuid, $2, $3, $4)
ON CONFLICT DO NOTHING

-- name: organisation_id
WITH made AS (INSERT INTO organisations (name) VALUES ($1) ON CONFLICT (name) DO NOTHING RETURNING organisation_id)
SELECT organisation_id FROM made UNION ALL SELECT organisation_id FROM organisations WHERE name = $1 LIMIT 1
