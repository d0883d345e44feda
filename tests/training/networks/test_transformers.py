"""Models of the transformers library, made from small configurations: per-record book-keeping."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import Tensor, nn
from torch.nn import functional

import mustdp as md
from mustdp.training.networks.bookkeeping import Contributions
from mustdp.training.networks.layers import Tied
from mustdp.training.networks.loaders import Rows
from tests.training.networks.brute_force import (
    Case,
    bound,
    clipped_sum,
    clipped_sum_one_by_one,
    clipper,
    gap_after_training,
    relative_gap,
)

ROWS, PLACES, WORDS = 9, 6, 100
SMALL: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip
DROPOUT: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class Logits(nn.Module):  # type: ignore[misc, unused-ignore]
    """The logits of a model, from the inputs in the order of these names."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        found: Tensor = self.model(**dict(zip(self.names, inputs, strict=True))).logits
        return found


def per_record(outputs: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(outputs.mT, target, reduction="none").mean(1)


def language_model(model: nn.Module, masked: bool) -> Case:
    words, target = torch.randint(WORDS, (2, ROWS, PLACES))
    mask = torch.ones(ROWS, PLACES, dtype=torch.int64)
    mask[::2, 4:] = 0
    names = ("input_ids", "attention_mask") if masked else ("input_ids",)
    return Logits(model, *names), per_record, (words, mask)[: len(names)], target


def gpt2(masked: bool = False) -> Case:
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=32, vocab_size=WORDS, n_positions=16, use_cache=False,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return language_model(transformers.GPT2LMHeadModel(config), masked)


def llama(masked: bool = False) -> Case:
    config = transformers.LlamaConfig(
        **SMALL, num_key_value_heads=2, vocab_size=WORDS, max_position_embeddings=16,
        use_cache=False,
    )  # fmt: skip
    return language_model(transformers.LlamaForCausalLM(config), masked)


def bert_config() -> Any:
    return transformers.BertConfig(**SMALL, **DROPOUT, vocab_size=WORDS, max_position_embeddings=16)


def bert_of_words(masked: bool = False) -> Case:
    return language_model(transformers.BertForMaskedLM(bert_config()), masked)


def bert_of_texts() -> Case:
    _, _, inputs, _ = bert_of_words(masked=True)
    model = transformers.BertForSequenceClassification(bert_config())
    loss = nn.CrossEntropyLoss(reduction="none")
    return Logits(model, "input_ids", "attention_mask"), loss, inputs, torch.randint(2, (ROWS,))


def vit() -> Case:
    config = transformers.ViTConfig(**SMALL, **DROPOUT, image_size=8, patch_size=4, num_channels=3)
    model = Logits(transformers.ViTForImageClassification(config), "pixel_values")
    loss = nn.CrossEntropyLoss(reduction="none")
    return model, loss, (torch.randn(ROWS, 3, 8, 8),), torch.randint(2, (ROWS,))


def with_adapters(make: Callable[[], Case], *layers: str, **options: Any) -> Case:
    """LoRA adapters of peft on a frozen base; their second factors are zero at first."""
    peft = pytest.importorskip("peft")
    model, loss, inputs, target = make()
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=list(layers), **options)
    model.model = peft.get_peft_model(model.model, config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, std=0.1)
    return model, loss, inputs, target


ADAPTED: dict[str, Callable[[], Case]] = {
    "gpt2": lambda: with_adapters(gpt2, "c_attn", fan_in_fan_out=True),
    "gpt2, masked": lambda: with_adapters(
        lambda: gpt2(masked=True), "c_attn", "c_fc", fan_in_fan_out=True
    ),
    "llama, masked": lambda: with_adapters(lambda: llama(masked=True), "q_proj", "v_proj"),
    "bert of texts": lambda: with_adapters(
        bert_of_texts, "query", "value", modules_to_save=["classifier"]
    ),
}
MODELS: dict[str, Callable[[], Case]] = {
    "gpt2": gpt2,
    "gpt2, masked": lambda: gpt2(masked=True),
    "llama": llama,
    "llama, masked": lambda: llama(masked=True),
    "bert of words": bert_of_words,
    "bert of words, masked": lambda: bert_of_words(masked=True),
    "bert of texts, masked": bert_of_texts,
    "vit": vit,
}


@pytest.fixture(autouse=True)
def quiet() -> Any:
    transformers.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="transformers")
        yield


@pytest.mark.parametrize("name", MODELS)
def test_as_if_one_record_at_a_time(name: str) -> None:
    torch.manual_seed(0)
    case = MODELS[name]()
    counts = [1, 3, 1, 2, 1, 1, 4, 1, 2]
    found = clipper(case)
    assert found.way.name == "book-keeping", found.way.reason
    # Norms may be taken as longer by 2^-14 of themselves (``layers.row_squares``).
    for clip, gap in ((0.5, 2.0**-13), (1e6, 1e-5)):
        expected = clipped_sum_one_by_one(case, counts, bound(clip).inner)
        for rows in (9, 4):
            assert relative_gap(clipped_sum(found, case, counts, rows, clip), expected) < gap


