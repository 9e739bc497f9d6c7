import pytest

from echomq.cli.parameters import duration_ms, lasting_url, required_url
from echomq.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("0", 0),
        ("1500", 1_500),
        ("500ms", 500),
        ("5s", 5_000),
        ("1.5s", 1_500),
        ("2m", 120_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        (" 5s ", 5_000),
    ],
)
def test_times(text: str, expected_ms: int) -> None:
    """A time is milliseconds, or a number with a unit."""
    assert duration_ms("--delay", text) == expected_ms


@pytest.mark.parametrize("text", ["", "s", "5 s", "-5s", "5w", "1e3", "five", "\N{ARABIC-INDIC DIGIT FIVE}s"])
def test_wrong_times(text: str) -> None:
    """Anything else is refused with the option's name and what was expected."""
    with pytest.raises(UsageError, match="--delay: expected milliseconds, or a number with ms, s, m, h or d"):
        duration_ms("--delay", text)


@pytest.mark.parametrize("url", [None, ""])
def test_no_url(url: str | None) -> None:
    """Without a URL the error says how to give one."""
    with pytest.raises(UsageError, match="pass --url redis://localhost, or set ECHOMQ_URL"):
        required_url(url)


def test_wrong_url() -> None:
    """A wrong URL is refused before anything is done."""
    with pytest.raises(UsageError, match="wrong connection URL"):
        required_url("redis://localhost:port")


@pytest.mark.parametrize("url", ["embedded:", "embedded:?db=1"])
def test_server_that_would_not_last(url: str) -> None:
    """A server that ends with the command and keeps nothing is refused where that makes no sense."""
    with pytest.raises(UsageError, match="ends with this command"):
        lasting_url(url)


@pytest.mark.parametrize("url", ["embedded:///data", "redis://localhost"])
def test_server_that_lasts(url: str) -> None:
    """Other servers are taken as they are."""
    assert lasting_url(url) == url
