-- Statements of sequencing.ts.

-- name: seen
WITH before AS (SELECT seen_at FROM collectors WHERE collector_id = $1::uuid FOR UPDATE),
now AS (UPDATE collectors SET seen_at = clock_timestamp() WHERE collector_id = $1::uuid)
SELECT seen_at > clock_timestamp() - interval '1 minute', extract(epoch FROM clock_timestamp()) * 1000 FROM before

-- A closing batch after the last batch of each lane whose collector was not seen for an hour.
-- name: close_abandoned
INSERT INTO batches (lane, batch, candidates, entries, leaves, closes)
SELECT l.lane, coalesce(b.batch, 0) + 1, 0, 0, '', true
FROM open_lanes o
CROSS JOIN LATERAL (SELECT * FROM lanes WHERE lane = o.lane OFFSET 0) l
CROSS JOIN LATERAL (SELECT * FROM collectors WHERE collector_id = l.collector_id OFFSET 0) c
LEFT JOIN LATERAL (SELECT batch, closes FROM batches WHERE lane = o.lane ORDER BY batch DESC LIMIT 1) b ON true
WHERE c.seen_at < clock_timestamp() - interval '1 hour' AND b.closes IS NOT TRUE
ON CONFLICT DO NOTHING

-- Whether a row s of sequenced belongs to a batch and its sequences are assigned: a sequencer wrote it.
-- name: is_place
(s.entries = 0 OR s.first_sequence + s.entries - 1 <= (SELECT size FROM heads))
  AND s.entries = (SELECT entries FROM batches WHERE lane = s.lane AND batch = s.batch)

-- The last batch of an open lane l that has a place; 0 without one.
-- name: last_placed
coalesce((SELECT s.batch FROM sequenced s WHERE s.lane = l.lane AND :is_place ORDER BY s.batch DESC LIMIT 1), 0)

-- Batches without a place, the age of the oldest in milliseconds, and the number of future months that have tables.
-- Ages are bounded: someone may have inserted a time that the subtraction would refuse.
-- name: waiting_batches
SELECT count(b.batch), coalesce(greatest(0, extract(epoch FROM clock_timestamp() - greatest(
    least(min(b.committed_at), clock_timestamp()), clock_timestamp() - interval '20 days')) * 1000)::int, 0),
  (SELECT count(*) FROM periods WHERE begins > date_trunc('month', clock_timestamp()))
FROM open_lanes l
CROSS JOIN LATERAL (SELECT :last_placed AS done) d
CROSS JOIN LATERAL (SELECT * FROM batches b WHERE b.lane = l.lane AND b.batch > d.done OFFSET 0) b

-- name: lock_head
SELECT size, own_entries, bytes FROM heads FOR UPDATE SKIP LOCKED

-- Run by COPY. At most :most batches of a lane.
-- name: committed_batches
SELECT l.lane, d.done, b.batch, b.entries, b.own, b.bytes, b.closes, b.candidates, b.leaves, b.repeats, b.seal,
  greatest(0, extract(epoch FROM clock_timestamp() - greatest(
    least(b.committed_at, clock_timestamp()), clock_timestamp() - interval '20 days')) * 1000)::int
FROM open_lanes l
CROSS JOIN LATERAL (SELECT :last_placed AS done) d
CROSS JOIN LATERAL (SELECT * FROM batches b
  WHERE b.lane = l.lane AND b.batch > d.done ORDER BY batch LIMIT :most) b
ORDER BY max(b.committed_at) OVER (PARTITION BY l.lane ORDER BY b.batch), l.lane, b.batch

-- name: place_batches
INSERT INTO sequenced (lane, batch, first_sequence, entries)
SELECT * FROM unnest($1::int[], $2::int[], $3::bigint[], $4::smallint[])

-- name: close_lanes
SELECT close_lanes($1::int[])

-- name: advance_head
UPDATE heads SET size = $2, own_entries = $3, bytes = $4, advanced_at = clock_timestamp() WHERE size = $1

-- name: replication
SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'),
  current_setting('client_min_messages')
