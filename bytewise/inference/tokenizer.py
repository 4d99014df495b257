"""Conversion of text to tokens and back. Only operators and clients need it, because receipts carry token ids (design section
4).

The chat template runs in Jinja's immutable sandbox. A text that names a control token is refused, so no message can take
another role.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import tokenizers
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bytewise.inference.artifact.token_table import TokenTable
from bytewise.inference.manifest import TEMPLATE_FILE, TOKENIZER_FILE, VerifiedArtifact
from bytewise.inference.sampling.constraint import Schemas, before_stop
from bytewise.protocol.errors.actors import ArtifactMismatch, BadRequest

ROLES = ("system", "user", "assistant", "tool")
"""Roles of chat messages."""


class Tokenizer:
    """The tokenizer and chat template of one artifact."""

    def __init__(self, artifact: VerifiedArtifact[Any]) -> None:
        self._tokens = tokenizers.Tokenizer.from_str(artifact.content[TOKENIZER_FILE].decode())
        sandbox = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        sandbox.globals["raise_exception"] = _raise
        try:
            self._template = sandbox.from_string(artifact.content[TEMPLATE_FILE].decode())
        except (TemplateError, UnicodeDecodeError) as error:
            raise ArtifactMismatch(artifact.name, f"{TEMPLATE_FILE}: {str(error)[:100]}") from None
        manifest = artifact.manifest
        self.vocabulary = manifest.architecture.vocabulary
        self._lexicon = TokenTable(artifact.content[TOKENIZER_FILE], self.vocabulary)
        self._schemas = Schemas(self._lexicon)
        self.stop_tokens: tuple[int, ...] = manifest.stop_tokens
        begin = None if manifest.begin_token is None else self._tokens.id_to_token(manifest.begin_token)
        end = self._tokens.id_to_token(manifest.stop_tokens[0]) if manifest.stop_tokens else None
        self._names = {"bos_token": begin or "", "eos_token": end or ""}
        added = self._tokens.get_added_tokens_decoder().values()
        self._control = tuple(token.content for token in added if token.special)

    def render(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Returns the prompt tokens of a chat. Raises `BadRequest` if there is no message, if a message is malformed or names a
        control token, or if the chat template refuses the chat."""
        if not messages:
            raise BadRequest("messages", "is empty")
        checked = [self._message(i, message) for i, message in enumerate(messages)]
        try:
            text = self._template.render(messages=checked, add_generation_prompt=True, **self._names)
        except TemplateError as error:
            raise BadRequest("messages", f"the chat template refused them: {str(error)[:100]}") from None
        return self.encode(text)

    def encode(self, text: str) -> tuple[int, ...]:
        """Returns the tokens of rendered text. Names of control tokens in the text become control tokens."""
        return tuple(self._tokens.encode(text, add_special_tokens=False).ids)

    def text(self, token_ids: Sequence[int], stop_strings: Sequence[str] = ()) -> str:
        """Returns the text of an answer up to its first stop string, without control tokens. Bytes that are not UTF-8 are
        replaced."""
        return self._lexicon.text(before_stop(self.written(token_ids), stop_strings))

    def text_with_control(self, token_ids: Sequence[int]) -> str:
        """Returns the text of a prompt, including the names of control tokens. These names separate the roles of the prompt.
        Unknown ids give no text."""
        return str(self._tokens.decode(list(token_ids), skip_special_tokens=False))

    def written(self, token_ids: Sequence[int]) -> bytes:
        """Returns the bytes that these tokens stand for. Control tokens and unknown ids have no bytes."""
        return self._lexicon.write(token_ids)

    def refusal(self, schema: str) -> str:
        """Returns the reason why this model refuses a JSON schema (`Schemas.refusal`). Returns an empty string if it accepts the
        schema."""
        return self._schemas.refusal(schema)

    def _message(self, index: int, message: Mapping[str, Any]) -> dict[str, str]:
        role, content = message.get("role"), message.get("content")
        if role not in ROLES or not isinstance(content, str):
            raise BadRequest(f"messages[{index}]", "needs a known role and a text content")
        if any(token in content for token in self._control):
            raise BadRequest(f"messages[{index}].content", "names a control token")
        return {"role": str(role), "content": content}


def _raise(text: str) -> NoReturn:
    raise TemplateError(text)
