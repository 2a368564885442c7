-- KEYS: origin, version, record, session, meta. ARGV: what to do, a random text, the greatest TTL, for how
-- many seconds a server is young, the epoch and the greatest number that the caller knows, a meta item of
-- a store that lost all, the channel, the database; then what the operation needs.
redis.call('SELECT', ARGV[9]) -- for the script alone, whatever was selected on the connection
local versions, channel, maxValue, maxNews = KEYS[2], ARGV[8], 1048576, 8192
local hashes = {record = KEYS[3], session = KEYS[4], meta = KEYS[5]}

local function sum(text) return string.sub(redis.sha1hex(text), 1, 16) end

-- get returns the version of an item and its text: when it was written and made, and the sum of its text.
-- If somebody else wrote it, the version ends in another sum. "" stands for no item.
local function get(kind, name)
  local text = redis.call('HGET', hashes[kind], name)
  if not text then return '', '' end
  local version, now = redis.call('HGET', versions, kind .. ':' .. name) or '', sum(text)
  if string.sub(version, -16) ~= now then version = version .. '!' .. now end
  return version, text
end

local function put(kind, name, text, at, before)
  local made = string.match(before, '^[^/]+/([^/]+)/') or at
  redis.call('HSET', versions, kind .. ':' .. name, at .. '/' .. made .. '/' .. sum(text))
  redis.call('HSET', hashes[kind], name, text)
end

-- worked returns for how many seconds the server has worked at least: it is not younger. How long it has run is told by
-- the time of day, which may be set.
local function worked()
  local seconds = 0
  for n in string.gmatch(redis.call('INFO', 'cpu'), 'used_cpu_%a+_main_thread:(%d+)') do seconds = seconds + tonumber(n) end
  return seconds
end

local replication, server = redis.call('INFO', 'replication'), redis.call('INFO', 'server')
if not string.find(replication, 'role:master', 1, true) then
  return redis.error_reply('READONLY the server is a replica')
end
local run, id = string.match(server, 'run_id:(%x+)'), string.match(replication, 'master_replid:(%x+)')
local promoted = string.find(string.match(replication, 'master_replid2:(%x+)'), '[^0]') -- or loaded by its like
local origin = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'replication', 'number', 'max_ttl')
local epoch, number, maxTTL = origin[1], math.max(0, tonumber(origin[4] or '') or 0), origin[5] or ARGV[3]

-- The data may be older than what was acknowledged if another process has them, if this one was a replica
-- meanwhile, or if the caller has seen a greater number.
if not epoch or origin[2] ~= run or (origin[3] ~= id and promoted) or (epoch == ARGV[5] and number < tonumber(ARGV[6])) then
  local before = epoch
  epoch = string.sub(id, 1, 8) .. '.' .. ARGV[2]
  local done = redis.pcall('HSET', KEYS[1], 'epoch', epoch, 'run', run, 'replication', id, 'number', string.format('%.0f', number), 'max_ttl', maxTTL)
  if type(done) == 'table' and done.err then
    if not string.find(done.err, 'NOPERM') and not string.find(done.err, "can't run this command") and not string.find(done.err, 'ACL failure') then return done end
    epoch = string.sub(id, 1, 8) .. '.unknown' -- an observer may not write
  elseif not before and redis.call('HLEN', hashes.meta) == 0 and (promoted or worked() < tonumber(ARGV[4])) then
    put('meta', '', ARGV[7], '0.' .. ARGV[2], '')
  end
end
local out = {epoch, string.format('%.0f', number), maxTTL, redis.call('HLEN', hashes.record), ARGV[2]}

local function answer(kind, name)
  local version, text = get(kind, name)
  out[#out + 1], out[#out + 2] = version, #text > maxValue and '' or text
end

-- tell adds an item to what is published. The channel has a place for each process, so a long message only says that
-- something has changed.
local news, size = {epoch, ''}, 0
local function tell(kind, name)
  if size > maxNews then return end
  local version, text = get(kind, name)
  size = size + #name + #version + #text
  for _, part in ipairs({kind, name, version, text}) do news[#news + 1] = part end
end

if ARGV[1] == 'read' then -- kind, name
  for i = 10, #ARGV, 2 do answer(ARGV[i], ARGV[i + 1]) end
elseif ARGV[1] == 'names' then -- kind
  for _, name in ipairs(redis.call('HKEYS', hashes[ARGV[10]])) do out[#out + 1] = name end
elseif epoch == ARGV[5] then -- number of changes, changes: number of items, notify, items: kind, name, version, put or delete or check, text
  local i, begun, notify = 11, false, false -- notify: "", "-" or the session that is told, too
  for _ = 1, tonumber(ARGV[10]) do
    local items, ok = tonumber(ARGV[i]), true
    for j = i + 2, i + 1 + 5 * items, 5 do
      ok = ok and get(ARGV[j], ARGV[j + 1]) == ARGV[j + 2]
    end
    if ok then
      number = number + 1
      redis.call('HSET', KEYS[1], 'number', string.format('%.0f', number))
      if not begun then redis.call('HDEL', versions, '') end -- nothing was changed yet if the right is missing
      begun = true
      for j = i + 2, i + 1 + 5 * items, 5 do
        if ARGV[j + 3] == 'put' then
          put(ARGV[j], ARGV[j + 1], ARGV[j + 4], string.format('%.0f.', number) .. ARGV[2], ARGV[j + 2])
        elseif ARGV[j + 3] == 'delete' then
          redis.call('HDEL', hashes[ARGV[j]], ARGV[j + 1])
          redis.call('HDEL', versions, ARGV[j] .. ':' .. ARGV[j + 1])
        end
        if ARGV[i + 1] ~= '' and ARGV[j + 3] ~= 'check' then tell(ARGV[j], ARGV[j + 1]) end
      end
      if ARGV[i + 1] ~= '' then
        notify = true
        if ARGV[i + 1] ~= '-' then tell('session', ARGV[i + 1]) end
      end
    end
    out[#out + 1] = ok and string.format('%.0f', number) or ''
    i = i + 2 + 5 * items
  end
  if ARGV[1] == 'replicate' and not begun then -- WAIT is about what its connection has written: a copy of this request may have come first
    redis.call('HSET', KEYS[1], 'number', string.format('%.0f', number))
  end
  news[2] = string.format('%.0f', number)
  if notify then redis.pcall('PUBLISH', channel, size > maxNews and '' or table.concat(news, '\n')) end -- once, for however many changes
  for j = i, #ARGV, 3 do -- kind, name, version
    if get(ARGV[j], ARGV[j + 1]) ~= ARGV[j + 2] then
      out[#out + 1] = (j - i) / 3
    end
  end
  out[2], out[4] = string.format('%.0f', number), redis.call('HLEN', hashes.record)
end
return out
