"""Records that live on a Dask cluster, in partitions that stay where they are.

Record i is row i of the partitions one after the other. For a portion, the rows that its subsets
hold are drawn on the cluster; a task at each partition picks those that are its own, which is all
that travels; and one more task computes the portion from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from time import sleep
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from mustdp.data.columns import ColumnNames, Frame, Source, as_frame, unnamed
from mustdp.errors import ClusterLost, InvalidParameter
from mustdp.execution.cluster import Concealed
from mustdp.extras import required
from mustdp.numerics.arrays import FloatArray, IntArray
from mustdp.numerics.checks import unquoted

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class DaskSource(Source):
    """Records in partitions of a Dask cluster, checked; made by :func:`open_partitioned`.

    Attributes
    ----------
    client : distributed.Client
        The client that the partitions belong to.
    partitions : tuple of Future
        The partitions.
    lengths : tuple of int
        Number of records in each.
    names : tuple of str
        Names of the selected columns.
    positions : tuple of int
        Their positions among the columns of a partition.
    n : int
        Number of records.
    columns : tuple of str
        The same as ``names``.

    Examples
    --------
    >>> import mustdp as md
    >>> import distributed, numpy as np  # doctest: +SKIP
    >>> client = distributed.Client(processes=False)  # doctest: +SKIP
    >>> parts = client.scatter([np.array([[30.0], [41.0]])])  # doctest: +SKIP
    >>> md.data.open_partitioned(parts, client=client).n  # doctest: +SKIP
    2
    """

    #: Every row has to be fetched.
    rows_in_memory: ClassVar[bool] = False

    client: Any
    partitions: tuple[Any, ...]
    lengths: tuple[int, ...]
    names: tuple[str, ...]
    positions: tuple[int, ...]
    n: int = field(init=False)
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", self.names)
        object.__setattr__(self, "n", sum(self.lengths))

    @property
    def edges(self) -> tuple[int, ...]:
        """Number of the first record of each partition, and n."""
        return (0, *accumulate(self.lengths))

    def addresses(self) -> list[str]:
        """For each partition a worker that holds it; waits for those that are being recomputed.

        Returns
        -------
        list of str
            Addresses of workers, one for each partition.

        Raises
        ------
        ClusterLost
            A partition was lost and cannot be computed again.
        """
        distributed = required("distributed", "a Dask cluster")
        while True:
            try:
                with self.client.as_current():
                    distributed.wait(list(self.partitions))
            except distributed.CancelledError:
                raise ClusterLost(
                    "a partition was lost with the worker that held it; partitions that Dask can "
                    "compute again, such as those of a dask DataFrame, would not be"
                ) from None
            for number, future in enumerate(self.partitions):
                if future.status == "error":
                    unquoted(future.result, f"partition {number} must be there to be read")
            holders = self.client.who_has(list(self.partitions))
            found = [holders.get(future.key) for future in self.partitions]
            if all(found):
                return [sorted(workers)[0] for workers in found if workers]
            sleep(0.05)  # a worker has just been lost

    def _read(self, indices: IntArray) -> FloatArray:
        rows, places = np.unique(indices, return_inverse=True)
        drawn = Concealed(rows)
        futures = [
            self.client.submit(picked, future, drawn, first, last, self.positions,
                               workers=[worker], pure=False)
            for future, worker, (first, last) in zip(
                self.partitions, self.addresses(), pairwise(self.edges), strict=True
            )
        ]  # fmt: skip
        return joined(self.client.gather(futures)).take(places, axis=0)


class PartitionSize(NamedTuple):
    """What a partition is: its rows, and the columns selected."""

    rows: int
    names: tuple[str, ...]
    positions: tuple[int, ...]


def open_partitioned(data: Any, columns: ColumnNames = None, client: Any = None) -> DaskSource:
    """A source on partitions of a cluster, each checked where it is.

    They are computed on the cluster and kept there as long as the source lives. Missing columns,
    columns that are not numeric, NaN and infinities are refused.

    Parameters
    ----------
    data : dask DataFrame or list
        A dask DataFrame, or futures or delayed values that are pandas frames or numpy arrays with
        the same columns.
    columns : str, int or sequence, default=None
        Names or positions of the columns; None means all numeric ones.
    client : distributed.Client, default=None
        The one that the partitions belong to; None means the current one.

    Returns
    -------
    DaskSource
        To be given to :func:`private_bootstrap` as its data.

    Examples
    --------
    >>> import mustdp as md
    >>> import distributed, numpy as np  # doctest: +SKIP
    >>> client = distributed.Client(processes=False)  # doctest: +SKIP
    >>> parts = client.scatter([np.array([[30.0], [41.0]])])  # doctest: +SKIP
    >>> md.data.open_partitioned(parts, client=client).lengths  # doctest: +SKIP
    (2,)
    """
    distributed = required("distributed", "a Dask cluster")
    partitions = _partitions(data, columns)
    if client is None:
        owners = [part.client for part in partitions if isinstance(part, distributed.Future)]
        try:
            client = owners[0] if owners else distributed.get_client()
        except ValueError:
            raise InvalidParameter(
                "client must be given, as no distributed.Client is current, got None"
            ) from None
    futures = client.compute(partitions)
    unmeasured = DaskSource(client, tuple(futures), (), (), ())
    tasks = [
        client.submit(measured, future, columns, workers=[worker], pure=False)
        for future, worker in zip(futures, unmeasured.addresses(), strict=True)
    ]
    found: list[PartitionSize] = []
    for number, answer in enumerate(client.gather(tasks)):
        measure = _or_raised(answer)
        found.append(measure)
        if (measure.names, measure.positions) != (found[0].names, found[0].positions):
            raise InvalidParameter(
                f"data must have the same columns in every partition, got others in {number}"
            )
    lengths = tuple(measure.rows for measure in found)
    if not sum(lengths) > 0:
        raise InvalidParameter("data must hold at least one record, got none")
    return DaskSource(client, tuple(futures), lengths, found[0].names, found[0].positions)


def measured(partition: Any, columns: ColumnNames) -> PartitionSize | Exception:
    """What a partition is, or the reason to refuse it."""
    return _kept(lambda: _measured(partition, columns), "partitions must be readable")


def _kept(call: Callable[[], T], refusal: str) -> T | Exception:
    """What ``call`` gives or, not raised, its error: Dask would write arguments into its log."""
    try:
        return unquoted(call, refusal)
    except Exception as problem:
        return problem


def _or_raised(found: T | Exception) -> T:
    if isinstance(found, Exception):
        raise found
    return found


def _measured(partition: Any, columns: ColumnNames) -> PartitionSize:
    frame = _framed(partition)
    chosen = frame.select(columns)
    for column in chosen:
        frame.read(column)
    names = tuple(column.name for column in chosen)
    return PartitionSize(frame.rows, names, tuple(column.at for column in chosen))


def _framed(partition: Any) -> Frame:
    frame = as_frame(partition)
    if frame is None:
        raise InvalidParameter(
            "partitions must be pandas frames or numpy arrays, "
            f"got one of type {type(partition).__name__}"
        )
    return frame


def picked(
    partition: Any, drawn: Concealed[IntArray], first: int, last: int, positions: Sequence[int]
) -> Concealed[FloatArray | Exception]:
    """The drawn rows of the partition that holds the records first to last - 1; never raises."""
    between = (first, last)
    refusal = "partitions must stay what they were"
    return Concealed(_kept(lambda: _rows_of(partition, drawn.content, between, positions), refusal))


def _rows_of(
    partition: Any, drawn: IntArray, between: tuple[int, int], positions: Sequence[int]
) -> FloatArray:
    start, stop = np.searchsorted(drawn, between)
    rows = drawn[start:stop] - between[0]
    if hasattr(partition, "iloc"):
        part = partition.iloc[rows]
    elif hasattr(partition, "take") and not isinstance(partition, np.ndarray):
        part = partition.take(rows)
    else:
        part = partition[rows]
    frame = _framed(part)
    return np.stack([frame.read(unnamed(frame.labels, at)) for at in positions], axis=1)


def joined(parts: Sequence[Concealed[FloatArray | Exception]]) -> FloatArray:
    """The rows of all partitions one after the other; what went wrong at one is raised here."""
    return np.concatenate([_or_raised(part.content) for part in parts])


def _partitions(data: Any, columns: ColumnNames) -> list[Any]:
    if hasattr(data, "to_delayed") and hasattr(data, "npartitions"):
        names = [columns] if isinstance(columns, str) else columns
        labels = getattr(data, "columns", ())
        if isinstance(names, list | tuple) and names and all(name in labels for name in names):
            data = data[list(names)]  # other columns need not even be read
        return list(data.to_delayed())
    distributed = required("distributed", "a Dask cluster")
    delayed = required("dask.delayed", "a Dask cluster")
    if isinstance(data, list | tuple) and data and all(
        isinstance(part, distributed.Future | delayed.Delayed) for part in data
    ):  # fmt: skip
        return list(data)
    raise InvalidParameter(
        "data must be a dask DataFrame or a non-empty list of futures or delayed values, "
        f"got {type(data).__name__}"
    )
