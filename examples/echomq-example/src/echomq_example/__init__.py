"""Plugins for EchoMQ, to copy from; each module is one, named by an entry point."""
