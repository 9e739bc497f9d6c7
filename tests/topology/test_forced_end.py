"""What a blocking worker that is forced to end says to a cluster that does not answer."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

from echomq import plugins
from echomq.call import Batch
from echomq.sync.cluster import ClusterLink
from support.clusters import Cluster, ask
from support.requests import command


def test_posted_behind_a_silent_master(cluster: Cluster, driver: str, tagged: str) -> None:
    """What is posted behind a request that a master does not answer is done when it comes to, as on one server."""
    key = f"{tagged}:n"
    last = Batch(requests=(command("INCR", key), command("INCRBY", key, 10)))
    apart = Batch(requests=(command("INCR", key), command("INCR", "elsewhere")))
    url = cluster.url(f"{driver}+cluster")
    with contextlib.closing(plugins.connect(url, driver=driver)) as link, ThreadPoolExecutor(1) as threads:
        assert isinstance(link, ClusterLink)
        assert not link.post(last)  # nobody knows who owns the slot
        assert link.send(command("EXISTS", key)) == 0
        assert not link.post(last)  # nothing is waited for

        ask(cluster.master(tagged), "CLIENT", "PAUSE", 1_500, "ALL")
        waiting = threads.submit(link.send, command("INCR", key))
        assert not link.post(apart)
        while not link.post(last):
            time.sleep(0.001)

        assert waiting.result() == 1
        assert link.send(command("GET", key)) == b"12"
