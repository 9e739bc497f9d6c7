"""The page of guarantees holds a table that the tests of faults have written."""

import json

import attrs

from support.programs import load_program
from support.recorder import Row
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


def test_measuring_a_part_keeps_the_rest() -> None:
    """What was measured anew takes the place of its own row, over both shells; all else of the page stays."""
    program = load_program("guarantees_page")
    page = PAGE.read_text("utf-8")
    before = next(line for line in page.splitlines() if line.startswith("| worker killed | single"))
    fault, topology, driver, *_ = before.strip("| ").split(" | ")
    trial = Row(
        fault=fault, topology=topology, driver=driver, workers="", jobs=1_000, lost=0, twice=0, recoveries_ms=[10, 20]
    )
    lines = [json.dumps(attrs.asdict(attrs.evolve(trial, workers=shell))) for shell in ("asyncio", "blocking")]
    after = f"| {fault} | {topology} | {driver} | 2,000 | 0 | 0 | 4 | 0.01 s | 0.02 s |"

    assert program.with_rows(page, program.rows(lines)) == page.replace(before, after)
    assert program.with_rows(page, {}) == page
