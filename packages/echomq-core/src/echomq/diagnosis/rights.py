"""Every command that EchoMQ and its scripts run, in a form that can be queued in a transaction and thrown away.

An ACL also holds inside scripts. What is missing shows up there in the middle of
a script, so it is asked for beforehand.

Source: protocol spec 05 section 1; ``lua/``.
"""

from echomq.call import Argument

__all__ = ["needed_commands"]


def needed_commands(key: str) -> list[tuple[Argument, ...]]:
    """Return one call of each command, on a key that does not exist."""
    k = key
    return [
        *(("EVAL", "return 1", 1, k), ("EVALSHA", "0" * 40, 1, k)),
        *(("PING",), ("INFO",), ("CLIENT", "SETNAME", "echomq-doctor")),
        *(("DEL", k), ("UNLINK", k), ("EXISTS", k), ("TYPE", k), ("RENAME", k, k), ("SCAN", "0")),
        *(("PEXPIRE", k, 1), ("PERSIST", k), ("PTTL", k)),
        *(("GET", k), ("SET", k, ""), ("INCR", k), ("INCRBY", k, 1), ("MGET", k)),
        *(("HGET", k, "f"), ("HMGET", k, "f"), ("HGETALL", k), ("HSET", k, "f", ""), ("HDEL", k, "f")),
        *(("HEXISTS", k, "f"), ("HINCRBY", k, "f", 1), ("HKEYS", k), ("HLEN", k), ("HSCAN", k, "0")),
        *(("LLEN", k), ("LRANGE", k, 0, 0), ("LINDEX", k, 0), ("LPOS", k, ""), ("LPUSH", k, ""), ("RPUSH", k, "")),
        *(("LPOP", k), ("RPOP", k), ("RPOPLPUSH", k, k), ("LREM", k, 0, ""), ("LSET", k, 0, ""), ("LTRIM", k, 0, -1)),
        *(("SADD", k, ""), ("SREM", k, ""), ("SCARD", k), ("SISMEMBER", k, ""), ("SMEMBERS", k), ("SSCAN", k, "0")),
        *(("ZADD", k, 1, ""), ("ZREM", k, ""), ("ZCARD", k), ("ZCOUNT", k, 0, 0), ("ZSCORE", k, "")),
        *(("ZRANGE", k, 0, 0), ("ZREVRANGE", k, 0, 0), ("ZRANGEBYSCORE", k, 0, 0), ("ZREVRANGEBYSCORE", k, 0, 0)),
        *(("ZPOPMIN", k), ("ZREMRANGEBYRANK", k, 0, 0), ("BZPOPMIN", k, 1)),
        *(("XADD", k, "*", "f", ""), ("XLEN", k), ("XRANGE", k, "-", "+"), ("XREVRANGE", k, "+", "-")),
        *(("XTRIM", k, "MAXLEN", 0), ("XREAD", "COUNT", 1, "STREAMS", k, "0-0")),
    ]
