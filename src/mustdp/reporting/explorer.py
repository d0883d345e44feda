"""The explorer: a page on this machine that compares the schemes while its user moves sliders."""

from __future__ import annotations

import io
import json
import secrets
import socket
import time
import webbrowser
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Condition, Lock, Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from mustdp.calibration.compare import EpochRow
from mustdp.errors import InvalidParameter, MustdpError
from mustdp.files.replacing import PRIVATE, replace_file
from mustdp.limits import DELTA_RANGE, MOST_STEPS, NOISE_RANGE, TARGET_RANGE
from mustdp.mechanisms.relation import Relation
from mustdp.numerics import checks
from mustdp.numerics.formatting import chance_drawn, csv_table, latex_table, readable
from mustdp.reporting.findings import Findings, FindingsPart, ReportQuestion, assemble, parts_of
from mustdp.reporting.pages import check_installed, environment, style
from mustdp.reporting.plots.drawing import DARK, LIGHT, figure_of, new_axes
from mustdp.reporting.report import draw, label, risk_cells, row_cells

# Opening the explorer in the browser without telling its token to other users of the machine.
#
# Any user who lists processes can read the arguments of a command, and a browser is a command. So
# the browser is given a file that only its owner can read and that redirects to the address.


@contextmanager
def in_browser(address: str) -> Iterator[None]:
    """Open the address; the file that leads there is removed at the end.

    Where no file can be written nothing is opened: the address has been printed.
    """
    page = _template("redirect.html.j2", address=address)
    with ExitStack() as kept:
        with suppress(OSError):
            made = TemporaryDirectory(prefix="mustdp-", ignore_cleanup_errors=True)
            path = Path(kept.enter_context(made)) / "explorer.html"
            replace_file(path, page.encode(), mode=PRIVATE)
            webbrowser.open(path.as_uri())
        yield


def _template(name: str, **content: Any) -> str:
    return environment().get_template(f"mustdp.reporting/templates/{name}").render(**content)


# The state of a page is a question; the same fields describe it in the address of the page.


#: The state of a page that was opened without one.
DEFAULTS = {
    "n": "10000", "b": "500", "m": "200", "steps": "1000", "delta": "1e-5", "epsilon": "2",
    "noise": "", "relation": "replace-one", "group": "1", "with-epochs": "no",
}  # fmt: skip
#: The largest data set or batch, and the most characters of a field of an address.
_LARGEST = 10**9
_LONGEST = 40


def read_state(given: Mapping[str, str]) -> ReportQuestion:
    """The question in an address; fields that are missing have their defaults.

    A refusal names the field.
    """
    for name, text in given.items():
        if name not in DEFAULTS:
            raise InvalidParameter.refusing("address", "must have known fields only", name[:20])
        if len(text) > _LONGEST:
            raise InvalidParameter.refusing(
                name, f"must have at most {_LONGEST} characters", "more"
            )
    fields = {**DEFAULTS, **given}
    if given.get("noise", "").strip():
        fields["epsilon"] = given.get("epsilon", "")
    n = _integer("n", fields["n"], _LARGEST)
    target, noise = fields["epsilon"].strip(), fields["noise"].strip()
    if bool(target) == bool(noise):
        raise InvalidParameter.refusing(
            "epsilon", "must be given, or a noise multiplier instead", "both or neither"
        )
    return ReportQuestion(
        n=n,
        b=_integer("b", fields["b"], n),
        m=_integer("m", fields["m"], _LARGEST),
        steps=_integer("steps", fields["steps"], MOST_STEPS),
        delta=_number("delta", fields["delta"], DELTA_RANGE),
        epsilon=_number("epsilon", target, TARGET_RANGE) if target else None,
        noise_multiplier=_number("noise", noise, NOISE_RANGE) if noise else None,
        relation=Relation.read(fields["relation"].replace("-", "_")),
        group=_integer("group", fields["group"], n),
        epochs=checks.choice("with-epochs", fields["with-epochs"], ("yes", "no")) == "yes",
    )


def _integer(name: str, text: str, most: int) -> int:
    try:
        value: object = int(text)
    except ValueError:
        value = text
    return checks.integer(name, value, 1, most)


def _number(name: str, text: str, limits: Mapping[str, float]) -> float:
    try:
        value: object = float(text)
    except ValueError:
        value = text
    return checks.real(name, value, **limits)


