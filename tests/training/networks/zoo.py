"""Small models of every kind the trainer may meet, each with records for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.training.networks.brute_force import Case

ROWS = 9
CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


def per_record_cross_entropy(outputs: Tensor, target: Tensor) -> Tensor:
    """Mean over the positions of a sequence."""
    return functional.cross_entropy(outputs.mT, target, reduction="none").mean(1)


def vectors(model: nn.Module) -> Case:
    return model, CROSS_ENTROPY, (torch.randn(ROWS, 6),), torch.randint(3, (ROWS,))


def sequences(model: nn.Module) -> Case:
    return model, per_record_cross_entropy, (torch.randn(ROWS, 5, 6),), torch.randint(3, (ROWS, 5))


def images(model: nn.Module) -> Case:
    return model, CROSS_ENTROPY, (torch.randn(ROWS, 2, 8, 8),), torch.randint(3, (ROWS,))


def words(model: nn.Module) -> Case:
    entries = torch.randint(7, (ROWS, 5))
    return model, per_record_cross_entropy, (entries,), torch.randint(7, (ROWS, 5))


def perceptron() -> Case:
    return vectors(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))


def overwriting_activation() -> Case:
    return vectors(nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)))


def wide_on_sequences() -> Case:
    layers = nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 3)
    return sequences(nn.Sequential(*layers))


def narrow_on_sequences() -> Case:
    return sequences(nn.Sequential(nn.Linear(6, 2, bias=False), nn.Tanh(), nn.Linear(2, 3)))


def partly_frozen() -> Case:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    model[0].requires_grad_(False)
    model[2].weight.requires_grad_(False)
    model[4].bias.requires_grad_(False)
    return vectors(model)


class _Spare(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.used, self.spare = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.spare(x)
        found: Tensor = self.used(x)
        return found


def never_used() -> Case:
    return vectors(_Spare())


def _pooled(*layers: nn.Module, channels: int) -> nn.Sequential:
    end = (nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 3))
    return nn.Sequential(*layers, *end)


def convolution_many_places() -> Case:
    return images(_pooled(nn.Conv2d(2, 4, 3, padding=1), channels=4))


def convolution_few_places() -> Case:
    small = nn.Conv2d(2, 12, 3, stride=2), nn.ReLU(), nn.Conv2d(12, 16, 2)
    return images(_pooled(*small, channels=16))


def convolution_in_groups() -> Case:
    layers = nn.Conv2d(2, 4, 3, dilation=2, groups=2), nn.Conv2d(4, 4, 1, bias=False)
    return images(_pooled(*layers, channels=4))


def convolution_padded() -> Case:
    layers = (
        nn.Conv2d(2, 3, (3, 2), padding="same"),
        nn.Conv2d(3, 3, 3, padding=(1, 2), padding_mode="circular", stride=(2, 1)),
        nn.Conv2d(3, 4, 2, padding="valid"),
    )
    return images(_pooled(*layers, channels=4))


def group_norm() -> Case:
    return images(_pooled(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), channels=4))


def group_norm_of_vectors() -> Case:
    return vectors(nn.Sequential(nn.GroupNorm(3, 6), nn.Linear(6, 3)))


def layer_norm() -> Case:
    layers = nn.LayerNorm((5, 6)), nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 3)
    return sequences(nn.Sequential(*layers))


def embedding() -> Case:
    return words(nn.Sequential(nn.Embedding(7, 4, padding_idx=1), nn.Tanh(), nn.Linear(4, 7)))


class _TwoTables(nn.Module):  # type: ignore[misc, unused-ignore]
    """One label per record, from two columns of categories."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Embedding(7, 4), nn.Embedding(3, 4), nn.Linear(4, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        found: Tensor = self.out(self.first(a) * self.second(b))
        return found


def two_inputs() -> Case:
    inputs = torch.randint(7, (ROWS,)), torch.randint(3, (ROWS,))
    return _TwoTables(), CROSS_ENTROPY, inputs, torch.randint(3, (ROWS,))


