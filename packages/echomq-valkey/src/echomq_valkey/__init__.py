"""EchoMQ on Valkey: the driver on valkey-py."""
