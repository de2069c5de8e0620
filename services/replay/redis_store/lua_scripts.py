"""The Lua scripts of ``RedisBuffer``: each is atomic, and safe to repeat after a lost reply.

A learner's scripts check in the same step that it holds the lock (``KEYS[1]`` equals ``ARGV[1]``), and return
``{"held", holder}`` if it does not. They may run while the server is out of memory (``allow-oom``), because the
learner's acknowledgements free memory.

Others may write to the server too: a holder is cut to ``HOLDER_BYTES``, and of an entry over the given size only the
size is sent. A script checks its keys' types before it changes the first one, because a failure undoes nothing.
"""

from __future__ import annotations

HOLDER_BYTES = 1024  # of a lock's value, far more than a learner's
ID_BYTES = 801  # of an entry's id; one of that length is longer than any name (``replies.NAME_LENGTH``)

# KEYS: seen, roles, counters, then the stream of each episode.
# ARGV: token of this call, group, then role, episode id and data of each episode. Returns how many are new.
# The token distinguishes a repetition of this call (its episodes are new) from another worker's duplicate.
APPEND = """#!lua
local new = 0
for i = 4, #KEYS do
    local at = 3 * (i - 4) + 3
    local role, id, data = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local token = ARGV[1] .. '/' .. i
    local mark = redis.call('HGET', KEYS[1], id)
    if not mark then
        local empty = redis.call('XLEN', KEYS[i]) == 0
        if redis.call('SADD', KEYS[2], role) == 1 or empty then  -- a new role's stream may hold others' entries
            local made = redis.pcall('XGROUP', 'CREATE', KEYS[i], ARGV[2], '0', 'MKSTREAM')
            if made.err and not string.find(made.err, 'BUSYGROUP') then return made end
        end
        redis.call('XADD', KEYS[i], '*', 'id', id, 'episode', data)
        redis.call('HSETNX', KEYS[1], id, token)
        new = new + 1
    elseif mark == token then
        new = new + 1
    else
        redis.call('HINCRBY', KEYS[3], 'duplicates', 1)
    end
end
return new
"""

# The value of the lock; false: none. A key of another type is no learner's.
_HOLDER = f"""#!lua flags=allow-oom
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then
    if not string.find(holder.err, 'WRONGTYPE') then return holder end
    holder = 'a key of another type'
end
local shown = string.sub(holder or '', 1, {HOLDER_BYTES})
"""

_HELD = f"""{_HOLDER}
if holder ~= ARGV[1] then return {{'held', shown}} end
"""

# An entry as the learner gets it: number of its stream, entry id, episode id, bytes, and its data unless there are more
# bytes than ``limit``.
_TRIMMED = f"""
local function trimmed(stream, entry, limit)
    local size, id, data = 0, '', ''
    for at = 1, #entry[2], 2 do
        local name, value = entry[2][at], entry[2][at + 1]
        size = size + #name + #value
        if name == 'id' then id = string.sub(value, 1, {ID_BYTES}) elseif name == 'episode' then data = value end
    end
    if size > limit then data = '' end
    return {{stream, entry[1], id, size, data}}
end
"""


def _learner_script(body: str) -> str:
    return _HELD + body


# KEYS: lock, roles, streams. ARGV: owner, group, then the streams' roles. Makes the consumer groups.
OPEN = _learner_script("""
for i = 3, #KEYS do
    redis.call('SADD', KEYS[2], ARGV[i])
    local made = redis.pcall('XGROUP', 'CREATE', KEYS[i], ARGV[2], '0', 'MKSTREAM')
    if made.err and not string.find(made.err, 'BUSYGROUP') then return made end
end
return {'ok'}
""")