def tied_weights() -> Case:
    model = nn.Sequential(nn.Embedding(7, 4), nn.Tanh(), nn.Linear(4, 7))
    model[2].weight = model[0].weight
    return words(model)


def tied_weights_not_written_out() -> Case:
    model = nn.Sequential(nn.Embedding(40, 24), nn.Tanh(), nn.Linear(24, 40))
    model[2].weight = model[0].weight
    entries, target = torch.randint(40, (2, ROWS, 5))
    return model, per_record_cross_entropy, (entries,), target


class _Positions(nn.Module):  # type: ignore[misc, unused-ignore]
    """A small language model whose positions are looked up once for all records."""

    def __init__(self, places: int, leading: bool) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(40, 24), nn.Embedding(places, 24)
        self.norm, self.out = nn.RMSNorm(24), nn.Linear(24, 40, bias=False)
        self.out.weight, self.leading = self.words.weight, leading

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        found = self.words(input=x) + self.positions(places[None] if self.leading else places)
        out: Tensor = self.out(self.norm(torch.tanh(found)))
        return out


def _positioned(places: int, leading: bool) -> Case:
    entries, target = torch.randint(40, (2, ROWS, places))
    return _Positions(places, leading), per_record_cross_entropy, (entries,), target


def positions_for_all_records() -> Case:
    return _positioned(6, leading=True)


def positions_without_a_record_dimension() -> Case:
    return _positioned(6, leading=False)


def positions_as_many_as_are_tried() -> Case:
    return _positioned(5, leading=False)


class _Shifted(nn.Module):  # type: ignore[misc, unused-ignore]
    """A layer nobody has a rule for, called by name and with more than tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.rand(6))

    def forward(self, x: Tensor, *, scale: Tensor, sign: int = 1, mask: None = None) -> Tensor:
        return (x + sign * self.shift) * scale


class _CallsByName(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = _Shifted(), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(input=self.first(x, scale=x.sin(), sign=-1, mask=None))
        return found


def called_by_name() -> Case:
    return vectors(_CallsByName())


def root_mean_square_norm() -> Case:
    layers = nn.RMSNorm((5, 6)), nn.Linear(6, 6), nn.RMSNorm(6, eps=1e-3), nn.Linear(6, 3)
    return sequences(nn.Sequential(*layers))


def layer_used_twice() -> Case:
    middle = nn.Linear(8, 8)
    layers = nn.Linear(6, 8), nn.ReLU(), middle, nn.ReLU(), middle, nn.ReLU(), nn.Linear(8, 3)
    return vectors(nn.Sequential(*layers))


def convolution_used_twice() -> Case:
    layer = nn.Conv2d(2, 2, 3, padding=1)
    return images(_pooled(layer, nn.Tanh(), layer, channels=2))


class _Scaled(nn.Module):  # type: ignore[misc, unused-ignore]
    """A layer nobody has a rule for."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(size))
        self.inner = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.inner(x) * self.scale)


def unknown_layer() -> Case:
    return vectors(nn.Sequential(nn.Linear(6, 5), _Scaled(5), nn.Linear(5, 3)))


def weight_norm() -> Case:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5))
    return vectors(nn.Sequential(layer, nn.ReLU(), nn.Linear(5, 3)))


def one_dimensional_convolution() -> Case:
    return sequences(nn.Sequential(nn.Conv1d(5, 5, 3, padding=1), nn.ReLU(), nn.Linear(6, 3)))


def normalised_by_fixed_statistics() -> Case:
    model = _pooled(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), channels=4)
    model[1].eval()
    return images(model)


