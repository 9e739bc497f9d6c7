"""Queues on a cluster of six that speaks TLS and wants a certificate of its clients."""

from collections.abc import Iterator

import pytest

from echomq import ConnectionOptions
from echomq.driver import Address, ClusterOptions, TLSOptions
from echomq.errors import ConnectionLost
from support.clusters import Cluster, start_cluster
from support.desk import happens
from support.faults import rights_of_its_age
from support.shells import Shell
from support.tls import Certificates, make_certificates

from .conftest import EACH
from .load import under_load
from .test_rights import PASSWORD, documented, limited, whole_session

PATIENT_MS = 60_000
"""Deadline of requests; each new connection costs both ends some work, which a busy machine takes seconds for."""

TLS_SCHEMES = {"redis": "rediss+cluster", "valkey": "valkeys+cluster"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Files for TLS."""
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", params=EACH)
def secure_cluster(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[Cluster]:
    """A cluster, of each kind in turn, whose nodes speak TLS to everybody."""
    cluster = start_cluster(request.param, tls=certificates)
    yield cluster
    cluster.close()


@pytest.fixture
def secure(secure_cluster: Cluster) -> Cluster:
    """The same, with nothing broken."""
    secure_cluster.heal()
    return secure_cluster


@pytest.mark.parametrize("protocol", [2, 3])
async def test_least_rights(
    secure: Cluster, certificates: Certificates, driver: str, shell: Shell, tagged: str, protocol: int
) -> None:
    """A user with the documented rights works on such a cluster, in both protocols, by certificate and password."""
    with limited(secure.nodes, "jobs", *documented(tagged, "+cluster|slots", *rights_of_its_age(secure.nodes[0]))):
        url = secure.url(TLS_SCHEMES[driver], user=f"jobs:{PASSWORD}", protocol=protocol, deadline_ms=PATIENT_MS)
        await whole_session(f"{url}&{certificates.of_client()}", shell, tagged)


async def test_options(secure: Cluster, certificates: Certificates, driver: str, shell: Shell, prefix: str) -> None:
    """Options say the same as a URL, and reach queues on all nodes."""
    tls = TLSOptions(
        ca_file=str(certificates.ca), cert_file=str(certificates.client), key_file=str(certificates.client_key)
    )
    seeds = [Address("127.0.0.1", port) for port in secure.tls_ports]
    connection = shell.connect(
        ConnectionOptions(scheme=driver, tls=tls, cluster=ClusterOptions(seeds=seeds), deadline_ms=PATIENT_MS)
    )
    names = [f"{{{prefix}{number}}}" for number in range(12)]
    queues = [shell.queue(name, connection) for name in names]
    for queue in queues:
        await queue.add("one")

    assert [await queue.count() for queue in queues] == [1] * len(names)
    assert len({secure.master(name).port for name in names}) == 3
    await shell.close(connection)


async def test_without_certificate(
    secure: Cluster, certificates: Certificates, driver: str, shell: Shell, tagged: str
) -> None:
    """Who has no certificate of his own is not let in, and is told where the connection failed."""
    url = secure.url(TLS_SCHEMES[driver], ssl_ca_certs=certificates.ca, deadline_ms=500)
    async with shell.queue("mail", url, prefix=tagged) as queue:
        with pytest.raises(ConnectionLost, match=r"the cluster of 127\.0\.0\.1:"):
            await happens(queue.add("one"))


async def test_failover_under_load(secure: Cluster, certificates: Certificates, tagged: str) -> None:
    """The death of a master under load loses no acknowledged job there either."""
    urls = [f"{secure.url(scheme)}?{certificates.of_client()}" for scheme in TLS_SCHEMES.values()]
    load = await under_load(urls, tagged, lambda: secure.kill(secure.master(tagged)), secure.heal)
    load.account("master killed, replica takes over", "cluster of six, TLS")

    assert load.longest_gap_s < 30
