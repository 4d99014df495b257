"""What tokens write, against the tokenizers library, and where stop strings end it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from bytewise.inference.answer import AnswerBuilder, TokenTexts
from bytewise.inference.artifact.token_table import TokenTable
from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import make_model
from bytewise.inference.convert.make import tokenizer as byte_tokenizer
from bytewise.inference.sampling.constraint import StopStrings, before_stop
from bytewise.protocol.errors.actors import CannotExecute, UnsupportedModel
from bytewise.protocol.units import ZERO_DIGEST
from tests.fixtures.builders import GREEDY, World

FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
FALLBACK = {"type": "ByteFallback"}
REPLACE = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
FUSE, STRIP = {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}
SPACE_FIRST = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}


def sentence_piece(*decoders: dict[str, Any]) -> bytes:
    """A SentencePiece vocabulary with byte fallback: control tokens, bytes, pieces."""
    pieces = [
        "<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "\u2581the", "a", "é", "\u2581\u2581b", "<tool>",
    ]  # fmt: skip
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    added = [{"id": i, "content": pieces[i], "special": i < 2, **FLAGS} for i in (0, 1, len(pieces) - 1)]
    model = {"type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    decoder = {"type": "Sequence", "decoders": list(decoders)} if len(decoders) > 1 else decoders[0]
    return json.dumps({"version": "1.0", "added_tokens": added, "model": model, "decoder": decoder}).encode()


FILES = {
    "byte level": json.dumps(byte_tokenizer()).encode(),
    "Gemma": sentence_piece(REPLACE, FALLBACK, FUSE),
    "Llama 2": sentence_piece(REPLACE, FALLBACK, FUSE, STRIP),
}
SIZES = {name: tokenizers.Tokenizer.from_str(file.decode()).get_vocab_size() for name, file in FILES.items()}


@given(st.data())
@pytest.mark.parametrize("name", FILES)
def test_text_equals_the_librarys_decoding(name: str, data: st.DataObject) -> None:
    library, lexicon = tokenizers.Tokenizer.from_str(FILES[name].decode()), TokenTable(FILES[name], SIZES[name] + 3)
    ids = data.draw(st.lists(st.integers(0, SIZES[name] - 1), max_size=12))
    written = lexicon.write(ids)
    try:
        written.decode()
    except UnicodeDecodeError:
        # How many replacement characters stand for broken bytes is the library's affair; that they are replaced is ours.
        assert "\ufffd" in lexicon.text(written)
    else:
        assert lexicon.text(written) == library.decode(ids, skip_special_tokens=True)


def test_a_unigram_vocabulary_with_metaspace_is_read() -> None:
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["\u2581the", -1.0], ["re", -2.0]], "byte_fallback": False}
    file = json.dumps({"version": "1.0", "added_tokens": [], "model": model, "decoder": SPACE_FIRST}).encode()
    ids = [1, 2, 1]
    lexicon = TokenTable(file, 3)
    assert lexicon.write(ids) == b" there the"
    assert lexicon.text(lexicon.write(ids)) == tokenizers.Tokenizer.from_str(file.decode()).decode(ids) == "there the"


def test_ids_unknown_to_the_tokenizer_write_nothing() -> None:
    lexicon = TokenTable(FILES["byte level"], 300)
    assert len(lexicon.pieces) == 300 and lexicon.write([65, 256, 299, 66]) == b"AB"


def test_added_token_outside_the_byte_alphabet_is_written_unchanged() -> None:
    content = json.loads(FILES["byte level"])
    content["added_tokens"].append({"id": 264, "content": "two words", "special": False, **FLAGS})
    file = json.dumps(content).encode()
    assert TokenTable(file, 265).write([264]) == b"two words"
    assert tokenizers.Tokenizer.from_str(file.decode()).decode([264]) == "two words"


@pytest.mark.parametrize(
    "decoder", [None, {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "Sequence", "decoders": []}]
)
def test_unsupported_vocabulary_kind_is_refused_by_name(decoder: dict[str, Any] | None) -> None:
    content = json.loads(FILES["byte level"]) | {"decoder": decoder}
    with pytest.raises(UnsupportedModel, match="tokenizer decoder"):
        TokenTable(json.dumps(content).encode(), 264).write([65])


def test_conversion_refuses_a_tokenizer_without_byte_information(tmp_path: Path) -> None:
    make_model(tmp_path / "checkpoint", 1, layers=1, width=16, heads=2, key_value_heads=1, context=64)
    file = tmp_path / "checkpoint" / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"decoder": {"type": "CTC"}}))
    with pytest.raises(UnsupportedModel, match="tokenizer decoder CTC"):
        convert(tmp_path / "checkpoint", tmp_path / "artifact")
    assert not (tmp_path / "artifact").exists()
    wanted = World().request(decode=dataclasses.replace(GREEDY, stop_strings=("x",)))
    with pytest.raises(CannotExecute, match="tokenizer decoder CTC"):
        AnswerBuilder(wanted, ZERO_DIGEST, TokenTexts(file.read_bytes(), 264))
    assert AnswerBuilder(World().request(), ZERO_DIGEST, TokenTexts(file.read_bytes(), 264)).reason is None


NO_NAMES = b'{"model":{"vocab":{}},"decoder":{"type":"ByteLevel"},"added_tokens":[%b]}'


@pytest.mark.parametrize(
    "file",
    [
        b"", b"\xff", b"[]", b"{}", b"[" * 200_000, '"\u2200"[['.encode("utf-16"),
        b'{"model":{"vocab":5},"decoder":{"type":"ByteLevel"}}', b'{"model":{"vocab":[["a"]]},"decoder":{"type":"ByteLevel"}}',
        b'{"model":{"vocab":{"\\ud800":65}},"decoder":{"type":"ByteLevel"}}',
        NO_NAMES % b'{"id":"65","content":"a","special":true}', NO_NAMES % b'{"id":65,"content":["a"],"special":false}',
    ],
)  # fmt: skip
def test_malformed_tokenizer_file_is_refused(file: bytes) -> None:
    with pytest.raises(UnsupportedModel, match="tokenizer"):
        TokenTable(file, 264).verify()


@given(st.lists(st.binary(max_size=4), max_size=12), st.lists(st.text("abé", min_size=1, max_size=3), min_size=1, max_size=3))
def test_stop_strings_are_found_across_token_borders(pieces: list[bytes], texts: list[str]) -> None:
    watch, so_far = StopStrings(texts), b""
    for piece in pieces:
        so_far += piece
        found = watch.add(piece)
        assert found == any(text.encode() in so_far for text in texts)
        if found:
            break
    cut = before_stop(so_far, texts)
    assert so_far.startswith(cut) and not any(text.encode() in cut for text in texts)
    assert cut == so_far or any(so_far[len(cut) :].startswith(text.encode()) for text in texts)


def test_stop_string_may_end_inside_a_token_and_a_character() -> None:
    watch = StopStrings(["é!"])
    assert [watch.add(piece) for piece in (b"a\xc3", b"\xa9", b"!b")] == [False, False, True]
    assert before_stop("aé!b".encode(), ["é!", "b"]) == b"a"