# KEYS: lock, streams. ARGV: owner, group, consumer, most entries of each stream, most bytes of an entry, bytes after
# which no further entry is read. Returns seconds and microseconds of the server's clock, whether there may be more, and
# entries never read before. They are read one by one: a reply's size is only known once it is read.
READ = _learner_script(f"""{_TRIMMED}
local most, limit, room = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local entries, more = {{}}, 0
for i = 2, #KEYS do
    for number = 1, most do
        if room <= 0 then more = 1; break end
        local read = redis.call('XREADGROUP', 'GROUP', ARGV[2], ARGV[3], 'COUNT', 1, 'STREAMS', KEYS[i], '>')
        if not read then break end
        local entry = trimmed(i - 2, read[1][2][1], limit)
        entries[#entries + 1] = entry
        room = room - entry[4]
        if number == most then more = 1 end
    end
end
local time = redis.call('TIME')
return {{'ok', time[1], time[2], more, entries}}
""")

# KEYS: lock, stream. ARGV: owner, group, consumer, cursor, and the three limits of READ. Returns the next cursor and
# the entries, as READ does, that were read by any consumer and not acknowledged, from the cursor on. Where no
# consumer group is, there are none: of a role that no run has, or one that no learner has opened yet.
CLAIM = _learner_script(f"""{_TRIMMED}
local cursor, limit, room = ARGV[4], tonumber(ARGV[6]), tonumber(ARGV[7])
local entries = {{}}
for number = 1, tonumber(ARGV[5]) do
    local claimed = redis.pcall('XAUTOCLAIM', KEYS[2], ARGV[2], ARGV[3], 0, cursor, 'COUNT', 1)
    if claimed.err then
        if string.find(claimed.err, 'NOGROUP') then return {{'ok', '0-0', entries}} end
        return claimed
    end
    cursor = claimed[1]
    for _, found in ipairs(claimed[2]) do
        local entry = trimmed(0, found, limit)
        entries[#entries + 1] = entry
        room = room - entry[4]
    end
    if cursor == '0-0' or room <= 0 then break end
end
return {{'ok', cursor, entries}}
""")

# KEYS: lock, stream, counters. ARGV: owner, group, entry ids (at most 1,000). Returns how many there were.
ACKNOWLEDGE = _learner_script("""
redis.call('HINCRBY', KEYS[3], 'acknowledged', 0)
redis.call('XACK', KEYS[2], ARGV[2], unpack(ARGV, 3))
local gone = redis.call('XDEL', KEYS[2], unpack(ARGV, 3))
redis.call('HINCRBY', KEYS[3], 'acknowledged', gone)
return {'ok', gone}
""")

# KEYS: lock, stream, counters, poison stream, unreadable ids. ARGV: owner, group, entry id, name among the unreadable,
# most poison entries kept, then role, episode id, reason, the entry's bytes, the part of its data that is kept.
POISON = _learner_script("""
redis.call('HINCRBY', KEYS[3], 'poison', 0)
redis.call('XLEN', KEYS[4])
redis.call('SADD', KEYS[5], ARGV[4])
redis.call('XACK', KEYS[2], ARGV[2], ARGV[3])
if redis.call('XDEL', KEYS[2], ARGV[3]) == 1 then
    redis.call('HINCRBY', KEYS[3], 'poison', 1)
    redis.call('XADD', KEYS[4], 'MAXLEN', '=', ARGV[5], '*', 'role', ARGV[6], 'id', ARGV[7],
        'entry', ARGV[3], 'reason', ARGV[8], 'bytes', ARGV[9], 'episode', ARGV[10])
end
return {'ok'}
""")

# KEYS: lock. ARGV: owner, milliseconds it lasts, digest of a holder that may be replaced (or ''). Returns {} when it
# is the caller's now, else the holder, its digest and the milliseconds its lock still lasts.
ACQUIRE = f"""{_HOLDER}
local digest = redis.sha1hex(holder or '')
if holder and holder ~= ARGV[1] and digest ~= ARGV[3] then
    return {{shown, digest, redis.call('PTTL', KEYS[1])}}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {{}}
"""

# KEYS: lock. ARGV: owner, milliseconds. Returns 1 when it was renewed; by SET, as in ACQUIRE, so that a user
# without the right to it fails there, and not when the lock expires.
RENEW = f"""{_HOLDER}
if holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

# KEYS: lock. ARGV: owner.
RELEASE = f"""{_HOLDER}
if holder == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
