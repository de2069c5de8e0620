"""The model as the torch engine runs it: layers prepared once for all running batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from torch import Tensor
from transformers import PreTrainedModel

from grpo_core.forward.fast_layers import use_fast_layers
from grpo_core.forward.hidden_states import has_plain_blocks
from grpo_core.models.lora import adapter_config_of, merged
from grpo_core.models.named_tensors import named_tensors
from grpo_core.models.pretrained import read_payload
from services.inference.torch_backend.plain_decoder import PlainDecoder, PlainWeights
from services.inference.torch_backend.ragged_attention import RAGGED_ATTENTION
from services.inference.torch_backend.ragged_pass import RaggedPass

Prepared = PlainWeights | Mapping[str, Tensor]


class ModelRunner:
    """A transformers causal LM that runs under the weights of any batch; it must be the model's only user.

    ``base`` holds the weights that the model came with. They are kept whatever weights the policies get: adapters are
    merged with them, and batches share the tensors that their adapter does not change.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model.eval()
        self._model.requires_grad_(False)
        self._plain = PlainDecoder(model) if has_plain_blocks(model.get_decoder().config) else None
        if self._plain is None:
            model.set_attn_implementation(RAGGED_ATTENTION)
            use_fast_layers(model)
        self._tensors: Mapping[str, Tensor] = named_tensors(model)
        self.base: Mapping[str, Tensor] = {name: tensor.data for name, tensor in self._tensors.items()}
        self.vocab_size = int(model.get_output_embeddings().weight.shape[0])
        self.layers = int(model.config.num_hidden_layers)
        self.device = model.device
        self.dtype = model.dtype
        self._loaded: object = None  # the weights that the transformers model points to

    def read(self, payload: bytes | memoryview) -> dict[str, Tensor]:
        """Return a payload's weights, full or an adapter's. Raises ``CheckpointError`` if they do not fit ``base``."""
        if adapter_config_of(payload) is not None:
            return merged(self.base, payload)
        # Copies: tensors inside the payload are badly aligned for vector units, and would keep all of it alive.
        return {
            name: tensor.to(device=self.device, dtype=self.base[name].dtype, copy=True)
            for name, tensor in read_payload(payload, self.base).items()
        }

    def prepare(self, weights: Mapping[str, Tensor]) -> Prepared:
        """Lay out weights with the names and shapes of ``base`` for ``logits``."""
        return weights if self._plain is None else self._share_base(self._plain.prepare(weights), weights)

    def _share_base(self, prepared: PlainWeights, weights: Mapping[str, Tensor]) -> PlainWeights:
        """Replace copies of the base's joint query, key and value weights where an adapter changes none of them."""
        if weights is self.base:
            return prepared
        blocks = list(prepared.blocks)
        for layer, block in enumerate(blocks):
            attention = f"model.layers.{layer}.self_attn"
            names = [f"{attention}.{part}_proj.{leaf}" for part in "qkv" for leaf in ("weight", "bias")]
            if all(weights.get(name) is self.base.get(name) for name in names):
                blocks[layer] = replace(block, qkv=self._prepared_base.blocks[layer].qkv)
        return replace(prepared, blocks=tuple(blocks))

    @cached_property
    def _prepared_base(self) -> PlainWeights:
        assert self._plain is not None
        return self._plain.prepare(self.base)

    def logits(self, prepared: Prepared, input_ids: Tensor, ragged_pass: RaggedPass) -> Tensor:
        """Return logits (B, V) after each row's last token; ``input_ids`` (N,) are the pass's tokens."""
        if isinstance(prepared, PlainWeights):
            assert self._plain is not None
            return self._plain.logits(prepared, input_ids, ragged_pass)
        if self._loaded is not prepared:
            for name, tensor in self._tensors.items():
                tensor.data = prepared[name]  # sets a pointer, copies nothing
            self._loaded = prepared
        result: Tensor = self._model(
            input_ids=input_ids[None],
            position_ids=ragged_pass.position_ids,
            use_cache=False,
            logits_to_keep=ragged_pass.predicting,
            ragged_pass=ragged_pass,
        ).logits[0]
        return result
