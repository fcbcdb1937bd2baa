-- Statements of action-rows.ts.

-- Actions that have a place, after the last known one ($1). LATERAL with OFFSET 0: see "Plans" in connection.ts.
-- name: newer_actions
SELECT a.number, s.first_sequence, e.envelope, e.salted, a.lane, a.batch, b.candidates, b.leaves, b.repeats, b.seal
FROM (SELECT * FROM actions WHERE number > $1 AND number <= (SELECT max(number) FROM actions)) a
CROSS JOIN LATERAL (SELECT * FROM sequenced WHERE lane = a.lane AND batch = a.batch OFFSET 0) s
CROSS JOIN LATERAL (SELECT * FROM batches WHERE lane = a.lane AND batch = a.batch OFFSET 0) b
CROSS JOIN LATERAL (SELECT * FROM events WHERE lane = a.lane AND batch = a.batch OFFSET 0) e
WHERE s.entries = 1 AND s.first_sequence <= (SELECT size FROM heads) ORDER BY a.number, e.ord

-- name: add_action
INSERT INTO actions (number, lane, batch) VALUES ($1, $2, 1)

-- name: next_action_number
SELECT coalesce(max(number), 0) + 1 FROM actions

-- Whether this collector is the oldest running one: a running collector is seen every ten seconds.
-- name: is_oldest
SELECT collector_id = $1::uuid FROM collectors
WHERE seen_at BETWEEN clock_timestamp() - interval '30 seconds' AND clock_timestamp() + interval '30 seconds'
ORDER BY started_at, collector_id LIMIT 1

-- name: lay_request
INSERT INTO requests (action, request) VALUES ($1::uuid, $2) ON CONFLICT DO NOTHING

-- name: waiting_requests
SELECT action, request FROM requests WHERE request IS NOT NULL ORDER BY asked_at, action

-- name: begin_request
UPDATE requests SET begun_at = coalesce(begun_at, clock_timestamp())
WHERE action = $1::uuid AND request IS NOT NULL

-- The role that withdraws a request may not read the column request.
-- name: withdraw_request
DELETE FROM requests WHERE action = $1::uuid AND begun_at IS NULL AND answer IS NULL

-- name: take_request
UPDATE requests SET request = NULL WHERE action = $1::uuid

-- name: answer_request
INSERT INTO requests (action, answer, answered_at) VALUES ($1::uuid, $2, clock_timestamp())
ON CONFLICT (action) DO UPDATE SET answer = excluded.answer, answered_at = excluded.answered_at

-- name: clear_requests
DELETE FROM requests WHERE request IS NULL AND answered_at < clock_timestamp() - $1 * interval '1 millisecond'

-- name: answer_to_request
SELECT answer FROM requests WHERE action = $1::uuid

-- name: put_hold_record
INSERT INTO hold_records (action, record) VALUES ($1::uuid, $2)

-- name: hold_record
SELECT record FROM hold_records WHERE action = $1::uuid

-- name: remove_hold_record
DELETE FROM hold_records WHERE action = $1::uuid
