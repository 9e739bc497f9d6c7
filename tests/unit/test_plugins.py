"""Finding drivers and choosing one."""

import importlib.metadata
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from echomq import plugins
from echomq.address import parse_url
from echomq.driver import DriverPlugin
from echomq.errors import DriverMissing, EchoMQError, UsageError
from echomq.hookspecs import hookimpl
from echomq.plugins import Drivers, choose, load_drivers


class Client:
    """Somebody's ready client."""


def driver(name: str, *schemes: str, also: tuple[str, ...] = (), owns: type = Client) -> DriverPlugin:
    """A driver that connects to nothing."""

    def refuse(_: object) -> Any:
        raise AssertionError("must not connect")

    return DriverPlugin(
        name=name,
        schemes=frozenset(schemes),
        also=frozenset(also),
        owns=lambda source: isinstance(source, owns),
        connect=refuse,
        connect_async=refuse,
    )


REDIS = driver("redis", "redis", "rediss", "unix", also=("valkey", "valkeys"))
VALKEY = driver("valkey", "valkey", "valkeys", also=("redis", "rediss", "unix"), owns=bytes)


def drivers(*given: DriverPlugin, **broken: Exception) -> Drivers:
    """As if these were installed."""
    return Drivers({one.name: one for one in given}, broken)


@pytest.mark.parametrize(
    ("installed", "url", "name"),
    [
        ((REDIS,), "redis://h", "redis"),
        ((REDIS,), "valkey://h", "redis"),
        ((VALKEY,), "redis://h", "valkey"),
        ((VALKEY,), "unix:///s", "valkey"),
        ((REDIS, VALKEY), "redis://h", "redis"),
        ((REDIS, VALKEY), "unix:///s", "redis"),
        ((REDIS, VALKEY), "valkeys://h", "valkey"),
        ((VALKEY, REDIS), "rediss://h", "redis"),
        ((REDIS, driver("mine", "mine")), "mine://h", "mine"),
    ],
)
def test_by_scheme(installed: tuple[DriverPlugin, ...], url: str, name: str) -> None:
    """The driver whose first choice a scheme is wins; where it is missing, another that serves it steps in."""
    assert choose(drivers(*installed), parse_url(url), None).name == name


def test_by_name() -> None:
    """A driver asked for by name is used whatever the URL says."""
    assert choose(drivers(REDIS, VALKEY), parse_url("redis://h"), "valkey").name == "valkey"


def test_by_client() -> None:
    """A ready client goes to the driver that owns it."""
    assert choose(drivers(REDIS, VALKEY), Client(), None).name == "redis"
    assert choose(drivers(REDIS, VALKEY), b"", None).name == "valkey"


def test_two_first_choices() -> None:
    """Two drivers that claim the same are an error that names both and says what to do."""
    twice = drivers(REDIS, driver("other", "redis"))
    for source in (parse_url("redis://h"), Client()):
        with pytest.raises(UsageError, match=r"'redis' and 'other' both serve .*driver="):
            choose(twice, source, None)


@pytest.mark.parametrize(
    ("installed", "source", "name", "message"),
    [
        (drivers(), "redis://h", None, "no installed driver serves redis://"),
        (drivers(REDIS), "redis://h", "valkey", "no driver is called 'valkey'. Installed: redis."),
        (drivers(redis=ImportError("no redis")), "redis://h", None, "redis is installed but failed to load"),
    ],
)
def test_missing(installed: Drivers, source: str, name: str | None, message: str) -> None:
    """A missing driver is explained with what is installed and what to install."""
    with pytest.raises(DriverMissing) as caught:
        choose(installed, parse_url(source), name)

    assert message in str(caught.value)
    assert "pip install echomq-redis or echomq-valkey" in str(caught.value)


def test_not_a_connection() -> None:
    """An object that no driver owns is named by its type, and what was expected is told."""
    with pytest.raises(DriverMissing, match=r"builtins\.int is not a connection: expected a URL"):
        choose(drivers(REDIS), 42, None)


def test_no_connection() -> None:
    """Without any URL the caller is told where it may come from."""
    with pytest.raises(UsageError, match="set ECHOMQ_URL"):
        plugins.connect(None)


Add = Callable[[str, Any], importlib.metadata.EntryPoint]