def address_of(question: ReportQuestion) -> str:
    """The question as fields of an address."""
    fields = {
        **{name: getattr(question, name) for name in ("n", "b", "m", "steps")},
        "delta": repr(question.delta),
        "epsilon": repr(question.epsilon),
        "noise": repr(question.noise_multiplier),
        "relation": Relation(question.relation).option,
        "group": question.group,
        "with-epochs": "yes" if question.epochs else "no",
    }
    del fields["noise" if question.noise_multiplier is None else "epsilon"]
    return urlencode(fields)


def command_of(question: ReportQuestion) -> str:
    """The command that prints the same table."""
    return f"mustdp compare {question.options}{' --with-epochs' if question.epochs else ''}"


def python_of(question: ReportQuestion) -> str:
    """Python that gives the same numbers."""
    target = (
        f"noise_multiplier={question.noise_multiplier!r}"
        if question.epsilon is None
        else f"epsilon={question.epsilon!r}"
    )
    target += f", group={question.group}" if question.group > 1 else ""
    target += ", epochs=True" if question.epochs else ""
    return (
        "import mustdp as md\n\n"
        f"found = md.compare(n={question.n}, b={question.b}, m={question.m}, "
        f"steps={question.steps}, delta={question.delta!r}, {target}, "
        f'relation="{question.relation}")\n'
        "print(found)\n"
    )


# What the page shows of the findings so far: rows of text, CSV, LaTeX and pictures.


COLUMNS = (
    "scheme", "eta", "distinct records", "noise multiplier", "epsilon, at least",
    "epsilon, at most", "advantage, at most", "found at 1 % false, at most",
    "50 % becomes, at most", "1 % becomes, at most",
)  # fmt: skip
#: Pictures by their name in addresses: what the report calls them, and the parts that they show.
PICTURES = {
    "profile": ("profiles", "bands"), "steps": ("steps", "bands"), "contour": ("sizes", "sizes"),
}  # fmt: skip
#: Inches of a picture on the page.
_WIDTH, _HEIGHT = 4.8, 3.7


@dataclass(frozen=True)
class Failure:
    """Why a part could not be computed, which is an answer too."""

    reason: str


Answers = Mapping[FindingsPart, Any]


def findings_of(question: ReportQuestion, answers: Answers) -> Findings:
    """The findings from the parts that were computed."""
    return assemble(
        question, {part: one for part, one in answers.items() if not isinstance(one, Failure)}
    )


def rows_of(question: ReportQuestion, answers: Answers) -> list[list[str]]:
    """A row for every scheme; what is not known yet is empty."""
    found, rows = findings_of(question, answers), []
    for scheme in question.schemes:
        row, risk = found.rows.get(scheme.name), found.risk(scheme.name)
        cells = [""] * 5
        if row is not None:
            cells = [chance_drawn(row.eta), readable(row.expected_distinct, "nearest")]
            cells += row_cells(row)
        elif FindingsPart("row", question, scheme.name) in answers:
            cells[-1] = "none can be certified"
        achieved = [""] * 4
        if risk is not None:
            advantage, *rates, half, hundredth = risk_cells(risk)
            achieved = [advantage, rates[risk.fpr.index(0.01)], half, hundredth]
        rows.append([label(scheme.name), *cells, *achieved])
    return rows


def as_csv(question: ReportQuestion, answers: Answers) -> str:
    """The table for spreadsheets, at full precision."""
    found = findings_of(question, answers)
    rows: list[tuple[Any, ...]] = [
        ("scheme", "eta", "expected_distinct", "noise_multiplier", "epsilon_lower",
         "epsilon_upper", "advantage_upper", "tpr_upper_at_fpr_0.01"),
    ]  # fmt: skip
    for scheme in question.schemes:
        row, risk = found.rows.get(scheme.name), found.risk(scheme.name)
        known: list[float | str] = [""] * 7
        if row is not None:
            known[:3] = row.eta, row.expected_distinct, row.noise_multiplier
            known[3:5] = row.epsilon.lower, row.epsilon.upper
        if risk is not None:
            known[5:] = risk.advantage.upper, risk.tpr[risk.fpr.index(0.01)].upper
        rows.append((scheme.name, *(repr(v) if isinstance(v, float) else v for v in known)))
    return csv_table(rows)


def as_latex(question: ReportQuestion, answers: Answers) -> str:
    """The table for papers; bounds rounded to their safe side."""
    return latex_table(COLUMNS, rows_of(question, answers), command_of(question))


