-- The load: every request is a new event with a random version 4 id, otherwise the same bytes.
--
--   wrk ... <url> -- <api key> <bytes before the id> <bytes behind it> <padding> <bytes behind that> <seed>
--
-- What can be made once is made in init; a request costs eight table lookups and one concatenation, so that
-- the generator has time to spare. wrk itself counts the answers; `done` prints what it counted as JSON.

local hex = {}
for i = 0, 0xffff do
  hex[i] = string.format("%04x", i)
end

local random = math.random
local head, rest

local threads = 0
function setup(thread)
  thread:set("thread_number", threads)
  threads = threads + 1
end

function init(args)
  local key, before, middle, padding, after, seed = args[1], args[2], args[3], args[4], args[5], args[6]
  rest = middle .. string.rep("x", tonumber(padding)) .. after
  local length = #before + 36 + #rest
  head = table.concat({
    "POST " .. wrk.path .. " HTTP/1.1",
    "Host: " .. wrk.host .. ":" .. wrk.port,
    "Content-Type: application/json",
    "X-API-Key: " .. key,
    "Content-Length: " .. length,
    "",
    before,
  }, "\r\n")
  math.randomseed(tonumber(seed) + thread_number / 64)
end

function request()
  return head
    .. hex[random(0, 0xffff)]
    .. hex[random(0, 0xffff)]
    .. "-"
    .. hex[random(0, 0xffff)]
    .. "-"
    .. hex[0x4000 + random(0, 0x0fff)]
    .. "-"
    .. hex[0x8000 + random(0, 0x3fff)]
    .. "-"
    .. hex[random(0, 0xffff)]
    .. hex[random(0, 0xffff)]
    .. hex[random(0, 0xffff)]
    .. rest
end

function done(summary, latency)
  local errors = summary.errors
  local function ms(microseconds)
    return string.format("%.3f", microseconds / 1000)
  end
  io.write(
    "\n{",
    '"requests":', string.format("%d", summary.requests),
    ',"seconds":', string.format("%.6f", summary.duration / 1e6),
    ',"bytes":', string.format("%d", summary.bytes),
    ',"errors":{"status":', errors.status,
    ',"connect":', errors.connect,
    ',"read":', errors.read,
    ',"write":', errors.write,
    ',"timeout":', errors.timeout,
    '},"latencyMs":{"p50":', ms(latency:percentile(50)),
    ',"p90":', ms(latency:percentile(90)),
    ',"p99":', ms(latency:percentile(99)),
    ',"max":', ms(latency.max),
    "}}\n"
  )
end
