"""What a connection is built from: options, or a ready client that is only read."""

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio

from echomq.client_settings import ClientLibrary, settings_for
from echomq.driver import ConnectionOptions, TLSOptions
from echomq.errors import UsageError
from echomq_redis.settings import LIBRARY as REDIS
from echomq_valkey.settings import LIBRARY as VALKEY

LIBRARIES = pytest.mark.parametrize("library", [REDIS, VALKEY], ids=["redis", "valkey"])


@LIBRARIES
def test_options_over_tcp(library: ClientLibrary) -> None:
    """Host, port, database, user and password take the client's names."""
    settings = settings_for(
        library, ConnectionOptions(host="h", port=1, db=2, username="ada", password="pw", protocol=3)
    )
    arguments = settings.for_class(library.asyncio["tcp"], "bob", 0.5)

    expected = {"host": "h", "port": 1, "db": 2, "username": "ada", "password": "pw", "protocol": 3}
    expected |= {"client_name": "bob", "socket_connect_timeout": 0.5, "socket_timeout": 0.5}
    assert arguments == expected
    assert settings.where == "h:1"


@LIBRARIES
@pytest.mark.parametrize("flavour", ["asyncio", "blocking"])
def test_options_with_tls(library: ClientLibrary, flavour: str) -> None:
    """Files and checks of TLS take the client's names; verification is on unless given up, host name included."""
    classes = getattr(library, flavour)
    tls = TLSOptions(ca_file="/ca", cert_file="/c", key_file="/k")
    settings = settings_for(library, ConnectionOptions(host="h", tls=tls))
    arguments = settings.for_class(settings.pick_class(classes), None, 1)

    assert settings.pick_class(classes) is classes["tls"]
    files = {"ssl_ca_certs": "/ca", "ssl_certfile": "/c", "ssl_keyfile": "/k"}
    checks = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
    assert (files | checks).items() <= arguments.items()
    blind = settings_for(library, ConnectionOptions(tls=TLSOptions(verify=False)))
    assert {"ssl_cert_reqs": "none", "ssl_check_hostname": False}.items() <= blind.arguments.items()


@LIBRARIES
def test_options_over_a_socket(library: ClientLibrary) -> None:
    """A path gives a Unix socket, without host and port."""
    settings = settings_for(library, ConnectionOptions(path="/s"))

    assert settings.kind == "unix"
    assert settings.where == "/s"
    assert not {"host", "port"} & set(settings.arguments)


@pytest.mark.parametrize(
    ("library", "client"),
    [
        (REDIS, redis.Redis),
        (REDIS, redis.asyncio.Redis),
        (VALKEY, valkey.Valkey),
        (VALKEY, valkey.asyncio.Valkey),
    ],
)
def test_ready_client(library: ClientLibrary, client: type) -> None:
    """Of a ready client address, user, TLS and name are taken; not decoding, retries, or its socket timeout."""
    given = client(
        host="h",
        port=7,
        db=2,
        username="ada",
        password="pw",
        decode_responses=True,
        socket_timeout=3,
        socket_connect_timeout=2,
        health_check_interval=5,
        client_name="mine",
        ssl=True,
        ssl_ca_certs="/ca",
    )
    settings = settings_for(library, given)

    for classes in (library.blocking, library.asyncio):
        arguments = settings.for_class(settings.pick_class(classes), None, 1)
        expected = {"host": "h", "port": 7, "db": 2, "username": "ada", "password": "pw", "client_name": "mine"}
        assert expected.items() <= arguments.items()
        assert {"ssl_ca_certs": "/ca", "socket_timeout": 1, "socket_connect_timeout": 1}.items() <= arguments.items()
        assert not {"decode_responses", "retry", "retry_on_error", "health_check_interval"} & set(arguments)
        assert settings.for_class(classes["tls"], "worker", 1)["client_name"] == "worker"
    assert settings.options.connect_timeout_ms == 2_000
    assert settings.where == "h:7"


def test_own_connection_class() -> None:
    """A connection class of the user's own is kept for its flavour; the other flavour takes the library's."""

    class Tunnel(redis.Connection):
        pass

    pool = redis.ConnectionPool(connection_class=Tunnel, host="h")
    settings = settings_for(REDIS, redis.Redis(connection_pool=pool))

    assert settings.pick_class(REDIS.blocking) is Tunnel
    assert settings.pick_class(REDIS.asyncio) is redis.asyncio.Connection


def test_tls_check_that_the_other_flavour_lacks() -> None:
    """A check of certificates is never dropped silently: the flavour that cannot do it is refused."""
    client = redis.Redis(host="h", ssl=True, ssl_validate_ocsp=True)
    settings = settings_for(REDIS, client)

    assert settings.for_class(REDIS.blocking["tls"], None, 1)["ssl_validate_ocsp"] is True
    with pytest.raises(UsageError, match="ssl_validate_ocsp"):
        settings.for_class(REDIS.asyncio["tls"], None, 1)


def test_strangers_are_refused() -> None:
    """What is no client is refused with what was expected."""

    class Stranger:
        pass

    with pytest.raises(UsageError, match="a Stranger cannot be used: expected a client of one server or a cluster"):
        settings_for(REDIS, Stranger())


def test_no_password_in_reprs() -> None:
    """Settings do not show the password."""
    settings = settings_for(REDIS, ConnectionOptions(password="geheim"))

    assert "geheim" not in repr(settings)