class _Functional(nn.Module):  # type: ignore[misc, unused-ignore]
    """Uses the weight of a layer outside of that layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.between = nn.Embedding(7, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(torch.tanh(self.between(self.table(x))), self.table.weight)


def tied_by_hand() -> Case:
    return words(_Functional())


class _Recurrent(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self, cells: nn.RNNBase, width: int, starts: int = 0) -> None:
        super().__init__()
        self.cells, self.out, self.starts = cells, nn.Linear(width, 3), starts

    def forward(self, x: Tensor) -> Tensor:
        first = self.cells.batch_first
        state = torch.zeros(self.starts, len(x), 4, device=x.device) if self.starts else None
        values = self.cells(x if first else x.transpose(0, 1), state)[0]
        found: Tensor = self.out(values if first else values.transpose(0, 1))
        return found


def lstm() -> Case:
    return sequences(_Recurrent(nn.LSTM(6, 4, batch_first=True), 4))


def lstm_of_two_layers_both_ways() -> Case:
    return sequences(_Recurrent(nn.LSTM(6, 4, num_layers=2, bidirectional=True), 8))


def lstm_projected() -> Case:
    return sequences(_Recurrent(nn.LSTM(6, 4, proj_size=2, batch_first=True), 2))


def gru_of_two_layers() -> Case:
    return sequences(_Recurrent(nn.GRU(6, 4, num_layers=2), 4, starts=2))


def simple_recurrence_both_ways() -> Case:
    return sequences(_Recurrent(nn.RNN(6, 4, bidirectional=True, bias=False), 8))


def simple_recurrence_cut_off() -> Case:
    return sequences(_Recurrent(nn.RNN(6, 4, nonlinearity="relu", batch_first=True), 4))


class _Loop(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self, cell: nn.RNNCellBase) -> None:
        super().__init__()
        self.cell, self.out = cell, nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        state, found = None, []
        for place in range(x.shape[1]):
            state = self.cell(x[:, place], state)
            found.append(self.out(state[0] if isinstance(state, tuple) else state))
        return torch.stack(found, 1)


def loop_over_lstm_cells() -> Case:
    return sequences(_Loop(nn.LSTMCell(6, 4)))


def loop_over_gru_cells() -> Case:
    return sequences(_Loop(nn.GRUCell(6, 4)))


def loop_over_simple_cells() -> Case:
    return sequences(_Loop(nn.RNNCell(6, 4, nonlinearity="relu")))


class _Attention(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
        self.out = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.block(x))
        return found


def attention() -> Case:
    return sequences(_Attention())


def transformer_encoder() -> Case:
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return sequences(nn.Sequential(encoder, nn.Linear(6, 3)))


class _Translates(nn.Module):  # type: ignore[misc, unused-ignore]
    """Masks of both kinds, and a decoder that looks at other sequences."""

    def __init__(self, records_first: bool) -> None:
        super().__init__()
        named: Any = {"dropout": 0.0, "batch_first": records_first}
        self.encoder = nn.TransformerEncoderLayer(6, 3, 8, norm_first=True, **named)
        self.decoder = nn.TransformerDecoderLayer(6, 2, 8, **named)
        self.out, self.records_first = nn.Linear(6, 3), records_first

    def turned(self, x: Tensor) -> Tensor:
        return x if self.records_first else x.transpose(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        padded = x[:, :, 0] > 1.0
        padded = padded & (torch.arange(x.shape[1], device=x.device) > 0)
        later = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        memory = self.encoder(self.turned(x), src_key_padding_mask=padded)
        values = self.decoder(
            self.turned(x.flip(1)), memory, tgt_mask=later, tgt_is_causal=True,
            memory_key_padding_mask=padded,
        )  # fmt: skip
        found: Tensor = self.out(self.turned(values))
        return found


def encoder_and_decoder() -> Case:
    return sequences(_Translates(records_first=True))


def encoder_and_decoder_places_first() -> Case:
    return sequences(_Translates(records_first=False))


class _Weighs(nn.Module):  # type: ignore[misc, unused-ignore]
    """Uses the weights that attention returns, and a mask of numbers."""

    def __init__(self, heads_apart: bool) -> None:
        super().__init__()
        self.look = nn.MultiheadAttention(6, 2, bias=heads_apart, batch_first=not heads_apart)
        self.out, self.heads_apart = nn.Linear(11, 3), heads_apart

    def forward(self, x: Tensor) -> Tensor:
        mask = -x.new_ones(5, 5).triu(1)
        if self.heads_apart:
            mask = mask.expand(2 * len(x), 5, 5)
            x = x.transpose(0, 1)
        found, weights = self.look(
            x, x, x.sin(), attn_mask=mask, average_attn_weights=not self.heads_apart
        )
        if self.heads_apart:
            found, weights = found.transpose(0, 1), weights[:, 1]
        out: Tensor = self.out(torch.cat([found, weights], -1))
        return out


def attention_weights() -> Case:
    return sequences(_Weighs(heads_apart=False))


def attention_weights_of_a_head() -> Case:
    return sequences(_Weighs(heads_apart=True))


class _WithBias(nn.Module):  # type: ignore[misc, unused-ignore]
    """Attention with a further key, which is not written out."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.MultiheadAttention(6, 2, add_bias_kv=True, batch_first=True)
        self.out = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.look(x, x, x)[0])
        return found


