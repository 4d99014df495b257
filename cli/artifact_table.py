"""What `bytewise model show` prints of a manifest."""

from typing import TYPE_CHECKING

from bytewise.protocol.units import hex0x

if TYPE_CHECKING:
    # Torch takes seconds to import: only the verbs that need it do.
    from bytewise.inference.manifest import Architecture, Equalisation, Manifest


def described(manifest: "Manifest") -> dict[str, str]:
    """Lines for people, by what they are about."""
    precision, answers = manifest.precision, manifest.generation
    lines = {
        "model id": hex0x(manifest.model_id),
        "profile": manifest.profile,
        "architecture": _shape(manifest.architecture),
        "context": f"{manifest.architecture.max_context} tokens",
    }
    lines["weights"] = f"{precision.weight_bits} bits, head {precision.head_bits} bits, embedding {precision.embedding}"
    lines["activations"] = f"proven below 2^{manifest.bound - 126}"
    lines["equalised"] = _equalised(manifest.equalisation)
    lines["answers"] = (
        f"temperature {answers.temperature}, top_p {answers.top_p}, top_k {answers.top_k}, "
        f"{'at most ' + str(answers.max_new_tokens) if answers.max_new_tokens else 'any number of'} tokens, "
        f"stop tokens {', '.join(map(str, manifest.stop_tokens)) or 'none'}"
    )
    lines["tokenizer"], lines["chat template"] = hex0x(manifest.tokenizer_digest), hex0x(manifest.template_digest)
    for file in manifest.files:
        lines[file.name] = f"{file.size:,} bytes in {len(file.pieces)} hashed pieces"
    return lines


def _shape(shape: "Architecture") -> str:
    experts = f", {shape.experts_per_token} of {shape.experts} experts" if shape.experts else ""
    heads = f"{shape.heads} heads of {shape.head_width} on {shape.key_value_heads}"
    return f"{shape.family}, {shape.layers} layers of {shape.width}, {heads}{experts}, vocabulary {shape.vocabulary}"


def _equalised(done: "Equalisation | None") -> str:
    if done is None:
        return "no: told to leave channels alone"
    strengths = [pair.quarters for pair in done.pairs]
    counts = ", ".join(f"{strengths.count(n)} at {n}/4" for n in sorted(set(strengths) - {0}))
    skipped = f"; {len(done.skipped)} pairs skipped" if done.skipped else ""
    moved = f"{len(strengths) - strengths.count(0)} of {len(strengths)} pairs{f' ({counts})' if counts else ''}"
    return f"{moved} on {done.tokens} tokens{skipped}"