def ready(name: str, question: ReportQuestion, answers: Answers) -> bool:
    """Whether there is something to draw, all of it."""
    wanted = [part for part in parts_of(question) if part.kind == PICTURES[name][1]]
    known = [answers[part] for part in wanted if part in answers]
    drawn = [one for one in known if not isinstance(one, Failure)]
    return bool(drawn) and len(known) == len(wanted)


# Parts computed in the background: the newest state first, each answer kept.
#
# Threads take parts from the top of a stack. A new state puts its parts on top, so that those of
# older states wait; parts that no page has requested lately are dropped, and computed ones are kept
# for later requests. No request waits for a part: it gets what has been computed so far.


#: More answers than this are not kept; the oldest go.
_KEPT = 2000
#: Threads at first, and when all of them are at something that is no longer looked at.
_THREADS, _MOST_THREADS = 2, 6
#: Seconds after which a part that no page asks for any more is dropped.
_FORGOTTEN = 15.0


#: From a part, and the row of its scheme, to its numbers.
Compute = Callable[[FindingsPart, EpochRow | None], Any]


class PartsToCompute:
    """A stack of parts, and the answers so far."""

    def __init__(self, compute: Compute = FindingsPart.compute) -> None:
        self._compute = compute
        self._changed = Condition()
        #: When each part was last requested; the last one is on top.
        self._stack: dict[FindingsPart, float] = {}
        self._running: set[FindingsPart] = set()
        self._answers: OrderedDict[FindingsPart, Any] = OrderedDict()
        self._stopped = False
        self._threads: list[Thread] = []
        for _ in range(_THREADS):
            self._begin()

    def _begin(self) -> None:
        self._threads.append(Thread(target=self._go, daemon=True))
        self._threads[-1].start()

    def ask(
        self, parts: Sequence[FindingsPart]
    ) -> tuple[dict[FindingsPart, Any], list[FindingsPart]]:
        """The answers that are there, and the parts under way; what is missing goes on top."""
        now = time.monotonic()
        with self._changed:
            for part in parts:
                if part in self._answers:
                    self._answers.move_to_end(part)
            for part in reversed(parts):
                if part not in self._answers and part not in self._running:
                    self._on_top(part, now)
            self._changed.notify_all()
            busy = len(self._running) == len(self._threads) < _MOST_THREADS
            if busy and self._stack and self._running.isdisjoint(parts):
                self._begin()
            found = {one: self._answers[one] for one in parts if one in self._answers}
            return found, [one for one in parts if one in self._running]

    def stop(self, patience: float = 0.0) -> bool:
        """Take no further parts; say whether what runs has ended within ``patience`` seconds."""
        with self._changed:
            self._stopped = True
            self._stack.clear()
            self._changed.notify_all()
        end = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _on_top(self, part: FindingsPart, now: float) -> None:
        self._stack.pop(part, None)
        self._stack[part] = now

    def _go(self) -> None:
        while True:
            with self._changed:
                part = self._next()
                while part is None and not self._stopped:
                    self._changed.wait()
                    part = self._next()
                if part is None:
                    return
                self._running.add(part)
                row = None if part.row is None else self._answers[part.row]
            answer = row if isinstance(row, Failure) else self._answer(part, row)
            with self._changed:
                self._running.discard(part)
                self._answers[part] = answer
                while len(self._answers) > _KEPT:
                    self._answers.popitem(last=False)
                self._changed.notify_all()

    def _next(self) -> FindingsPart | None:
        """The topmost part whose scheme's noise is known; the row that tells it comes first."""
        if self._stopped:
            return None
        now = time.monotonic()
        for part, requested in reversed(tuple(self._stack.items())):
            if now - requested > _FORGOTTEN:
                del self._stack[part]
                continue
            row = part.row
            chosen = part if row is None or row in self._answers else row
            if chosen not in self._running:
                self._stack.pop(chosen, None)
                return chosen
        return None

    def _answer(self, part: FindingsPart, row: EpochRow | None) -> Any:
        try:
            return self._compute(part, row)
        except MustdpError as problem:
            return Failure(str(problem))
        except Exception as problem:  # a fault in one part must not end the others
            return Failure(f"nothing could be computed: {type(problem).__name__}")


