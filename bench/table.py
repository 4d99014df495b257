"""Builds two tables of the seconds for generation and verification.

One is by lengths of prompt and answer and by batch, with the bound that the hardware sets. The other shows the growth with the
length of the answer.
"""

from typing import Any

from bench.child import Child
from bench.engines import LLAMACPP, NATIVE
from bench.models import Shape
from bench.workload import CLAIMS, PROMPT, Effort, Progress, prompt

Row = dict[str, Any]


def table(shape: Shape, ours: Child, effort: Effort, roof: dict[str, float], progress: Progress) -> list[Row]:
    """Returns one row for each prompt, answer and batch. Answers are generated one after another, so a batch takes the time of
    one answer times its size."""
    rows = []
    for asked in effort.table:
        for answer in effort.table:
            progress(f"table: prompt {asked}, answer {answer}")
            tokens = prompt(shape, asked)
            generated = ours.generate(tokens, answer)
            for batch in (1, CLAIMS):
                verified = ours.judge([(tokens, answer)] * batch, together=True)
                row = {"prompt": asked, "answer": answer, "batch": batch, "generate_s": batch * generated, "verify_s": verified}
                rows.append(_with_roof(row, bounds(shape, roof, asked, answer)))
    return rows


def growth(shape: Shape, ours: Child, peer: Child, effort: Effort, progress: Progress) -> list[Row]:
    """Returns the seconds to generate answers of growing length after a short prompt, and the seconds of one pass over each. Our
    engine and llama.cpp take turns."""
    rows = []
    for answer in effort.growth:
        tokens = prompt(shape, PROMPT)
        row: Row = {"prompt": PROMPT, "answer": answer}
        for child in (ours, peer):
            progress(f"growth: {child.name}, answer {answer}")
            row[f"generate_s {child.name}"] = child.generate(tokens, answer)
        for child in (ours, peer):
            progress(f"growth: {child.name}, one pass over {answer}")
            row[f"one_pass_s {child.name}"] = child.judge([(tokens, answer)])
        row["generate_over_llamacpp_q8"] = row[f"generate_s {LLAMACPP}"] / row[f"generate_s {NATIVE}"]
        row["verify_over_generate"] = row[f"generate_s {NATIVE}"] / row[f"one_pass_s {NATIVE}"]
        rows.append(rounded(row))
    return rows


def rounded(row: Row) -> Row:
    """Returns the row with four digits for each figure. More digits would not repeat in another run."""
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in row.items()}


def _with_roof(row: Row, bound: dict[str, float]) -> Row:
    batch = row["batch"]
    return rounded(
        row
        | {"verify_over_generate": row["generate_s"] / row["verify_s"], "roof_ratio": bound["generate"] / bound["verify"]}
        | {
            "generate_of_roof": batch * bound["generate"] / row["generate_s"],
            "verify_of_roof": batch * bound["verify"] / row["verify_s"],
        }
    )


def bounds(shape: Shape, roof: dict[str, float], asked: int, answer: int) -> dict[str, float]:
    """Returns the least seconds in which generation and verification of one claim are possible.

    Decoding reads all weights and the cache for each token. A pass multiplies: a prefill up to the head of one position, a
    verification up to the heads of all answered positions.
    """
    decode_bytes = sum(shape.body + shape.head + shape.cache_bytes_per_token * (asked + i) for i in range(1, answer))
    rate = roof["multiplications_per_second"]
    return {
        "generate": _multiplications(shape, asked, 1) / rate + decode_bytes / roof["bytes_per_second"],
        "verify": _multiplications(shape, asked + answer - 1, answer) / rate,
    }


def _multiplications(shape: Shape, tokens: int, heads: int) -> int:
    # Scores and weighted values: each token with itself and those before it.
    attention = 2 * shape.layers * shape.width * (tokens * (tokens + 1) // 2)
    return shape.body * tokens + shape.head * heads + attention
