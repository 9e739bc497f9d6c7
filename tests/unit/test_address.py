"""Connection URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echomq.address import parse_url, without_password
from echomq.driver import ConnectionOptions, TLSOptions
from echomq.errors import UsageError


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("redis://", ConnectionOptions()),
        ("redis://localhost", ConnectionOptions(host="localhost")),
        ("redis://localhost/", ConnectionOptions(host="localhost")),
        ("redis://10.0.0.7:7000/3", ConnectionOptions(host="10.0.0.7", port=7000, db=3)),
        ("redis://[::1]:7000", ConnectionOptions(host="::1", port=7000)),
        ("redis://h?db=2", ConnectionOptions(host="h", db=2)),
        ("redis://h/1?db=2", ConnectionOptions(host="h", db=2)),
        ("valkey://h", ConnectionOptions(scheme="valkey", host="h")),
        ("rediss://h", ConnectionOptions(scheme="rediss", host="h", tls=TLSOptions())),
        ("valkeys://h", ConnectionOptions(scheme="valkeys", host="h", tls=TLSOptions())),
        ("unix:///run/r.sock", ConnectionOptions(scheme="unix", path="/run/r.sock")),
        ("unix:///a%20b?db=4", ConnectionOptions(scheme="unix", path="/a b", db=4)),
        ("redis://:pw@h", ConnectionOptions(host="h", password="pw")),
        ("redis://ada:p%40w@h", ConnectionOptions(host="h", username="ada", password="p@w")),
        ("redis://ada:@h", ConnectionOptions(host="h", username="ada", password="")),
        ("unix://ada:pw@/s", ConnectionOptions(scheme="unix", path="/s", username="ada", password="pw")),
        ("redis://h?username=ada&password=a%26b", ConnectionOptions(host="h", username="ada", password="a&b")),
        ("redis://h?protocol=3", ConnectionOptions(host="h", protocol=3)),
        (
            "redis://h?deadline_ms=5&connect_timeout_ms=6",
            ConnectionOptions(host="h", deadline_ms=5, connect_timeout_ms=6),
        ),
        (
            "redis://h?reconnect_min_ms=1&reconnect_max_ms=2&max_pending_bytes=3",
            ConnectionOptions(host="h", reconnect_min_ms=1, reconnect_max_ms=2, max_pending_bytes=3),
        ),
        (
            "rediss://h?ssl_ca_certs=/ca&ssl_certfile=/c&ssl_keyfile=/k&ssl_cert_reqs=none",
            ConnectionOptions(
                scheme="rediss", host="h", tls=TLSOptions(ca_file="/ca", cert_file="/c", key_file="/k", verify=False)
            ),
        ),
        ("mine://h:1", ConnectionOptions(scheme="mine", host="h", port=1)),
    ],
)
def test_urls(url: str, options: ConnectionOptions) -> None:
    """Each part of a URL becomes the option it names."""
    assert parse_url(url) == options


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "expected a scheme, one of redis://"),
        ("localhost:6379", "expected a scheme"),
        ("redis:localhost", "two slashes"),
        ("redis://h:port", "the port is a number from 1 to 65535"),
        ("redis://h:0", "the port is a number"),
        ("redis://h:70000", "the port is a number"),
        ("redis://h/mail", "the path is the number of a database, not 'mail'"),
        ("redis://h/-1", "not '-1'"),
        ("redis://h/1/2", "not '1/2'"),
        ("redis://h?db=x", "db='x'"),
        ("redis://h?db=-1", "must not be negative"),
        ("redis://h?protocol=4", "must be 2 or 3"),
        ("redis://h?deadline_ms=0", "must be above zero"),
        ("redis://h?dedline_ms=5", "did you mean 'deadline_ms'?"),
        ("redis://h?wibble=1", "unknown option 'wibble'; there are db, "),
        ("redis://h?db", "name=value pairs"),
        ("redis://h?ssl_ca_certs=/ca", "needs TLS: use rediss://"),
        ("rediss://h?ssl_cert_reqs=maybe", 'must be "required" or "none"'),
        ("unix://", "the absolute path of a socket"),
        ("unix://run/r.sock", "the absolute path of a socket"),
        ("redis://:p#ss@h", "'#' in a password is written %23"),
        ("redis+sentinel://h:26379", "the name of the master as first part of the path"),
        ("redis+sentinel://h/mq/x", "the path is the number of a database"),
        ("redis+sentinel:///mq", "expected at least one host"),
        ("redis+sentinel://h/mq?sentinel_ssl=maybe", 'must be "yes" or "no"'),
        ("redis+sentinel://h/mq?sentinel_ssl_ca_certs=/ca&sentinel_ssl=no", "sentinel_ssl_ca_certs needs TLS"),
        ("redis://h?sentinel_username=ada", "sentinel_username needs sentinels"),
        ("redis+cluster://h?sentinel_ssl_ca_certs=/ca", "sentinel_ssl_ca_certs needs sentinels"),
        ("valkey+cluster://", "expected at least one host"),
        ("valkey+cluster://h/1", "a cluster has database 0 only"),
        ("valkey+cluster://h:1,,k:2", "host or host:port between commas"),
        ("valkey+cluster://h:1,k:0", "a number from 1 to 65535"),
        ("valkey+cluster://h:port", "host or host:port between commas"),
        ("valkey+cluster:h", "two slashes"),
        ("redis://[::1", "Invalid IPv6"),
    ],
)
def test_wrong_urls(url: str, problem: str) -> None:
    """A wrong URL is refused with what is wrong with it."""
    with pytest.raises(UsageError) as caught:
        parse_url(url)

    assert str(caught.value).startswith("wrong connection URL ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://ada:geheim@h:port",
        "redis://:geheim@h/x",
        "redis://h?password=geheim&db=x",
        "redis://h?password=geheim&db=1#x",
        "redis://ada:geheim@[::1",
        "redis:ada:geheim@h",
        "ada:geheim@h",
        "//ada:geheim@h",
        "redis://ada:x#geheim@h",
        "redis://ada:x?geheim@h",
        "redis://ada:x/geheim@h",
        "redis://ada:x?geheim=y@h",
        "redis://:geheim@x:y@h:port",
    ],
)
def test_passwords_are_not_shown(url: str) -> None:
    """No error about a URL shows its password, not even of a URL that is badly wrong."""
    with pytest.raises(UsageError) as caught:
        parse_url(url)

    assert "geheim" not in str(caught.value)


@given(st.text(max_size=40))
def test_any_text(url: str) -> None:
    """Whatever text is given, the answer is options or a UsageError."""
    for text in (url, f"redis://{url}", f"redis://h/{url}", f"redis://h?{url}", f"unix://{url}"):
        try:
            options = parse_url(text)
        except UsageError:
            continue
        assert isinstance(options, ConnectionOptions)


def test_options_do_not_show_the_password() -> None:
    """The repr of options leaves the password out."""
    assert "geheim" not in repr(parse_url("redis://:geheim@h"))


def test_without_password() -> None:
    """Only the password is hidden."""
    assert without_password("redis://ada:x@h:1/2?db=3") == "redis://ada:***@h:1/2?db=3"
    assert without_password("redis://ada@h:1") == "redis://ada@h:1"
    assert without_password("redis://h:1/x") == "redis://h:1/x"
    assert without_password("redis://h?password=x&db=1") == "redis://h?password=***&db=1"
