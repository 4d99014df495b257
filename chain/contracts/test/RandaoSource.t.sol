// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {RLP} from "@openzeppelin/contracts/utils/RLP.sol";
import {BlockHeader} from "@openzeppelin/contracts/utils/BlockHeader.sol";
import {HeaderLib} from "../src/libraries/HeaderLib.sol";
import {RandaoSource} from "../src/court/RandaoSource.sol";
import {IRandaoSource} from "../src/interfaces/IRandaoSource.sol";
import {Check} from "./Vm.sol";

/// @title Mixes of named blocks. Headers of a running chain are in `tests/unit/chain/test_randao.py`
/// @dev Each rule was seen to fail: without the comparison of hashes (1), with the chain id left out of the seed (4), with the timestamp for the mix (5), without the
///      comparison of two mixes (6).
contract RandaoSourceTest is Check {
    using RLP for RLP.Encoder;

    uint256 private constant NOW = 100_000;
    uint256 private constant SHORTEST = 128;
    uint256 private constant LONGEST = 50_400;

    RandaoSource private source;

    event log_named_uint(string key, uint256 val);

    function setUp() public {
        vm.roll(NOW);
        known(NOW - 2, header(NOW - 2, "first"));
        known(NOW - 1, header(NOW - 1, "second"));
        source = deployed(NOW - 2, header(NOW - 2, "first"), NOW - 1, header(NOW - 1, "second"));
    }

    function deployed(uint256 a, bytes memory headerA, uint256 b, bytes memory headerB) private returns (RandaoSource) {
        return new RandaoSource(SHORTEST, LONGEST, a, headerA, b, headerB);
    }

    function known(uint256 number, bytes memory rlp) private {
        vm.setBlockhash(number, keccak256(rlp));
    }

    /// @dev A header in the form of today's chains: 21 fields.
    function header(uint256 number, bytes32 mix) private pure returns (bytes memory) {
        RLP.Encoder memory list = RLP.encoder();
        list.push(keccak256(abi.encode("parent", number))).push(keccak256("ommers")).push(address(0xFEE));
        list.push(keccak256("state")).push(keccak256("transactions")).push(keccak256("receipts"));
        list.push(new bytes(256)).push(uint256(0)).push(number).push(uint256(36_000_000)).push(uint256(1));
        list.push(uint256(1_800_000_000) + number).push(bytes("extra")).push(mix).push(abi.encodePacked(bytes8(0)));
        list.push(uint256(7)).push(keccak256("withdrawals")).push(uint256(0)).push(uint256(0));
        list.push(keccak256("beacon")).push(keccak256("requests"));
        return list.encode();
    }

    /// @dev A named block, over, with the header that the chain has of it.
    function over(uint256 ahead, bytes32 mix) private returns (uint256 number, bytes memory rlp) {
        number = NOW + bound(ahead, SHORTEST, LONGEST);
        rlp = header(number, mix);
        vm.roll(number + 1);
        known(number, rlp);
    }

    /// @dev Fails under 4 and 5.
    function test_the_seed_is_the_mix_of_the_named_block(uint256 ahead, bytes32 mix, uint64 chain) public {
        vm.assume(chain != 0);
        (uint256 number, bytes memory rlp) = over(ahead, mix);
        vm.chainId(chain);
        same(source.seedOf(number, rlp), keccak256(abi.encode(mix, uint256(chain), number)), "seed");
        that(!source.isExpired(number), "can be read");
    }

    /// @dev Fails under 1.
    function test_a_header_with_one_other_byte_is_refused(uint256 ahead, bytes32 mix, uint256 place, uint8 with_)
        public
    {
        (uint256 number, bytes memory rlp) = over(ahead, mix);
        bytes32 want = keccak256(rlp);
        uint256 i = place % rlp.length;
        vm.assume(rlp[i] != bytes1(with_));
        rlp[i] = bytes1(with_);
        vm.expectRevert(abi.encodeWithSelector(IRandaoSource.WrongHeader.selector, number, keccak256(rlp), want));
        source.seedOf(number, rlp);
    }

    function test_arbitrary_bytes_and_headers_of_other_blocks_are_refused(uint256 ahead, bytes calldata raw) public {
        (uint256 number, bytes memory rlp) = over(ahead, "mix");
        known(number - 1, header(number - 1, "mix"));
        vm.expectPartialRevert(IRandaoSource.WrongHeader.selector);
        source.seedOf(number, raw);
        vm.expectPartialRevert(IRandaoSource.WrongHeader.selector);
        source.seedOf(number, header(number - 1, "mix"));
        source.seedOf(number, rlp);
    }

    function test_a_block_that_is_not_over_has_no_seed(uint256 ahead, uint256 before) public {
        uint256 number = NOW + bound(ahead, SHORTEST, LONGEST);
        vm.roll(number - before % SHORTEST);
        bytes memory refusal = abi.encodeWithSelector(IRandaoSource.SeedTooEarly.selector, number, block.number);
        vm.expectRevert(refusal);
        source.seedOf(number, header(number, "mix"));
        that(!source.isExpired(number), "can still come");
    }

    /// @dev No history contract stands here, so a hash is forgotten after 256 blocks.
    function test_a_block_that_the_chain_forgot_is_expired(uint256 ahead, uint256 late) public {
        (uint256 number, bytes memory rlp) = over(ahead, "mix");
        vm.roll(number + bound(late, 257, 10_000_000));
        bytes memory refusal = abi.encodeWithSelector(IRandaoSource.SeedExpired.selector, number, block.number);
        vm.expectRevert(refusal);
        source.seedOf(number, rlp);
        that(source.isExpired(number), "expired");
    }

    /// @dev Whatever fields a header has besides: compared with what OpenZeppelin reads.
    function test_the_mix_is_found_behind_fields_of_any_length(bytes32 mix, uint256 number, bytes calldata extra)
        public
        view
    {
        RLP.Encoder memory list = RLP.encoder();
        list.push(keccak256("parent")).push(keccak256("ommers")).push(address(0xFEE));
        list.push(keccak256("state")).push(keccak256("transactions")).push(keccak256("receipts"));
        list.push(new bytes(256)).push(uint256(0)).push(number % 1e9).push(number >> 128).push(number);
        list.push(number % 128).push(extra).push(mix).push(abi.encodePacked(bytes8(0)));
        bytes memory rlp = list.encode();
        same(this.mixIn(rlp), BlockHeader.getPrevRandao(rlp), "mix");
        same(this.mixIn(rlp), mix, "and this one");
    }

    function mixIn(bytes calldata rlp) external pure returns (bytes32) {
        return HeaderLib.prevRandao(rlp);
    }

    function test_bytes_that_are_no_header_are_refused(bytes calldata raw, uint8 cut) public {
        bytes memory rlp = header(NOW, "mix");
        bytes memory part = new bytes(cut);
        for (uint256 i = 0; i < cut; ++i) {
            part[i] = rlp[i];
        }
        vm.expectPartialRevert(HeaderLib.NotHeader.selector);
        this.mixIn(part);
        vm.assume(raw.length < 33 || uint8(raw[0]) < 0xf8);
        vm.expectPartialRevert(HeaderLib.NotHeader.selector);
        this.mixIn(raw);
    }

    /// @dev Fails under 6.
    function test_a_chain_of_constant_mixes_has_no_source(bytes32 mix, uint8 apart) public {
        (uint256 a, uint256 b) = (NOW - 1, NOW - 1 - apart % 200);
        known(a, header(a, mix));
        known(b, header(b, mix));
        bytes memory refusal = abi.encodeWithSelector(IRandaoSource.MixesAreConstant.selector, mix);
        vm.expectRevert(refusal);
        deployed(a, header(a, mix), b, header(b, mix));
    }

    function test_the_headers_of_deployment_are_the_chains(bytes32 mix, uint64 ahead) public {
        bytes memory made = header(NOW - 1, mix);
        vm.assume(mix != "second");
        vm.expectPartialRevert(IRandaoSource.WrongHeader.selector);
        deployed(NOW - 2, header(NOW - 2, "first"), NOW - 1, made);
        vm.expectPartialRevert(IRandaoSource.SeedTooEarly.selector);
        deployed(NOW + uint256(ahead), made, NOW - 2, header(NOW - 2, "first"));
    }

    function test_a_lookahead_that_lets_a_proposer_choose_is_refused(uint256 shortest, uint256 longest) public {
        vm.assume(shortest < 2 || longest <= shortest);
        bytes memory a = header(NOW - 2, "first");
        bytes memory b = header(NOW - 1, "second");
        vm.expectRevert(abi.encodeWithSelector(IRandaoSource.BadLookahead.selector, shortest, longest));
        new RandaoSource(shortest, longest, NOW - 2, a, NOW - 1, b);
        shortest %= 2;
        vm.expectRevert(abi.encodeWithSelector(IRandaoSource.BadLookahead.selector, shortest, LONGEST));
        new RandaoSource(shortest, LONGEST, NOW - 2, a, NOW - 1, b);
    }

    /// forge-config: default.fuzz.runs = 1
    function test_reading_a_seed_is_cheap(bytes32 mix) public {
        vm.assume(mix != 0);
        (uint256 number, bytes memory rlp) = over(SHORTEST, mix);
        vm.cool(address(source));
        uint256 before = gasleft();
        source.seedOf(number, rlp);
        emit log_named_uint("seed_of", before - gasleft());
        that(before - gasleft() < 20_000, "seed");
    }
}
