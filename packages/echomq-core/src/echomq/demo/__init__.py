"""The demo: real jobs of several kinds, done by several processes, and nothing lost.

``files`` finds work, ``work`` is what the worker processes run, ``run`` adds the
jobs and collects what they returned, ``tally`` counts. How it looks is the
command line's business.
"""