# The server: for this machine only, and only under an address with a secret token.
#
# The standard library's server is enough for one person: nothing more to install, no socket that
# is kept open, and a policy under which the browser loads nothing from anywhere else. It listens
# on 127.0.0.1, answers only if the Host header names that address (so that a foreign name that
# resolves here gets nothing), only under a random token in the path, and only to reading. Nothing
# is printed about requests, whatever comes of them: addresses hold the token.


HOST = "127.0.0.1"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: matplotlib's pictures carry their style inside; alone, they may use nothing else.
_PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {
    "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8", "json": "application/json", "svg": "image/svg+xml",
    "pdf": "application/pdf", "csv": "text/csv; charset=utf-8", "tex": "text/plain; charset=utf-8",
}  # fmt: skip
#: Characters of an address that is answered; all fields with their names have fewer.
_LONGEST_ADDRESS = 2000
#: Requests that are handled at the same time; one more, and the oldest has to go.
_MOST_AT_ONCE = 64


class BadRequest(Exception):
    """A request that gets nothing but a status."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Explorer:
    """A running server, its token and its work; ``serve`` blocks until ``close``."""

    def __init__(self, port: int = 0) -> None:
        check_installed("the explorer")
        self.token = secrets.token_urlsafe(24)
        self.work = PartsToCompute()
        self._changed = Condition()
        self._under_way = 0
        explorer = self

        class Handler(_Handler):
            owner = explorer

        self._server = _Server((HOST, port), Handler)
        self.port = int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """Where the page is, token included."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def serve(self) -> None:
        """Answer until :meth:`close` is called from elsewhere."""
        self._server.serve_forever(poll_interval=0.2)

    def close(self, patience: float = 0.0) -> bool:
        """Stop answering and computing; False if anything still runs after ``patience`` seconds."""
        self._server.shutdown()
        return self.free(patience)

    def free(self, patience: float = 0.0) -> bool:
        """Free the port of a server that is not serving, and stop its work, as in :meth:`close`."""
        self._server.server_close()
        ended = self.work.stop(patience)
        with self._changed:
            return self._changed.wait_for(lambda: not self._under_way, patience) and ended

    @contextmanager
    def answering(self) -> Iterator[None]:
        """While a request is answered: a process that ends in the middle of a picture crashes."""
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def answer(self, path: str, query: str) -> tuple[str, bytes]:
        """The kind and content of what lies at a path below the token."""
        if path in ("", "explorer.js", "explorer.css", "icon.svg"):
            return _fixed(path)
        place, _, kind = path.rpartition(".")
        make = _MADE.get((place, kind))
        if make is None:
            raise BadRequest(HTTPStatus.NOT_FOUND)
        fields = dict(parse_qsl(query, keep_blank_values=True))
        return kind, make(self, place, kind, fields)


def _fixed(path: str) -> tuple[str, bytes]:
    if not path:
        return "html", _template("explorer.html.j2", relations=list(Relation)).encode()
    text = (resources.files("mustdp.reporting") / "templates" / path).read_text(encoding="utf-8")
    kind = path.rpartition(".")[2]
    return kind, (style() + text if kind == "css" else text).encode()


def _state(explorer: Explorer, place: str, kind: str, fields: dict[str, str]) -> bytes:
    """Everything that is known about a question, and how much is still missing."""
    question = read_state(fields)
    parts = parts_of(question)
    answers, running = explorer.work.ask(parts)
    risk = findings_of(question, answers).risk("must-ow")
    told: dict[str, Any] = {
        "address": address_of(question),
        "command": command_of(question),
        "python": python_of(question),
        "columns": COLUMNS,
        "rows": rows_of(question, answers),
        # Two sentences to quote about MUSTow, once they are known.
        "words": [] if risk is None else list(risk.sentences()),
        "pictures": {name: ready(name, question, answers) for name in PICTURES},
        "errors": {
            part.title: one.reason for part, one in answers.items() if isinstance(one, Failure)
        },
        "done": len(answers),
        "total": len(parts),
        "doing": [part.title for part in running],
    }
    return json.dumps(told, allow_nan=False).encode()


def _defaults(explorer: Explorer, place: str, kind: str, fields: dict[str, str]) -> bytes:
    return json.dumps(DEFAULTS).encode()


def _table(explorer: Explorer, place: str, kind: str, fields: dict[str, str]) -> bytes:
    question = read_state(fields)
    answers, _ = explorer.work.ask(parts_of(question))
    return (as_csv if kind == "csv" else as_latex)(question, answers).encode()