@pytest.mark.parametrize("name", ADAPTED)
def test_adapters_as_if_one_record_at_a_time(name: str) -> None:
    torch.manual_seed(0)
    case = ADAPTED[name]()
    counts = [1, 3, 1, 2, 1, 1, 4, 1, 2]
    found = clipper(case)
    assert found.way.name == "book-keeping", found.way.reason
    norms = found.way.contributions(Rows(case[2], case[3])).sizes().squares.sqrt()
    binding, loose = float(norms.min()) / 2.0, 1e6
    for clip, gap in ((binding, 2.0**-13), (loose, 1e-5)):
        expected = clipped_sum_one_by_one(case, counts, bound(clip).inner)
        assert relative_gap(clipped_sum(found, case, counts, 4, clip), expected) < gap
        # The comparison can fail: another count of one record is seen.
        other = clipped_sum_one_by_one(case, [2, *counts[1:]], bound(clip).inner)
        assert relative_gap(other, expected) > 100 * gap


@pytest.mark.parametrize("name", [*MODELS, *ADAPTED])
def test_steps_as_if_one_record_at_a_time(name: str) -> None:
    torch.manual_seed(2)
    gap, method = gap_after_training({**MODELS, **ADAPTED}[name]())
    assert gap < 0.1
    assert method == "book-keeping"


def test_only_adapters_are_trained() -> None:
    torch.manual_seed(0)
    model, loss, inputs, target = ADAPTED["gpt2"]()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    budget = md.calibrated_budget(md.wor(ROWS, 4), noise_multiplier=1.0, steps=3, delta=1e-3)
    chosen = [p for p in model.parameters() if p.requires_grad]
    trainer = md.PrivateTrainer(
        model, loss, (*inputs, target), budget,
        optimizer=torch.optim.SGD(chosen, lr=0.1), max_grad_norm=1.0,
    )  # fmt: skip
    assert trainer.method == "book-keeping"
    assert trainer.train().privacy.certified
    for name, p in model.named_parameters():
        assert torch.equal(p, before[name]) == ("lora_" not in name), name


@pytest.mark.parametrize("make", [gpt2, bert_of_words])
def test_tied_weights_are_not_written_out(make: Callable[[], Case]) -> None:
    torch.manual_seed(0)
    case = make()
    found = clipper(case)
    made: Contributions = found.way.contributions(Rows(case[2], case[3]))
    assert any(isinstance(part.share, Tied) for part in made.parts)
    assert found.way.most_rows > 10**6


def test_a_mask_is_left_out_again_after_the_run() -> None:
    masking_utils: Any = transformers.masking_utils
    usual = masking_utils.is_tracing
    clipper(bert_of_texts())
    assert masking_utils.is_tracing is usual


def test_a_run_with_masks() -> None:
    torch.manual_seed(0)
    model, loss, inputs, target = gpt2(masked=True)
    budget = md.calibrated_budget(md.poisson(ROWS, 0.5), noise_multiplier=1.0, steps=2, delta=1e-3)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = md.PrivateTrainer(
        model, loss, (*inputs, target), budget, optimizer=sgd, max_grad_norm=1.0
    )
    assert trainer.method == "book-keeping"
    assert trainer.train().privacy.certified


def test_dictionaries_and_the_loss_of_the_model_itself() -> None:
    torch.manual_seed(0)
    wrapped, _, (words, mask), _ = gpt2(masked=True)
    model: Any = wrapped.model
    labels = words.masked_fill(mask == 0, -100)
    batch = {"input_ids": words, "attention_mask": mask, "labels": labels}
    budget = md.calibrated_budget(md.wor(ROWS, 4), noise_multiplier=1.0, steps=2, delta=1e-3)

    def shifted(outputs: Any, batch: dict[str, Tensor]) -> Tensor:
        logits, target = outputs.logits[:, :-1], batch["labels"][:, 1:]
        losses = functional.cross_entropy(logits.mT, target, reduction="none")
        return losses.sum(1) / (target != -100).sum(1)

    found = []
    start = {name: p.detach().clone() for name, p in model.state_dict().items()}
    for loss in (None, shifted):
        model.load_state_dict(start)
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        with pytest.warns(md.types.SeededRelease):
            trainer = md.PrivateTrainer(
                model, loss, batch, budget, optimizer=sgd, max_grad_norm=1.0, seed=1
            )
        assert trainer.method == "book-keeping"
        trainer.train()
        found.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(found[0], found[1], atol=1e-4, rtol=1e-4)
