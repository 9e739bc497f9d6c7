"""Runs jobs in child processes, for both shells.

A child is spawned, never forked: it shares nothing with its parent but a pipe. Over
it go jobs and what becomes of them. The parent keeps everything that concerns the
server (locks, reports, the calls of ``ctx``), so a job that keeps a processor busy
disturbs nobody, and one that takes its process down is one failed attempt.
"""
