-- The load: every request is a new event with a random version 4 id, otherwise the bytes of one of the templates, which
-- are taken in turn.
--
--   wrk ... <url> -- <api key> <file of templates> <seed>
--
-- A line of the file is a template: path, content coding or "-", and in hexadecimal the bytes before the id and behind
-- it. Bytes in a coding are gzip members, and the id is one of its own between them.
--
-- What can be made once is made in init; a request costs eight table lookups and one concatenation, so that
-- the generator has time to spare. wrk itself counts the answers; `done` prints what it counted as JSON.

local bit = require("bit")
local hex = {}
for i = 0, 0xffff do
  hex[i] = string.format("%04x", i)
end

local random = math.random
local templates = {}
local last = 0

local ID_BYTES = 36
-- RFC 1952: a header without a name, one block that is stored as it is, and behind it CRC-32 and length.
local MEMBER_BEFORE = "\31\139\8\0\0\0\0\0\0\255\1\36\0\219\255"
local MEMBER_BYTES = #MEMBER_BEFORE + ID_BYTES + 8
local crcs = {}
for i = 0, 255 do
  local crc = i
  for _ = 1, 8 do
    crc = bit.band(crc, 1) == 1 and bit.bxor(bit.rshift(crc, 1), 0xedb88320) or bit.rshift(crc, 1)
  end
  crcs[i] = crc
end

local function le32(number)
  local byte = function(shift) return bit.band(bit.rshift(number, shift), 0xff) end
  return string.char(byte(0), byte(8), byte(16), byte(24))
end

local function member(id)
  local crc = -1
  for i = 1, ID_BYTES do
    crc = bit.bxor(crcs[bit.band(bit.bxor(crc, id:byte(i)), 0xff)], bit.rshift(crc, 8))
  end
  return MEMBER_BEFORE .. id .. le32(bit.bnot(crc)) .. le32(ID_BYTES)
end

local threads = 0
function setup(thread)
  thread:set("thread_number", threads)
  threads = threads + 1
end

local function bytesOf(digits)
  return (digits:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

function init(args)
  local key, file, seed = args[1], args[2], args[3]
  for line in io.lines(file) do
    local path, coding, before, after = line:match("^(%S+) (%S+) (%x+) (%x+)$")
    before, after = bytesOf(before), bytesOf(after)
    local isCoded = coding ~= "-"
    local length = #before + (isCoded and MEMBER_BYTES or ID_BYTES) + #after
    local head = {
      "POST " .. path .. " HTTP/1.1",
      "Host: " .. wrk.host .. ":" .. wrk.port,
      "Content-Type: application/json",
      "X-API-Key: " .. key,
      "Content-Length: " .. length,
    }
    if isCoded then head[#head + 1] = "Content-Encoding: " .. coding end
    head[#head + 1] = ""
    head[#head + 1] = before
    templates[#templates + 1] = { head = table.concat(head, "\r\n"), rest = after, isCoded = isCoded }
  end
  math.randomseed(tonumber(seed) + thread_number / 64)
end

function request()
  last = last % #templates + 1
  local template = templates[last]
  local id = hex[random(0, 0xffff)]
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
  return template.head .. (template.isCoded and member(id) or id) .. template.rest
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
