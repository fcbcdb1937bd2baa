-- Statements of evidence.ts.

-- Run by COPY. Rows of the given batches, each with whether event_ids registers it. 62 is the size of the fixed part
-- of an envelope, 15 the first byte of its event id (packages/protocol/src/leaf.ts).
-- name: audited_rows
SELECT s.n, e.payload_state, e.envelope, e.salted,
  (k.lane = e.lane AND k.batch = e.batch AND k.ord = e.ord AND o.name IS NOT NULL)::int
FROM unnest(:lanes::int[], :batches::int[]) WITH ORDINALITY AS s (lane, batch, n)
CROSS JOIN LATERAL (SELECT * FROM events WHERE lane = s.lane AND batch = s.batch OFFSET 0) e
LEFT JOIN LATERAL (SELECT * FROM event_ids WHERE event_id = CASE WHEN length(e.envelope) >= 62
    THEN encode(substring(e.envelope FROM 15 FOR 16), 'hex')::uuid END
  AND lane = e.lane AND batch = e.batch OFFSET 0) k ON true
LEFT JOIN organisations o ON o.organisation_id = k.organisation_id
ORDER BY s.n, e.ord

-- Batches with entries and without a place, with their age in milliseconds. The age is bounded: someone may have
-- inserted a time that the subtraction would refuse.
-- name: unplaced_batches
SELECT lane, batch, entries, seal IS NULL,
  greatest(0, extract(epoch FROM clock_timestamp() - greatest(
    least(committed_at, clock_timestamp()), clock_timestamp() - interval '20 days')) * 1000)::int,
  count(*) OVER (), sum(entries) OVER ()
FROM batches b WHERE entries > 0
  AND NOT EXISTS (SELECT 1 FROM sequenced s WHERE s.lane = b.lane AND s.batch = b.batch AND s.entries = b.entries)
ORDER BY lane, batch LIMIT 1000

-- name: leaves_of_batch
SELECT encode(leaves, 'hex') FROM batches WHERE lane = $1 AND batch = $2

-- name: is_served
SELECT EXISTS (SELECT 1 FROM collectors WHERE seen_at > clock_timestamp() - interval '30 seconds')

-- Lanes whose committed batches are not 1, 2, 3 …
-- name: uneven_lanes
SELECT lane, count(*), max(batch) FROM batches GROUP BY lane HAVING count(*) <> max(batch) ORDER BY lane LIMIT 10

-- Batches that have a place with another number of entries.
-- name: contradicting_places
SELECT s.lane, s.batch FROM sequenced s LEFT JOIN batches b USING (lane, batch)
WHERE b.entries IS DISTINCT FROM s.entries ORDER BY s.lane, s.batch LIMIT 10

-- Places after the end of the log, which no sequencer assigned.
-- name: places_after_end
SELECT count(*) FROM sequenced, heads WHERE sequenced.entries > 0 AND first_sequence + sequenced.entries - 1 > size

-- The actions that collectors follow, in order; some have no place yet, or no batch.
-- name: listed_actions
SELECT a.number, a.lane, a.batch, s.first_sequence, b.lane IS NOT NULL
FROM actions a LEFT JOIN sequenced s USING (lane, batch) LEFT JOIN batches b USING (lane, batch) ORDER BY a.number
