"""The worker's mind. All of it is pure: the shells of :mod:`echomq.aio` and :mod:`echomq.sync` do what it says.

* :mod:`~echomq.scheduling.step` decides what a worker does next,
* :mod:`~echomq.scheduling.outcome` what an attempt means for its job,
* :mod:`~echomq.scheduling.settling` which calls report that.
"""
