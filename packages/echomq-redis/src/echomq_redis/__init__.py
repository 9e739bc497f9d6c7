"""EchoMQ on Redis: the driver on redis-py."""