def attention_with_a_further_key() -> Case:
    return sequences(_WithBias())


class _Across(nn.Module):  # type: ignore[misc, unused-ignore]
    """Records in the place of a sequence: each must be left with itself to look at."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.MultiheadAttention(6, 2, batch_first=True)
        self.out = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.look(x[None], x[None], x[None])[0][0])
        return found


def attention_across_records() -> Case:
    return vectors(_Across())


class _Residual(nn.Module):  # type: ignore[misc, unused-ignore]
    """The block of a ResNet, with GroupNorm in the place of BatchNorm."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm, self.last = nn.GroupNorm(2, after), nn.GroupNorm(2, after)
        self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        found = functional.relu(self.norm(self.first(x)))
        return functional.relu(self.last(self.second(found)) + self.shortcut(x))


def residual_network() -> Case:
    return images(_pooled(_Residual(2, 4, 1), _Residual(4, 8, 2), channels=8))


class _PlacesFirst(nn.Module):  # type: ignore[misc, unused-ignore]
    """Turns (records, places, p) round, so that the first dimension is not the record."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x.transpose(0, 1)).transpose(0, 1)
        return found


def places_first() -> Case:
    return sequences(_PlacesFirst())


def places_first_as_many_as_are_tried() -> Case:
    x, target = torch.randn(ROWS, 4, 6), torch.randint(3, (ROWS, 4))
    return _PlacesFirst(), per_record_cross_entropy, (x,), target


class _Flattens(nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x.flatten(0, 1)).view(len(x), -1, 3)
        return found


def flattened() -> Case:
    return sequences(_Flattens())


BOOKKEEPING: tuple[Callable[[], Case], ...] = (
    perceptron,
    overwriting_activation,
    wide_on_sequences,
    narrow_on_sequences,
    partly_frozen,
    never_used,
    convolution_many_places,
    convolution_few_places,
    convolution_in_groups,
    convolution_padded,
    group_norm,
    group_norm_of_vectors,
    residual_network,
    layer_norm,
    embedding,
    two_inputs,
    tied_weights,
    tied_weights_not_written_out,
    positions_for_all_records,
    positions_without_a_record_dimension,
    positions_as_many_as_are_tried,
    called_by_name,
    root_mean_square_norm,
    layer_used_twice,
    convolution_used_twice,
    unknown_layer,
    weight_norm,
    one_dimensional_convolution,
    normalised_by_fixed_statistics,
    lstm,
    lstm_of_two_layers_both_ways,
    lstm_projected,
    gru_of_two_layers,
    simple_recurrence_both_ways,
    simple_recurrence_cut_off,
    loop_over_lstm_cells,
    loop_over_gru_cells,
    loop_over_simple_cells,
    attention,
    transformer_encoder,
    encoder_and_decoder,
    attention_weights,
    attention_weights_of_a_head,
)
RECORD_BY_RECORD: tuple[Callable[[], Case], ...] = (
    tied_by_hand,
    attention_with_a_further_key,
    attention_across_records,
    encoder_and_decoder_places_first,
    places_first,
    places_first_as_many_as_are_tried,
    flattened,
)
