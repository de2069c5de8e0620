"""Loading, saving and adapting language models: LoRA, role adapters, named tensors and FSDP2."""
