"""The tokenizer: byte-level BPE learnt from the training text, with the control tokens of `bytewise.inference.convert.make`."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bytewise.inference.convert.make import SPECIAL_TOKENS

SIZE = 4096
"""Number of tokens: control tokens, 256 bytes and merges."""


def learn(texts: Iterable[str], size: int = SIZE) -> Tokenizer:
    """A tokenizer with `size` tokens. Control tokens have the first ids, in their order."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
