"""The context of a trace as the text that a job carries, the same in all runtimes.

It is a JSON object of what the propagators write, ``{"traceparent": "00-..."}``.

Source: protocol spec 05 section 8.
"""

from opentelemetry.context import Context
from opentelemetry.propagate import extract, inject

from echomq.codec import decode_json, encode_json
from echomq.errors import ProtocolError

__all__ = ["context_of", "metadata_of"]


def metadata_of(context: Context) -> str | None:
    """Return a context as text; None if there is nothing to carry."""
    carrier: dict[str, str] = {}
    inject(carrier, context)
    return encode_json("the context of a trace", carrier) if carrier else None


def context_of(metadata: str | None, present: Context) -> Context:
    """Return the context that a job carries, on top of the present one; the present one if it carries none.

    Args:
        metadata: Written by any client; what cannot be read is left out, for no job may fail by it.
        present: Of the code that has the job.
    """
    if metadata is None:
        return present
    try:
        carrier = decode_json(metadata)
    except ProtocolError:
        return present
    if not isinstance(carrier, dict):
        return present
    return extract({name: value for name, value in carrier.items() if isinstance(value, str)}, present)
