"""The Lua scripts of ``RedisBuffer``: each is atomic, and safe to repeat after a lost reply.

A learner's scripts check in the same step that it holds the lock (``KEYS[1]`` equals ``ARGV[1]``), and return
``{"held", holder}`` if it does not. They may run while the server is out of memory (``allow-oom``), because the
learner's acknowledgements free memory.
"""

from __future__ import annotations

# KEYS: seen, roles, counters, then the stream of each episode.
# ARGV: token of this call, group, then role, episode id and data of each episode. Returns how many are new.
# The token distinguishes a repetition of this call (its episodes are new) from another worker's duplicate.
APPEND = """#!lua
local new = 0
for i = 4, #KEYS do
    local at = 3 * (i - 4) + 3
    local role, id, data = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local token = ARGV[1] .. '/' .. i
    if redis.call('HSETNX', KEYS[1], id, token) == 1 then
        if redis.call('SADD', KEYS[2], role) == 1 then
            local made = redis.pcall('XGROUP', 'CREATE', KEYS[i], ARGV[2], '0', 'MKSTREAM')
            if made.err and not string.find(made.err, 'BUSYGROUP') then return made end
        end
        redis.call('XADD', KEYS[i], '*', 'id', id, 'episode', data)
        new = new + 1
    elseif redis.call('HGET', KEYS[1], id) == token then
        new = new + 1
    else
        redis.call('HINCRBY', KEYS[3], 'duplicates', 1)
    end
end
return new
"""

_HELD = """#!lua flags=allow-oom
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then return {'held', holder or ''} end
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

# KEYS: lock, streams. ARGV: owner, group, consumer, most entries of each stream. Returns seconds and microseconds of
# the server's clock and what XREADGROUP answers (only entries never read before).
READ = _learner_script("""
local command = {'XREADGROUP', 'GROUP', ARGV[2], ARGV[3], 'COUNT', ARGV[4], 'STREAMS'}
for i = 2, #KEYS do command[#command + 1] = KEYS[i] end
for i = 2, #KEYS do command[#command + 1] = '>' end
local time = redis.call('TIME')
local read = #KEYS > 1 and redis.call(unpack(command)) or {}
return {'ok', time[1], time[2], read}
""")

# KEYS: lock, stream. ARGV: owner, group, consumer, cursor, most entries. Returns what XAUTOCLAIM answers: what was
# read by any consumer and not acknowledged, from the cursor on.
CLAIM = _learner_script("""
return {'ok', redis.call('XAUTOCLAIM', KEYS[2], ARGV[2], ARGV[3], 0, ARGV[4], 'COUNT', ARGV[5])}
""")

# KEYS: lock, stream, counters. ARGV: owner, group, entry ids (at most 1,000). Returns how many there were.
ACKNOWLEDGE = _learner_script("""
redis.call('XACK', KEYS[2], ARGV[2], unpack(ARGV, 3))
local gone = redis.call('XDEL', KEYS[2], unpack(ARGV, 3))
redis.call('HINCRBY', KEYS[3], 'acknowledged', gone)
return {'ok', gone}
""")

# KEYS: lock, stream, counters, poison stream, unreadable ids. ARGV: owner, group, entry id, role, episode id, reason,
# data, most poison entries kept.
POISON = _learner_script("""
redis.call('XACK', KEYS[2], ARGV[2], ARGV[3])
if redis.call('XDEL', KEYS[2], ARGV[3]) == 1 then
    redis.call('HINCRBY', KEYS[3], 'poison', 1)
    redis.call('XADD', KEYS[4], 'MAXLEN', '=', ARGV[8], '*', 'role', ARGV[4], 'id', ARGV[5],
        'entry', ARGV[3], 'reason', ARGV[6], 'episode', ARGV[7])
    if ARGV[5] ~= '' then redis.call('SADD', KEYS[5], ARGV[5]) end
end
return {'ok'}
""")

# KEYS: lock. ARGV: owner, milliseconds it lasts, a dead holder that may be replaced (or ''). Returns {} when it
# is the caller's now, else the holder and the milliseconds its lock still lasts.
ACQUIRE = """#!lua flags=allow-oom
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and holder ~= ARGV[3] then
    return {holder, redis.call('PTTL', KEYS[1])}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {}
"""

# KEYS: lock. ARGV: owner, milliseconds. Returns 1 when it was renewed; by SET, as in ACQUIRE, so that a user
# without the right to it fails there, and not when the lock expires.
RENEW = """#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

# KEYS: lock. ARGV: owner.
RELEASE = """#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