@pytest.fixture
def add_plugin(monkeypatch: pytest.MonkeyPatch) -> Add:
    """Makes a plugin module with these contents and returns its entry point."""

    def add(name: str, contents: dict[str, Any]) -> importlib.metadata.EntryPoint:
        module = types.ModuleType(f"plugin_of_{name}")
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return importlib.metadata.EntryPoint(name, module.__name__, "echomq")

    return add


def register(result: Any) -> dict[str, Any]:
    """The hook, answering with this."""

    @hookimpl
    def echomq_register_driver() -> Any:
        return result

    return {"echomq_register_driver": echomq_register_driver}


def test_load(add_plugin: Add) -> None:
    """Plugins are loaded by their entry points."""
    points = (add_plugin("one", register(REDIS)), add_plugin("two", register(VALKEY)))

    assert load_drivers(points) == Drivers({"redis": REDIS, "valkey": VALKEY})


def _misspelt() -> dict[str, Any]:
    @hookimpl
    def echomq_registr_driver() -> DriverPlugin:
        return REDIS

    return {"echomq_registr_driver": echomq_registr_driver}


def _raising() -> dict[str, Any]:
    @hookimpl
    def echomq_register_driver() -> DriverPlugin:
        raise RuntimeError("not today")

    return {"echomq_register_driver": echomq_register_driver}


@pytest.mark.parametrize(
    "contents", [_misspelt(), _raising(), register("a string")], ids=["misspelt", "raising", "text"]
)
def test_broken_plugin(add_plugin: Add, contents: dict[str, Any]) -> None:
    """A plugin that fails is reported by name and breaks only itself."""
    points = (add_plugin("bad", contents), add_plugin("good", register(VALKEY)))
    with pytest.warns(UserWarning, match=r"plugin 'bad' .*failed to load"):
        found = load_drivers(points)

    assert found.working == {"valkey": VALKEY}
    assert set(found.broken) == {"bad"}


def test_plugin_that_cannot_be_imported(add_plugin: Add) -> None:
    """A plugin whose module is missing is reported by name and breaks only itself."""
    point = importlib.metadata.EntryPoint("gone", "no_such_module_anywhere", "echomq")
    with pytest.warns(UserWarning, match="plugin 'gone'"):
        found = load_drivers((point, add_plugin("good", register(REDIS))))

    assert found.working == {"redis": REDIS}
    with pytest.raises(DriverMissing, match=r"gone is installed but failed to load: .*no_such_module_anywhere"):
        choose(found, parse_url("mine://h"), None)


def test_same_name_twice(add_plugin: Add) -> None:
    """Two plugins that give a driver the same name do not replace each other silently."""
    points = (add_plugin("one", register(REDIS)), add_plugin("two", register(driver("redis", "mine"))))
    with pytest.warns(UserWarning, match=r"plugin 'two' .*'redis'"):
        found = load_drivers(points)

    assert found.working == {"redis": REDIS}


def test_discovery_imports_no_client() -> None:
    """Looking for drivers imports neither redis-py nor valkey-py."""
    import subprocess

    code = "import sys; from echomq.plugins import installed_drivers; d = installed_drivers().working; "
    code += "assert {'redis', 'valkey'} <= set(d), d; assert not {'redis', 'valkey'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_errors_are_ours() -> None:
    """Whoever catches EchoMQError catches a missing driver too."""
    assert issubclass(DriverMissing, UsageError)
    assert issubclass(UsageError, EchoMQError)


def test_driver_for_tests_is_missing() -> None:
    """A URL of the driver for tests is answered with its package, not with those of servers."""
    with pytest.raises(DriverMissing, match=r"Next step: pip install echomq-memory\.$"):
        choose(drivers(REDIS), parse_url("memory://h"), None)


@pytest.mark.parametrize("source", ["http://localhost", "mine://h"])
def test_url_of_something_else(source: str) -> None:
    """A URL that no driver of ours could serve is answered with what URLs begin with, not with something to install."""
    with pytest.raises(DriverMissing) as caught:
        choose(drivers(REDIS), parse_url(source), None)

    assert f"no installed driver serves {source.partition(':')[0]}:// URLs" in str(caught.value)
    assert "a URL that begins with one of redis://, rediss://" in str(caught.value)
    assert "pip" not in str(caught.value)
