"""``echomq doctor``: what it prints, its exit codes, its JSON."""

import json

from doctor.conftest import Doctor
from support.command_line import Ended, echomq
from support.servers import Server


def run(server: Server, doctor: Doctor, *arguments: str) -> Ended:
    """Run the command on the doctor's prefix."""
    return echomq("doctor", *arguments, "--url", server.url, "--prefix", doctor.keys.prefix)


def test_findings_are_told(server: Server, doctor: Doctor) -> None:
    """Each finding says what is wrong, what was seen, and what to do; nothing is changed without --apply."""
    doctor.stored.client.hset(doctor.stored.key("meta"), "version", "bullmq:5.1.0")
    doctor.stored.client.set(doctor.stored.key("de:x"), "gone")

    said = run(server, doctor, "work")

    assert said.code == 1
    assert (
        "queue work\n  ! Deduplication ids are held by jobs that are gone or have finished.\n    x (job gone)"
        in said.out
    )
    assert "Plan, carried out with --apply:\n  work: free 1 deduplication ids" in said.out
    assert doctor.stored.client.get(doctor.stored.key("de:x")) == "gone"


def test_apply(server: Server, doctor: Doctor) -> None:
    """--apply carries out the plan and shows how things are afterwards."""
    doctor.stored.client.hset(doctor.stored.key("meta"), "version", "bullmq:5.1.0")
    doctor.stored.client.set(doctor.stored.key("de:x"), "gone")

    said = run(server, doctor, "work", "--apply", "--fail-on", "error")

    assert said.code == 0
    assert "Repaired: stray-deduplication: 1." in said.out
    assert "Deduplication ids" not in said.out
    assert not doctor.stored.client.exists(doctor.stored.key("de:x"))


def test_json(server: Server, doctor: Doctor) -> None:
    """--json gives findings by code and severity, and finds the queues of the prefix by itself."""
    doctor.stored.client.hset(doctor.stored.key("meta"), "version", "bullmq:5.1.0")
    doctor.stored.client.lpush(doctor.stored.key("wait"), "ghost")

    said = json.loads(run(server, doctor, "--json").out)

    found = {(finding["queue"], finding["code"]): finding for finding in said["findings"]}
    assert said["worst"] == "warning"
    assert found["work", "id-without-job"]["repair"] == "drop 1 ids without a job"
    assert found["work", "queue"]["evidence"] == ["last written by bullmq:5.1.0"]
    assert said["looked_at"] == ["work: looked at 1 of 1 ids"]
