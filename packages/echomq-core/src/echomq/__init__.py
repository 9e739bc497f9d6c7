"""EchoMQ: a job queue that Python, Node.js and others share."""
