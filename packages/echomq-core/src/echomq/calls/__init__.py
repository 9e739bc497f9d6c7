"""Builders of calls and decoders of their replies, one module for each kind of work. All of it is pure.

A builder is named after its script. Whether a call is ``repeatable`` (may be
sent again when the link broke before its reply) is said, with the reason,
where it is.
"""
