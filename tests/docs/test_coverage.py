"""The page that says what each name of BullMQ is here."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import pytest

import echomq
import echomq.sync

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"
TWINS = ("Queue", "FlowProducer", "QueueEvents", "QueueEventsProducer", "Worker", "Context")
REFERENCE = """
add addBulk pause resume isPaused isMaxed close disconnect waitUntilReady rateLimit removeRateLimitKey getRateLimitTtl
setGlobalConcurrency getGlobalConcurrency removeGlobalConcurrency setGlobalRateLimit getGlobalRateLimit
removeGlobalRateLimit upsertJobScheduler getJobScheduler getJobSchedulers getJobSchedulersCount removeJobScheduler
remove removeDeduplicationKey removeDebounceKey getDeduplicationJobId getDebounceJobId updateJobProgress addJobLog
drain clean obliterate retryJobs promoteJobs trimEvents removeDeprecatedPriorityKey removeOrphanedJobs getVersion
getMeta getJob getJobs getActive getDelayed getWaiting getWaitingChildren getPrioritized getCompleted getFailed
getRanges getJobCounts getJobCountByTypes count getCompletedCount getFailedCount getWaitingCount getActiveCount
getPrioritizedCount getWaitingChildrenCount getDelayedCount getCountsPerPriority recordJobCountsMetric getJobState
getJobLogs getDependencies getMetrics exportPrometheusMetrics getWorkers getWorkersCount getQueueEvents on once off
Job.fromId Job.create Job.createBulk Job.addJobLog Job.fromJSON updateData updateProgress log clearLogs
removeChildDependency removeUnprocessedChildren extendLock moveToCompleted moveToFailed moveToWait moveToDelayed
moveToWaitingChildren promote retry changeDelay changePriority getState isCompleted isFailed isDelayed
isWaitingChildren isActive isWaiting getChildrenValues getIgnoredChildrenFailures getFailedChildrenValues
getDependenciesCount waitUntilFinished toJSON asJSON queueName prefix FlowProducer.add FlowProducer.addBulk getFlow
FlowProducer.close FlowProducer.disconnect run getNextJob Worker.pause Worker.resume isRunning Worker.close
Worker.waitUntilReady cancelJob cancelAllJobs extendJobLocks startStalledCheckTimer Worker.rateLimit concurrency
Worker.on QueueEvents.run QueueEvents.close publishEvent QueueEventsProducer.close
"""
"""The public names of BullMQ 6.7.0, as the protocol specification lists them."""


def _rows() -> list[tuple[str, str]]:
    lines = (line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ") and "|---" not in line)
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [(first, second.rstrip(" |")) for first, second in cells if first not in ("BullMQ", "what for")]


def _names(cell: str) -> list[str]:
    """The names of ours in a cell: what follows is not looked at."""
    found = [text.partition("(")[0] for text in re.findall(r"`([^`]+)`", cell)]
    return [name for name in found if name.partition(".")[0] in (*TWINS, "Job", "echomq")]


def _found(name: str, package: Any) -> Any:
    parts = name.removeprefix("echomq.").split(".")
    found = package
    for index, part in enumerate(parts):
        if attrs.has(found) and part in {field.name for field in attrs.fields(found)}:
            return part
        try:
            found = getattr(found, part)
        except AttributeError:
            found = import_module(f"echomq.{'.'.join(parts[: index + 1])}")
    return found


@pytest.mark.parametrize(("theirs", "ours"), _rows(), ids=lambda cell: cell[:40])
def test_counterpart_exists(theirs: str, ours: str) -> None:
    """Each counterpart that the page names exists, in both shells where both have its class."""
    names = _names(ours)

    assert names or ours.startswith("no: "), f"neither a counterpart of {theirs} nor a reason"
    for name in names:
        assert _found(name, echomq) is not None, name
        if name.partition(".")[0] in TWINS:
            assert _found(name, echomq.sync) is not None, name


def test_every_name_has_its_row() -> None:
    """The page has a row for every public name of BullMQ."""
    told = {text for theirs, _ in _rows() for text in re.findall(r"`([^`]+)`", theirs)}

    missing = set(REFERENCE.split()) - told
    assert not missing


FEATURES = sorted(set(_names(PAGE.with_name("features.md").read_text("utf-8"))))


@pytest.mark.parametrize("name", FEATURES)
def test_feature_exists(name: str) -> None:
    """Each name that the page of features shows exists, in both shells where both have its class."""
    assert _found(name, echomq) is not None
    if name.partition(".")[0] in TWINS:
        assert _found(name, echomq.sync) is not None