def _picture(explorer: Explorer, place: str, kind: str, fields: dict[str, str]) -> bytes:
    theme = DARK if fields.pop("theme", "light") == "dark" else LIGHT
    question = read_state(fields)
    answers, _ = explorer.work.ask(parts_of(question))
    if not ready(place, question, answers):
        raise BadRequest(HTTPStatus.NOT_FOUND)
    axes = new_axes(theme, _WIDTH, _HEIGHT)
    figure = figure_of(draw(findings_of(question, answers), PICTURES[place][0], axes))
    out = io.BytesIO()
    figure.savefig(out, format=kind, facecolor=figure.get_facecolor())
    return out.getvalue()


_Make = Callable[[Explorer, str, str, dict[str, str]], bytes]
_MADE: dict[tuple[str, str], _Make] = {
    ("state", "json"): _state,
    ("defaults", "json"): _defaults,
    ("table", "csv"): _table,
    ("table", "tex"): _table,
    **{(name, kind): _picture for name in PICTURES for kind in ("svg", "pdf")},
}


class _Server(ThreadingHTTPServer):
    """One thread for each request, but not for ever more clients that never finish theirs."""

    daemon_threads = True
    #: Connections that wait to be accepted. Beyond that clients try again after a second.
    request_queue_size = 2 * _MOST_AT_ONCE

    def __init__(self, *given: Any) -> None:
        self._lock = Lock()
        self._handled: dict[Any, None] = {}  # in the order in which they came
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Drop the oldest to admit the newest."""
        with self._lock:
            self._handled[request] = None
            if len(self._handled) > _MOST_AT_ONCE:
                oldest = next(iter(self._handled))
                del self._handled[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """The end of a request."""
        with self._lock:
            self._handled.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: connections break off."""


class _Handler(BaseHTTPRequestHandler):
    owner: Explorer
    server_version, sys_version = "mustdp", ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer, or say nothing but a status."""
        with self.owner.answering():
            self._answered()

    def _answered(self) -> None:
        try:
            kind, content = self._allowed()
        except BadRequest as problem:
            self._send(problem.status, "tex", problem.status.phrase.encode())
        except InvalidParameter as problem:
            told = {"error": str(problem), "field": problem.argument}
            self._send(HTTPStatus.BAD_REQUEST, "json", json.dumps(told).encode())
        except MustdpError as problem:
            told = {"error": str(problem), "field": None}
            self._send(HTTPStatus.UNPROCESSABLE_ENTITY, "json", json.dumps(told).encode())
        except Exception as problem:
            told = {"error": f"nothing could be shown: {type(problem).__name__}", "field": None}
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "json", json.dumps(told).encode())
        else:
            self._send(HTTPStatus.OK, kind, content)

    def _allowed(self) -> tuple[str, bytes]:
        """Check address, token and origin before anything is looked at."""
        port = self.owner.port
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            raise BadRequest(HTTPStatus.MISDIRECTED_REQUEST)
        foreign = self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        if foreign and not self._is_visit():
            raise BadRequest(HTTPStatus.FORBIDDEN)
        if len(self.path) > _LONGEST_ADDRESS:
            raise BadRequest(HTTPStatus.REQUEST_URI_TOO_LONG)
        try:
            parts = urlsplit(self.path)
        except ValueError:
            raise BadRequest(HTTPStatus.BAD_REQUEST) from None
        token, slash, rest = parts.path.removeprefix("/").partition("/")
        if not slash or not secrets.compare_digest(token.encode(), self.owner.token.encode()):
            raise BadRequest(HTTPStatus.NOT_FOUND)
        if foreign and rest:
            raise BadRequest(HTTPStatus.FORBIDDEN)
        return self.owner.answer(rest, parts.query)

    def _is_visit(self) -> bool:
        """Whether a whole window goes to the address, as from the file that leads here.

        The sender sees nothing of the page, which opens in no frame and in a group of its own.
        """
        wanted = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        return all(self.headers.get(name) == value for name, value in wanted.items())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        headers = {**_HEADERS, "Content-Type": _TYPES[kind], "Content-Length": str(len(content))}
        if kind == "svg":
            headers["Content-Security-Policy"] = _PICTURE_POLICY
        with suppress(ConnectionError):  # the client may have gone
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no request of this protocol gets its status too, and none of its own words."""
        self._send(HTTPStatus(code), "tex", HTTPStatus(code).phrase.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
