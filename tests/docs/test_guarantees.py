"""The page of guarantees holds a table that the tests of faults have written."""

from support.server_files import CHECKOUT

PAGE = CHECKOUT / "docs" / "guarantees.md"


def test_nothing_was_lost_or_finished_twice() -> None:
    """Each row of the table, of both drivers, tells of jobs of which none was lost and none finished twice."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.endswith(" s |")]

    assert {"redis", "valkey"} <= {driver for _, _, driver, *_ in rows}
    assert len({fault for fault, *_ in rows}) >= 19
    topologies = {topology.partition(",")[0] for _, topology, *_ in rows}
    assert topologies >= {"single", "cluster of six", "three sentinels"}
    for fault, _, _, jobs, lost, twice, *_ in rows:
        assert (lost, twice) == ("0", "0"), fault
        assert int(jobs.replace(",", "")) > 0
