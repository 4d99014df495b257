// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IStakeTree} from "../../src/interfaces/IStakeTree.sol";
import {DrawnAccounts} from "../DrawnAccounts.sol";
import {IRounds} from "../../src/interfaces/IRounds.sol";
import {Bls} from "../../src/libraries/Bls.sol";
import {Ledger} from "../../src/stake/Ledger.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Certified} from "../../src/libraries/Signed.sol";
import {Finding, Receipt, StructHashes} from "../../src/libraries/Types.sol";
import {ParamSet} from "../../src/libraries/Types.sol";
import {IDisputes} from "../../src/interfaces/IDisputes.sol";
import {ILedger} from "../../src/interfaces/ILedger.sol";
import {BlsSecret} from "../../campaign/BlsSecret.sol";
import {Crowd} from "./Crowd.sol";
import {Network} from "../../campaign/Network.sol";

/// @notice What forge measured of the last call.
interface Meter {
    struct Gas {
        uint64 gasLimit;
        uint64 gasTotalUsed;
        uint64 gasMemoryUsed;
        int64 gasRefunded;
        uint64 gasRemaining;
    }

    function lastCallGas() external view returns (Gas memory);
}

/// @title A dispute whose every step is a transaction of its own, cold storage, 21,000 and calldata included
/// @dev Only under `isolate`. `bench/chain.py` reads the figures that are printed.
abstract contract GasBase is Network {
    using DrawnAccounts for IStakeTree;

    /// @dev EIP-7825 caps a transaction at 2^24 gas.
    uint256 internal constant CAP = 1 << 24;

    /// @dev Makes mixes; with this one a dispute's 31 seats have 31 holders.
    bytes32 internal constant SALT = "mix2";

    event log_named_uint(string key, uint256 val);

    Crowd internal crowd;

    function parameters() internal pure virtual override returns (ParamSet memory p) {
        p = super.parameters();
        p.committee.seats = [uint16(31), 63, 127];
        p.money.minVerifierStake = 5 ether;
        (p.money.absentPenalty, p.money.noRevealPenalty, p.money.wrongPenalty) = (0.005 ether, 0.006 ether, 0.007 ether);
        p.shares.maxBatch = 188;
    }

    function setUp() public virtual {
        vm.warp(1_800_000_000);
        vm.roll(100_000);
        vm.deal(address(this), 1e6 ether);
        deploy(parameters());
        crowd = new Crowd(vault, registry, blsKeys);
        registry.addPool(POOL, tree);
        registry.setMeasurement(MEASUREMENT, true);
        crowd.grow(20, POOL, MEASUREMENT);
        pass(EPOCH_BLOCKS * BLOCK_TIME);
        _admit(ENVIRONMENT, POOL);
        _admit(MODEL, 0);
        openKeyEpoch();
        secretOf[operatorAt(0)] = OPERATOR_KEY;
        vm.deal(operatorAt(0), 1e5 ether);
        stake(operatorAt(0), 10_000 ether);
        vm.prank(operatorAt(0));
        registry.registerOperator("https://operator.example");
        ledger.fund{value: 100 ether}();
        _lived();
    }

    /// @dev Nothing that is measured is the first of its kind: a whole dispute before.
    function _lived() private {
        anchored(receipt(operatorAt(0), 1, ENVIRONMENT));
        (Receipt memory r, uint64 batchId,) = posted(1);
        (bytes32 id,) = openedAt(r, batchId);
        drawn(id, "before");
        unanimous(id, equal());
        finalized(id);
        settlement.settleSeats(id, 1, 255);
    }

    function _admit(bytes32 digest, bytes32 pool) private {
        registry.propose(digest, pool, "vectors", "");
        for (uint256 i = 0; i < 20; ++i) {
            vm.prank(vm.addr(0xC0FFEE000000 + i));
            registry.certify(digest, "vectors");
        }
        registry.activate(digest);
    }

    /// @dev A pool of so many, weighing; each call of the crowd is a transaction of its own.
    function populated(uint256 people) internal {
        while (crowd.size() + 1_000 < people) {
            crowd.grow(crowd.size() + 1_000, POOL, MEASUREMENT);
        }
        crowd.grow(people, POOL, MEASUREMENT);
        pass(EPOCH_BLOCKS * BLOCK_TIME);
    }

    /// @dev Everybody has been paid before: what the first payment costs more is paid once in a verifier's life.
    function paidBefore() internal {
        address[] memory list = new address[](crowd.size());
        for (uint256 i = 0; i < list.length; ++i) {
            list[i] = vm.addr(0xC0FFEE000000 + i);
        }
        Ledger(address(ledger)).setMover(address(this), true);
        ledger.take{value: list.length * 1 gwei}("before", address(this), ILedger.Source.FEE);
        ledger.creditEach("before", list, 1 gwei, ILedger.Reason.SEAT_PAY);
        Ledger(address(ledger)).setMover(address(this), false);
        pass(params.withdrawDelay() + 1 hours);
    }

    // --- measuring ---

    /// @dev Gas of the call before, as the receipt of its transaction would say; with what was given back it fits one.
    function spent() internal view returns (uint256) {
        Meter.Gas memory g = Meter(address(vm)).lastCallGas();
        uint256 gross = g.gasTotalUsed + uint64(g.gasRefunded);
        if (gross > CAP) revert Differ("gas of one transaction", gross, CAP);
        return g.gasTotalUsed;
    }

    function told(string memory name, uint256 gas) internal returns (uint256) {
        emit log_named_uint(name, gas);
        return gas;
    }

    // --- steps ---

    function posted(uint32 count) internal returns (Receipt memory r, uint64 batchId, uint256 gas) {
        r = receipt(operatorAt(0), anchor.lastSeq(operatorAt(0)) + 1, ENVIRONMENT);
        bytes32 leaf = StructHashes.batchLeaf(anchor.receiptId(r), r.seq);
        uint256 fee = market.feeFor(count);
        batchId = anchor.batchCount();
        bytes memory data = abi.encodeCall(anchor.post, (headerOf(r, count, leaf)));
        vm.prank(r.operator);
        (bool ok,) = address(anchor).call{value: fee}(data);
        gas = spent();
        that(ok, "post");
    }

    function openedAt(Receipt memory r, uint64 batchId) internal returns (bytes32 id, uint256 gas) {
        uint256 bond = params.requiredBond(1);
        bytes32 alt = keccak256("alt");
        bytes memory data = abi.encodeCall(disputes.open, (r, signature(r), batchId, none(), alt));
        id = disputes.disputeId(anchor.receiptId(r));
        (bool ok,) = address(disputes).call{value: bond}(data);
        gas = spent();
        that(ok, "open");
    }

    /// @dev Keys for whoever will be drawn: they count as of the block before the seed's.
    function keysForAll(bytes32 id, bytes32 salt) internal {
        uint256 seedBlock = roundOf(id).seedBlock;
        if (tree.epochStart(tree.epoch() + 1) <= seedBlock) reach(tree.epochStart(tree.epoch() + 1));
        bytes32 mix = keccak256(abi.encode(salt, seedBlock));
        bytes32 seed = keccak256(abi.encode(mix, block.chainid, seedBlock));
        address[] memory excluded = new address[](1);
        excluded[0] = address(this);
        uint16 seats = roundOf(id).seats;
        crowd.register(tree.draw(seed, seedBlock, id, 1, excluded, 0, seats));
    }

    function measured(address to, bytes memory data, string memory what) internal returns (uint256 gas) {
        (bool ok,) = to.call(data);
        gas = spent();
        that(ok, what);
    }

    /// @dev With the header of the seed block.
    function drawnAll(bytes32 id, bytes32 salt) internal returns (uint256) {
        bytes memory rlp = seeded(id, salt);
        return measured(address(disputes), abi.encodeCall(disputes.draw, (id, 255, rlp)), "draw");
    }

    // --- certificates ---

    /// @dev Holders of all seats, in order.
    function holders(bytes32 id) internal view returns (address[] memory list) {
        IRounds.Member[] memory all = members(id);
        list = new address[](roundOf(id).seats);
        for (uint256 i = 0; i < all.length; ++i) {
            for (uint256 seat = 0; seat < list.length; ++seat) {
                if (all[i].seatMask & (1 << seat) != 0) list[seat] = all[i].voter;
            }
        }
    }

    /// @dev `signers` without the seats of members of whom not all seats are in it: they sign with all or with none.
    function whole(address[] memory all, uint256 signers) internal pure returns (uint256) {
        for (uint256 i = 0; i < all.length; ++i) {
            for (uint256 k = 0; k < all.length; ++k) {
                if (all[i] == all[k] && signers & (1 << i) == 0) signers &= ~(1 << k);
            }
        }
        return signers;
    }

    function part(address[] memory list, uint256 from, uint256 to) internal pure returns (address[] memory out) {
        out = new address[](to - from);
        for (uint256 i = from; i < to; ++i) {
            out[i - from] = list[i];
        }
    }

    /// @dev A certificate for the operator, signed by the members that hold seats of `signers`.
    function certificate(bytes32 id, address[] memory all, uint256 signers, bytes32 root)
        internal
        view
        returns (bytes memory)
    {
        Finding memory f = Finding(id, disputes.dispute(id).round, 1, 0, TOKENS, TRACE, keccak256("round"));
        bytes32 structHash = StructHashes.certified(Certified(StructHashes.finding(f), root, signers));
        bytes32 digest = MessageHashUtils.toTypedDataHash(rounds.domainSeparator(), structHash);
        uint256 sum = 0;
        address[] memory mine = new address[](all.length);
        uint256 used = 0;
        for (uint256 i = 0; i < all.length; ++i) {
            if (signers & (1 << i) == 0) continue;
            sum = addmod(sum, crowd.secretOf(all[i]), BlsSecret.ORDER);
            mine[used++] = all[i];
        }
        Bls.G1[] memory points = crowd.keysOf(part(mine, 0, used));
        return abi.encodeCall(rounds.certify, (f, root, signers, points, BlsSecret.sign(sum, digest, Bls.SIGNATURE)));
    }

    // --- steps of one moment ---

    address[] private _to;
    bytes[] private _data;
    Keeper private immutable _keeper = new Keeper();

    function step(address to, bytes memory data) internal {
        _to.push(to);
        _data.push(data);
    }

    /// @dev What was listed by `step`, in one transaction.
    function together(string memory name) internal returns (uint256 gas) {
        gas = told(name, measured(address(_keeper), abi.encodeCall(Keeper.run, (_to, _data)), name));
        delete _to;
        delete _data;
    }
}

/// @title What anybody may use who sends several steps at once
contract Keeper {
    error Failed(uint256 i, bytes reason);

    function run(address[] calldata to, bytes[] calldata data) external {
        for (uint256 i = 0; i < to.length; ++i) {
            (bool ok, bytes memory reason) = to[i].call(data[i]);
            if (!ok) revert Failed(i, reason);
        }
    }
}
