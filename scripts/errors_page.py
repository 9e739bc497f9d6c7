"""Write ``docs/errors.md`` from the errors themselves, or with ``--check`` only tell whether it still holds."""

import inspect
import re
import sys
from pathlib import Path

from echomq import errors, signals

PAGE = Path(__file__).resolve().parents[1] / "docs" / "errors.md"

_HEAD = """\
# Errors

Everything EchoMQ raises is an `EchoMQError`, and can be imported from `echomq`.
The type says whose turn it is; the message says what was seen, what was expected and what to do next.
No message shows a password.
This page is written by `scripts/errors_page.py` from the errors themselves.

```
{tree}
```
"""

_SECTIONS: dict[type[errors.EchoMQError], str] = {
    errors.UsageError: "Yours to mend. Raised before anything is sent: nothing has changed on the server.",
    errors.ScriptError: (
        "The server's answer about one job. A script that declines has written nothing. "
        "Each has `code` (the reply, if there is one), `script` and `job_id`."
    ),
    errors.DriverError: (
        "The link's or the server's. Raised from the client library's own error, which is its `__cause__`."
    ),
    errors.ProtocolError: "",
    errors.PluginError: "",
    errors.BulkAddFailed: "",
    errors.FlowFailed: "",
    errors.JobFailed: "",
    errors.JobRemoved: "",
    errors.ResultTimeout: "",
    errors.JobTimedOut: "",
    errors.ProcessDied: "",
    errors.RaisedInProcess: "",
    errors.JobSignal: (
        "Not errors: job code raises them to steer its own job. None of the first four uses up an attempt."
    ),
}

ADVICE: dict[type[errors.EchoMQError], str] = {
    errors.InvalidOption: "Pass what the message names. It is a `ValueError` too.",
    errors.UnknownOption: "Take the name the message suggests. It is a `TypeError` too.",
    errors.NotEncodable: (
        "Turn the value at `path` into text, numbers, booleans, None, lists and mappings with text keys. "
        "A result that is not JSON fails its job at once, since another attempt would return it again."
    ),
    errors.DriverMissing: "Run the `pip install` of the message, or pass a URL of a driver that is installed.",
    errors.ProtocolError: (
        "Some client wrote or a server answered what the protocol does not know. Look at the job the message names; "
        "if EchoMQ wrote it, report it."
    ),
    errors.ConnectionLost: (
        "Check the address and the server. `may_have_run` False: the request has not run, repeat it. "
        "True: it may have run; an add with a `job_id` of your own can be repeated without harm."
    ),
    errors.ConnectionClosed: "Whoever opened the connection closed it, so repeating is pointless. Open another one.",
    errors.ReplyTimeout: (
        "The server is slow or frozen. Do as with `ConnectionLost` and `may_have_run`; `deadline_ms` sets the limit."
    ),
    errors.ServerRefused: (
        "Read the server's own words: a right is missing (NOPERM), the password is wrong, memory is full (OOM)."
    ),
    errors.ServerNotReady: "It loads, fails over or is busy. Wait and repeat; workers do so by themselves.",
    errors.PluginError: "Update or remove the extension that the message names.",
    errors.BulkAddFailed: "Go through `outcomes`, mend what the errors there say, and add those jobs again.",
    errors.FlowFailed: (
        "Mend what the errors in `refused` say. Remove the jobs in `incomplete` and add the flow again, "
        "or let them run without that child by `flows.release(job)`."
    ),
    errors.JobFailed: "Read `reason`, and the job itself if retention kept it; `queue.retry` runs it again.",
    errors.JobRemoved: "Look who removes jobs: `remove`, `clean`, `drain`, `obliterate`, or retention long ago.",
    errors.JobTimedOut: (
        "Raise the option `timeout` of the job or the worker, or make the work shorter. It is a `TimeoutError` too."
    ),
    errors.ProcessDied: (
        "Look for what ended the process: a crash of a library, the system's memory killer, `os._exit`. "
        "The attempt has failed, and the next job gets a new process."
    ),
    errors.RaisedInProcess: "Read the reason as you would that of the error itself; `type_name` names its class.",
    errors.ResultTimeout: "Wait again with `queue.result`, or look where the job is. It is a `TimeoutError` too.",
}
"""What to do about each error that does not say so itself."""


def _subject(cls: type[object]) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring, and its attributes."""
    text = inspect.cleandoc(cls.__doc__ or "")
    first = " ".join(text.partition("\n\n")[0].split())
    _, _, listed = text.partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", listed, re.MULTILINE)
    return _code(first), {name: _code(" ".join(meaning.split())) for name, meaning in found}


def _code(text: str) -> str:
    text = re.sub(r":\w+:`~?([\w.]+)`", lambda role: f"`{role[1].rpartition('.')[2]}`", text)
    return text.replace("``", "`")


def _subclasses(cls: type[errors.EchoMQError]) -> list[type[errors.EchoMQError]]:
    """Return the errors right below one, those with a section of their own in the order of the page."""
    sections = list(_SECTIONS)
    subs = [sub for sub in cls.__subclasses__() if sub.__module__ in (errors.__name__, signals.__name__)]
    return sorted(subs, key=lambda sub: sections.index(sub) if sub in _SECTIONS else 0)


def _tree(cls: type[errors.EchoMQError], depth: int = 0) -> list[str]:
    lines = [f"{'    ' * depth}{cls.__name__}"]
    for sub in _subclasses(cls):
        lines += _tree(sub, depth + 1)
    return lines


def _descendants(cls: type[errors.EchoMQError]) -> list[type[errors.EchoMQError]]:
    found = []
    for sub in _subclasses(cls):
        found += [sub, *_descendants(sub)]
    return found


def _entry(cls: type[errors.EchoMQError], level: str) -> list[str]:
    meaning, attributes = _subject(cls)
    advice = cls.advice if issubclass(cls, errors.ScriptError) else ADVICE.get(cls, "")
    lines = [f"{level} {cls.__name__}", "", meaning]
    if issubclass(cls, errors.ScriptError) and cls.advice:
        lines[-1] += f" Its message: *{cls.what.format(script='…', job_id='7')}*."
    if attributes:
        lines += ["", *(f"* `{name}`: {text}" for name, text in attributes.items())]
    return [*lines, *(["", f"**What to do:** {advice}"] if advice else []), ""]


def page_text() -> str:
    """Return the whole page."""
    lines = [_HEAD.format(tree="\n".join(_tree(errors.EchoMQError)))]
    for section, introduction in _SECTIONS.items():
        members = _descendants(section)
        if not members:
            lines += _entry(section, "##")
            continue
        lines += [f"## {section.__name__}", "", introduction, ""]
        for member in members:
            lines += _entry(member, "###")
    return "\n".join(lines).rstrip() + "\n"


def main(args: list[str]) -> int:
    """Write or check; the return value is the exit code."""
    if "--check" in args:
        return 0 if PAGE.read_text("utf-8") == page_text() else 1
    PAGE.write_text(page_text(), "utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
