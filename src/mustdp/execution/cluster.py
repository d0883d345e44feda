"""Connections to a Dask cluster, and values that must not be printed on their way through it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from sys import getsizeof
from typing import Any, Generic, TypeVar

import numpy as np

from mustdp.errors import InvalidParameter
from mustdp.execution.private_folder import private_folder
from mustdp.extras import required

# Values that must not be printed: seeds, records and exact results on their way through a cluster.
#
# Dask writes the arguments of a failing task into its log and shows them on its dashboard. A
# :class:`Concealed` shows itself there without its content. It hides nothing from a program.


T = TypeVar("T")


class Concealed(Generic[T]):
    """``content``, printed as ``<concealed>``; its size is that of the content.

    >>> Concealed(20250101)
    <concealed>
    """

    __slots__ = ("content",)

    def __init__(self, content: T) -> None:
        self.content = content

    def __repr__(self) -> str:
        return "<concealed>"

    def __sizeof__(self) -> int:
        # A scheduler that knows the size of a result can judge what moving it costs.
        return object.__sizeof__(self) + _size(self.content)


def _size(content: object) -> int:
    if isinstance(content, np.ndarray):
        return content.nbytes
    if isinstance(content, tuple):
        return sum(map(_size, content))
    return getsizeof(content)


# Which Dask cluster is meant, whether it may be trusted with records, and a client of it.
#
# Anyone who reaches a scheduler or a worker can run code there and read everything. So a cluster
# is used only over connections with certificates (TLS, where both sides prove who they are),
# unless the caller says ``insecure``. A cluster that is started here has a key of its own, made
# for it and kept in memory, answers nothing over HTTP, and spills to the private folder of this
# process.


#: Workers that may die under a task before Dask gives it up, on a cluster that is ours.
_ALLOWED_FAILURES = 10
_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx|inproc)://\S+")
#: Protocols on which no other process can read or send messages.
_SECURE = ("tls", "wss", "inproc")
#: Neither the scheduler nor a worker serves any page.
_NO_PAGES: dict[str, list[str]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
#: Those of the libraries behind a client that have levels of their own.
_LOGGERS = ("distributed", "distributed.client", "tornado", "asyncio")
#: Seconds that closing a client may take; a scheduler that has gone never answers.
_FAREWELL = 2.0


def check_dask(dask: Any, insecure: bool = False) -> None:
    """Refuse what cannot name a cluster or may not be trusted; nothing is connected to."""
    distributed = required("distributed", "a Dask cluster")
    if not isinstance(insecure, bool):
        raise InvalidParameter.refusing("insecure", "must be True or False", repr(insecure))
    if isinstance(dask, distributed.Client):
        if dask.asynchronous:
            raise InvalidParameter("dask must be a client that is not asynchronous, got one")
        check_secure(dask, insecure)
    elif not (isinstance(dask, str) and (dask == "local" or _ADDRESS.fullmatch(dask))):
        raise InvalidParameter.refusing(
            "dask",
            "must be the address of a scheduler such as 'tls://10.0.0.1:8786', 'local' or a "
            "distributed.Client",
            repr(dask),
        )
    elif dask == "local":
        required("cryptography", "a Dask cluster on this machine")
    else:
        _check_address(dask, insecure)


def check_secure(client: Any, insecure: bool) -> None:
    """Refuse a client whose scheduler anyone could connect to, unless ``insecure`` accepts it."""
    scheduler = client.scheduler
    if scheduler is None:
        raise InvalidParameter("dask must be a client that is connected, got one that is closed")
    _check_address(scheduler.address, insecure)


def _check_address(address: str, insecure: bool) -> None:
    if not insecure and address.partition("://")[0] not in _SECURE:
        raise InvalidParameter.refusing(
            "dask",
            "must be a scheduler with certificates (tls://...), because on other connections "
            "anyone can read the records and run code; {insecure} accepts that",
            repr(address),
            mentions=("insecure",),
        )


@contextmanager
def connected(dask: Any, workers: int | None = None) -> Iterator[Any]:
    """A client of the cluster that ``dask`` names; what was started for it is stopped after it.

    ``dask`` is ``"local"`` (a cluster of ``workers`` processes on this machine, protected by its
    own key, without a dashboard), the address of a scheduler, for which Dask's configuration names
    the certificates, or a ``distributed.Client``, for instance one with the certificates that a
    protected cluster asks for.
    """
    distributed = required("distributed", "a Dask cluster")
    if isinstance(dask, distributed.Client):
        yield dask
        return
    with _quiet():
        if dask == "local":
            with (
                private_folder() as folder,
                _local_cluster(workers, str(folder)) as cluster,
                distributed.Client(cluster, set_as_default=False) as client,
            ):
                yield client
            return
        try:
            client = distributed.Client(dask, set_as_default=False)
        except (OSError, TypeError):  # TypeError: an address that asks for certificates, without
            raise InvalidParameter.refusing(
                "dask", "must be the address of a scheduler that answers", repr(dask)
            ) from None
        try:
            yield client
        finally:
            with suppress(Exception):
                client.close(timeout=_FAREWELL)


def _local_cluster(workers: int | None, folder: str) -> Any:
    distributed = required("distributed", "a Dask cluster")
    required("cryptography", "a Dask cluster on this machine")
    with required("dask", "a Dask cluster").config.set(_NO_PAGES):
        return distributed.LocalCluster(
            n_workers=workers,
            processes=True,
            threads_per_worker=1,
            protocol="tls://",
            security=distributed.Security.temporary(),
            local_directory=folder,
            silence_logs=logging.CRITICAL,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"allowed_failures": _ALLOWED_FAILURES, "dashboard": False},
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' tracebacks of lost connections off standard error; we say it in words."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
