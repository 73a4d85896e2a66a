"""Which shard is asked for what, and what becomes of the answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_sparse.reference.embedding import Entries, segment_entries
from onnx_sparse.reference.embedding_bag import bag_entries
from onnx_sparse.reference.implementation import checked_inputs
from onnx_sparse.schemas import OPS, quantized_embedding
from onnx_sparse.schemas.validation import KernelError
from onnx_sparse.sharding.manifest import LookupPlace, TablePlace

Array = np.ndarray[Any, Any]

_ID_BYTES = 8


@dataclass(frozen=True)
class Route:
    """How the ids of a lookup in one batch go to shards.

    Attributes:
        requests: The inputs of each shard that has something to answer.
        answer: The name of the shards' outputs that are rows or sums.
        order: For each id, sorted by its shard, its position in the batch; None where sums come back.
        fed: Inputs of the merging model that are known already.
    """

    requests: dict[int, dict[str, Array]]
    answer: str
    order: Array | None
    fed: dict[str, Array]


class Router:
    """Routes the ids of one lookup.

    Args:
        place: The lookup.
        table: Its table.
    """

    def __init__(self, place: LookupPlace, table: TablePlace) -> None:
        self.place, self.table, self.key = place, table, place.key
        self.op = OPS.get(place.operator)
        self._parts = [np.broadcast_to(np.zeros((), table.type), table.shape)]  # no bytes: only shapes and types count
        if table.scales is not None:
            self._parts.append(np.broadcast_to(np.zeros((), table.scales[1]), table.scales[0]))
        self._empty = [np.empty((0, *part.shape[1:]), part.dtype) for part in self._parts]
        self._row_bytes = sum(math.prod(part.shape[1:]) * part.itemsize for part in self._parts)

    def route(self, values: Mapping[str, Array]) -> Route:
        """Route the ids of a batch.

        Raises:
            KernelError: The inputs are illegal, as for the lookup in the whole model.
        """
        if self.op is None:
            return self._of_rows(self._gathered(values[self.place.inputs["indices"]]))
        entries = self._entries(values)
        if not self.place.sums:
            return self._of_entries(entries)
        entries, divisors = self._for_sums(entries)
        fed = {} if self.op.reduction == "sum" else {f"{self.key}_divisors": divisors}
        route = self._of_sums(entries) if self._sums_are_less(entries) else self._of_entries(entries)
        route.fed.update(fed)
        return route

    def merged(self, route: Route, answers: Mapping[int, Mapping[str, Array]]) -> dict[str, Array]:
        """The inputs of the merging model.

        Args:
            route: What the shards were asked.
            answers: What each has answered.
        """
        fed = dict(route.fed)
        shards = sorted(route.requests)
        for name, empty in zip(("rows", "scales"), self._empty, strict=False):
            asked = f"{self.key}_{route.answer if name == 'rows' else name}"
            parts = [answers[shard][asked] for shard in shards]
            if route.answer == "sums":  # added in place: they are the most bytes of a batch
                for part in parts[1:]:
                    np.add(parts[0], part, out=parts[0])
                del parts[1:]
            fed[f"{self.key}_{name}"] = parts[0] if len(parts) == 1 else np.concatenate([empty, *parts])
        return fed

    def outputs(self, route: Route) -> list[str]:
        """The names of the shards' outputs that are asked for."""
        return [f"{self.key}_{route.answer}", *([f"{self.key}_scales"] if self.table.scales is not None else [])]

    def _gathered(self, ids: Array) -> Array:
        rows = self.table.shape[0]
        if ids.size and (ids.min() < -rows or ids.max() >= rows):
            at = np.unravel_index(int(((ids < -rows) | (ids >= rows)).argmax()), ids.shape)
            element = f"indices[{','.join(map(str, at))}]" if at else "indices"
            raise KernelError(f"{self.place.label}: {element} = {ids[at]} is out of range [{-rows}, {rows})")
        ids = ids.astype(np.int64, copy=False)
        return np.where(ids < 0, ids + rows, ids)

    def _entries(self, values: Mapping[str, Array]) -> Entries:
        """What the lookup reduces, by the operator's own definition."""
        op = self.op
        assert op is not None
        given = [values[self.place.inputs[i.name]] if i.name in self.place.inputs else None for i in op.inputs]
        given[: len(self._parts)] = self._parts
        attributes = dict(self.place.attributes)
        try:
            inputs = checked_inputs(op, given, attributes)
            if op.name in quantized_embedding.FAMILY.names:
                width = self.table.shape[1] * (2 if attributes.pop("bits", "8") == "4" else 1)
                inputs[:2] = [np.broadcast_to(self._parts[1].dtype.type(0), (self.table.shape[0], width))]
            if op.reduction == "max":  # it has no weights
                inputs.insert(4, None)
            entries_of: Callable[..., Any] = bag_entries if "offsets" in self.place.inputs else segment_entries
            entries: Entries = entries_of(*inputs, **attributes)
            return entries
        except KernelError as error:
            raise KernelError(f"{op.name}: {error}") from None

    def _of_rows(self, ids: Array) -> Route:
        """Ask for the row of each id; the positions have the shape of the ids."""
        flat = ids.reshape(-1)
        requests, order = self._by_shard(flat)
        positions = np.empty(len(flat), np.int64)
        positions[order] = np.arange(len(flat))
        asked = {shard: {f"{self.key}_ids": part} for shard, part in requests.items()}
        return Route(asked, "rows", order, {f"{self.key}_positions": positions.reshape(ids.shape)})

    def _by_shard(self, ids: Array) -> tuple[dict[int, Array], Array]:
        """The ids within each shard that has any, and the order that sorts ids by their shards."""
        shards = self.table.shards
        count = len(shards)
        if count == 1:
            return {shards[0]: ids}, np.arange(len(ids))
        if count & count - 1:
            place, within = ids % count, ids // count
        else:  # several times as fast
            place, within = ids & count - 1, ids >> count.bit_length() - 1
        order = np.argsort(place.astype(np.uint8 if count <= 256 else np.int64), kind="stable")
        within = within[order]
        ends = [0, *np.cumsum(np.bincount(place, minlength=count)).tolist()]
        parts = [within[begin:end] for begin, end in itertools.pairwise(ends)]
        found = {shard: part for shard, part in zip(shards, parts, strict=True) if len(part)}
        return found or {shards[0]: ids}, order

    def _of_entries(self, entries: Entries) -> Route:
        """Ask for rows, which the merging model reduces as the whole model does."""
        ids, key, weights = entries.indices.astype(np.int64, copy=False), self.key, self._weights(entries)
        default = np.array(-1)
        if entries.default_index is not None and not entries.counts.all():
            default, ids = np.array(len(ids)), np.append(ids, int(entries.default_index))
        route = self._of_rows(ids)
        positions = route.fed[f"{key}_positions"]
        if default >= 0:
            default, positions = positions[-1:].reshape(()), positions[:-1]
        splits = np.concatenate([[0], np.cumsum(entries.counts)])
        route.fed.update({f"{key}_positions": positions, f"{key}_splits": splits})
        if "default_index" in self.place.inputs and not self.place.sums:
            route.fed[f"{key}_default"] = default
        if weights is not None:
            route.fed[f"{key}_weights"] = weights
        return route

    def _weights(self, entries: Entries) -> Array | None:
        """The weight of each entry; empty where all are 1, and None where the lookup has no such input."""
        if "per_sample_weights" not in self.place.inputs:
            return None
        weights = entries.per_sample_weights
        return np.empty(0, self._parts[-1].dtype) if weights is None else weights[: len(entries.indices)]

    def _for_sums(self, entries: Entries) -> tuple[Entries, Array]:
        """The entries of plain sums, and what these are divided by.

        The default row becomes an entry, and entries of a divisor 0 are left out, because the answer is 0 whatever
        their sum.
        """
        assert self.op is not None
        dtype, shape = self._parts[0].dtype, (len(entries.counts), *[1] * (len(self.table.shape) - 1))
        has_default = entries.default_index is not None and not entries.counts.all()
        if entries.per_sample_weights is None and not has_default:
            counts = np.maximum(entries.counts, 1)
            divisors = np.sqrt(counts) if self.op.reduction == "sqrtn" else counts
            return entries, divisors.astype(dtype).reshape(shape)
        bags = np.repeat(np.arange(len(entries.counts)), entries.counts)
        ids = entries.indices.astype(np.int64, copy=False)
        weights = entries.weights()
        weights = None if weights is None else weights[: len(ids)]
        counts = entries.counts
        if weights is None or self.op.reduction == "sum":
            divisors = np.maximum(counts, 1).astype(np.float64)
            divisors = np.sqrt(divisors) if self.op.reduction == "sqrtn" else divisors
        else:
            square = self.op.reduction == "sqrtn"
            divisors = entries.sums_of(np.square(weights) if square else weights)[:, 0]
            divisors = np.sqrt(divisors) if square else divisors
            if not (divisors[bags] != 0).all():
                kept = divisors[bags] != 0
                ids, weights, bags = ids[kept], weights[kept], bags[kept]
            divisors = np.where(divisors == 0, 1, divisors)
        if has_default:
            empty = np.flatnonzero(counts == 0)
            order = np.argsort(np.concatenate([bags, empty]), kind="stable")
            ids = np.concatenate([ids, np.full(len(empty), entries.default_index)])[order]
            weights = None if weights is None else np.concatenate([weights, np.ones(len(empty), dtype)])[order]
            bags = np.concatenate([bags, empty])[order]
        counts = np.bincount(bags, minlength=len(counts))
        # A table of no bytes: these entries are only routed.
        return Entries(self._parts[0], ids, counts, None, weights), divisors.astype(dtype).reshape(shape)

    def _sums_are_less(self, entries: Entries) -> bool:
        """Whether sums are fewer bytes than rows, with what is sent to ask for them."""
        ids, shards = len(entries.indices), len(self.table.shards)
        bags = _ID_BYTES + (0 if entries.per_sample_weights is None else self._parts[0].itemsize)
        return ids * bags + shards * len(entries.counts) * self._row_bytes < ids * self._row_bytes

    def _of_sums(self, entries: Entries) -> Route:
        """Ask each shard for the sums of its rows of every bag, which are added when they come."""
        key, count = self.key, len(entries.counts)
        bags = np.repeat(np.arange(count), entries.counts)
        parts, order = self._by_shard(entries.indices.astype(np.int64, copy=False))
        begin, asked = 0, {}
        for shard, ids in parts.items():
            at = order[begin : begin + len(ids)]
            begin += len(ids)
            asked[shard] = {f"{key}_added": ids, f"{key}_bags": bags[at], f"{key}_count": np.array(count)}
            if "per_sample_weights" in self.place.inputs:
                weights = entries.per_sample_weights
                asked[shard][f"{key}_weights"] = np.empty(0, self._parts[0].dtype) if weights is None else weights[at]
        fed = {f"{key}_positions": np.arange(count), f"{key}_splits": np.arange(count + 1)}
        if "per_sample_weights" in self.place.inputs:
            fed[f"{key}_weights"] = np.empty(0, self._parts[0].dtype)
        return Route(asked, "sums", None, fed)
