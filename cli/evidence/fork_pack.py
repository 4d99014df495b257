"""`bytewise evidence fork-pack`: writes or verifies a fork pack, the file with which people can go on without this deployment."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import hex0x
from bytewise.service.exit_codes import Exit
from cli.options import NETWORK_FILE, RPC_URLS, RpcOption
from cli.output import OutputFormat, OutputOption, emit, plain

OutOption = Annotated[Path | None, typer.Option("--out", help="ZIP file to write; it must not exist.")]
VerifyOption = Annotated[Path | None, typer.Option("--verify", help="Verify this pack instead; no node is asked.")]
BlockOption = Annotated[int | None, typer.Option("--block", min=0, help="Block to take; by default the newest finalized one.")]
BookOption = Annotated[
    Path | None, typer.Option("--network", help="Address book of the network; with --verify, the one that the pack must be of.")
]


def fork_pack(
    out: OutOption = None,
    block: BlockOption = None,
    network: BookOption = None, rpc: RpcOption = RPC_URLS, verify: VerifyOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Write what people need who go on without this deployment to one file, or verify such a file.

    The file has the stake table at a block, every version of the parameters, disputes with their votes, a capsule of each dispute
    that ended, and a page that explains the file. The same block gives the same bytes. The chain node must have the block's
    state.

    Exit codes: 0 written, or it verifies, 2 the pack was altered or is of another network, 5 the node does not answer or lacks
    the state, 64 wrong input, no pack, or the file exists.

    Example: bytewise evidence fork-pack --out fork-pack.zip --network network.json --rpc http://127.0.0.1:8545
    """
    if (out is None) == (verify is None):
        raise ConfigurationError("--out", "give --out to write a pack, or --verify to check one")
    if verify is not None:
        _verify(verify, network, output)
    elif out is not None:
        _make(out, network or NETWORK_FILE, rpc, block, output)


def _make(out: Path, network_file: Path, rpc: list[str], block: int | None, output: OutputFormat) -> None:
    from bytewise.protocol.digests import sha256
    from bytewise.service.files import replace_file
    from bytewise_client.connection import chain_of
    from chain.client.address_book import read_network, verify_code
    from chain.fork_pack.maker import make_pack
    from chain.fork_pack.pack import PackRejected, read_pack
    from chain.reads.reader import SnapshotReader

    if out.exists():
        raise ConfigurationError(out.name, "exists; evidence is never overwritten: name a new file")
    network = read_network(network_file)
    chain = chain_of(rpc, network.chain_id)
    head, newest = chain.head("finalized").number, chain.head().number
    if block is not None and not network.deploy_block <= block <= newest:
        raise ConfigurationError("--block", f"{block}: the network is in blocks {network.deploy_block} to {newest}")
    made = make_pack(SnapshotReader(chain, verify_code(chain, network)), network, head if block is None else block)
    try:
        pack = read_pack(made.data, network)
    except PackRejected as error:
        _refuse(f"what the node gave is no pack that verifies: {error.args[1]}")
        return
    replace_file(out, made.data)
    result = {
        "file": str(out), "block": str(pack.manifest.block), "files": len(pack.files), "bytes": len(made.data),
        "sha256": hex0x(sha256(made.data)), "without_capsule": [hex0x(each) for each in made.without_capsule],
    }  # fmt: skip
    emit(output, result, lambda: _tell_made(result))
    for each in made.without_capsule:
        Console(stderr=True).print(plain(f"no capsule of dispute {hex0x(each)}: the node could not prove it", "yellow"))


def _tell_made(result: dict[str, Any]) -> None:
    length, digest = f"{result['files']} files, {result['bytes']} bytes", result["sha256"]
    print(f"{result['file']}: block {result['block']}, {length}, SHA-256 {digest}")


def _verify(file: Path, network_file: Path | None, output: OutputFormat) -> None:
    from bytewise.protocol.digests import sha256
    from chain.client.address_book import read_network
    from chain.fork_pack.pack import FIXED, MAX_BYTES, PackRejected, read_pack

    network = None if network_file is None else read_network(network_file)
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
        pack = read_pack(data, network)
    except OSError as error:
        raise ConfigurationError(file.name, f"{error.strerror}: name a file of `bytewise evidence fork-pack`") from None
    except PackRejected as error:
        if not error.args[0]:
            raise ConfigurationError(file.name, f"is no fork pack: {error.args[1]}") from None
        _refuse(error.args[1])
        return
    manifest = pack.manifest
    result = {
        "chain_id": str(manifest.chain_id), "block": str(manifest.block), "block_hash": hex0x(manifest.block_hash),
        "accounts": len(pack.stake.accounts), "capsules": len(pack.files) - len(FIXED), "sha256": hex0x(sha256(data)),
    }  # fmt: skip
    emit(output, result, lambda: _print(result))


def _print(result: dict[str, Any]) -> None:
    for name, value in result.items():
        Console().print(plain(f"{name:<11}{value}"), soft_wrap=True)


def _refuse(line: str) -> None:
    Console(stderr=True).print(plain(line, "red"), soft_wrap=True)
    raise typer.Exit(Exit.MISMATCH)
