"""The replay buffer on a Redis-protocol server: Streams, consumer groups and Lua scripts."""
